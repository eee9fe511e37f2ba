//! BBR, version 3 (draft-ietf-ccwg-bbr): sets rate and window according to a model of the path,
//! which consists of delivery rates, round trips and losses.
//!
//! ```text
//!   sent, acked, lost ─► rate      delivery rate samples
//!                        model     max_bw, min_rtt, extra_acked and bounds from losses
//!                        cycle     Startup ─► Drain ─► ProbeBW: DOWN, CRUISE, REFILL, UP; ProbeRTT
//!                        sender    pace = gain · bw, window = gain · bw · min_rtt + extra_acked
//! ```
//!
//! Names in comments are from the draft. All values are integers in bytes, nanoseconds and bytes
//! per second; gains are in hundredths.
//!
//! This implementation differs from the draft in the following points. Snapshots of packets are
//! taken at most 32 times per round trip ([`rate`]). Packets lost together are assumed to be evenly
//! spread between the first and the last. Persistent congestion (RFC 9002 §7.6) replaces a
//! retransmission timeout. Because laws use no random numbers, the values that the draft draws at
//! random are computed from the time and the bytes delivered. There is no offload budget beyond the
//! send quantum. The draft leaves the response to a CE mark open: see `sender/marks.rs`.

mod aggregation;
mod bounds;
mod cycle;
mod filters;
mod full_pipe;
mod min_rtt;
mod params;
mod rate;
mod sender;
#[cfg(test)]
mod tests;

pub use sender::Bbr;
