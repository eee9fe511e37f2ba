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
//! congestion there itself ([`hidden`](crate::bottleneck)).

mod competitor;
mod covered;
mod link;
#[cfg(test)]
mod oracle_tests;
mod params;
mod receiver;
mod table;
#[cfg(test)]
mod tests;

pub use link::XcpILink;
pub use receiver::ReceiverClouds;
