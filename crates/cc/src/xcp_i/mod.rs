//! XCP-i: XCP on paths that also have hops without XCP (the XCP-i paper: Lopez-Pacheco, Pham,
//! Lefèvre, "XCP-i: eXplicit Control Protocol for heterogeneous inter-networking of high-speed
//! networks").
//!
//! ```text
//!   XCP router k−1 ──► cloud: hops that are not XCP routers ──► port of router k
//!                                                               virtual router per upstream ─► XCP as usual
//! ```
//!
//! Because only XCP routers decrement a header's `xcp_ttl`, a lower IP TTL indicates a *cloud*, and
//! the header names the router in front of it. For each upstream router, the port has a *virtual
//! router*: an XCP controller whose link is the cloud. It lowers the requests of packets before the
//! port's own controller does.
//!
//! **Available and spare bandwidth.** The paper's equation 1 uses the available bandwidth BW of an
//! estimate instead of XCP's spare bandwidth S. However, S is measured in each interval and BW is
//! not, so the same BW would be given again and again between two estimates. Therefore an estimate
//! made at t_e is converted to a capacity, C_v = BW + y_v(t_e), where y_v is the rate at which
//! packets arrive from the upstream router, measured over the same period as the estimate. The
//! virtual router then gives α·(C_v − y_v) − β·Q_v/d with y_v measured in each interval. If BW is
//! new in each interval, this is the paper's equation. Q_v is the queue in the cloud, as far as the
//! estimate covers it, because the port's own controller handles the port's queue.
//!
//! **Without an estimate**, a virtual router cannot answer. The port answers as if there were no
//! cloud, and the packet states that a cloud is not accounted for, so that its sender looks for
//! congestion there itself ([`bottleneck`](crate::bottleneck)).

mod competitor;
#[cfg(test)]
mod oracle_tests;
mod port;
mod receiver;
mod table;
#[cfg(test)]
mod tests;

use crate::base::Duration;
pub use port::XcpILink;
pub use receiver::ReceiverClouds;

// Parameters of the part of a port that detects and measures clouds. Shares are integers in 10^-6.

/// Maximum number of upstream routers per port. Each router with a known cloud needs about 100 kB.
pub(crate) const MOST_UPSTREAMS: usize = 32;
/// Maximum number of upstream routers without a known cloud per IPv6 prefix of 64 bits, because a
/// host can use all addresses of such a prefix.
pub(crate) const MOST_OF_PREFIX: usize = 8;
/// An upstream router that has sent no packets for this time is forgotten.
pub(crate) const INACTIVE: Duration = Duration::from_secs(10);
/// An upstream router whose cloud is still unknown after this time can be replaced.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Flows want more if a request was refused within this time.
pub(crate) const WANTS: Duration = Duration::from_millis(500);
/// The largest number of packets that a header can stand for.
pub(crate) const MOST_COVERS: u16 = 64;
/// The period over which packets without a header are counted.
pub(crate) const COVERED_WINDOW: Duration = Duration::from_secs(1);

/// The part of a cloud's capacity that a virtual router takes per interval in addition to its
/// estimate.
pub(crate) const SHARED_GIVEN_PPM: u64 = 19_000;
/// The part of its own flows' rate that a virtual router leaves: see [`table`](super::table).
pub(crate) const SHARED_TAKEN_PPM: u64 = 20_000;
