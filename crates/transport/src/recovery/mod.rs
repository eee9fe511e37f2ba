//! Loss recovery (RFC 9002): round-trip times, sent packets, loss detection, probe timeouts,
//! pacing.
//!
//! ```text
//!   on_sent ──► Recovery ──┬─ RttEstimator          one per path
//!   on_ack  ──►            ├─ LossDetector × 3      one per packet number space: sent packets,
//!   on_timeout ►           │                        holes, past losses, reordering thresholds
//!                          └─ ProbeTimeout          backoff over all spaces
//!   AckOutcome, LossOutcome, Timeout ──► connection ──► pathmark_cc::Controller
//!   Pacer: when the next bytes may leave
//! ```
//!
//! The type parameter `F` describes the contents of a packet. It is returned exactly once: when the
//! packet is acknowledged or lost. The cost of an ACK frame is proportional to its ranges plus the
//! packets that it newly acknowledges or declares lost, never to the window.

mod holes;
mod loss;
mod outage;
mod outcome;
mod overtaking;
mod pacer;
mod persistent;
mod pto;
mod reordering;
mod rtt;
mod sent;
mod spaces;
mod spurious;
mod window_use;

#[cfg(test)]
mod tests;

pub use loss::LossDetector;
pub use outcome::{AckError, Fate, Newly, NewlyLost};
pub use pacer::Pacer;
pub use pto::ProbeTimeout;
pub use reordering::Reordering;
pub use rtt::{GRANULARITY, INITIAL_RTT, RttEstimator};
#[cfg(test)]
pub(crate) use sent::packet;
pub use sent::{PathNumber, Probe, SentPacket, SentPackets};
pub use spaces::{AckOutcome, LossOutcome, PathRecovery, Recovery, Timeout};
