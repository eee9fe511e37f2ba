//! XCP-i: XCP on paths that also have hops of other kinds (the XCP-i paper: Lopez-Pacheco, Pham,
//! Lefèvre, "XCP-i: eXplicit Control Protocol for heterogeneous inter-networking of high-speed
//! networks").
//!
//! ```text
//!   XCP router k−1 ──► cloud: hops that are no XCP routers ──► port of router k
//!                                                               virtual router per upstream ─► XCP as usual
//! ```
//!
//! A header's `xcp_ttl` falls at XCP routers only, so that a lower IP TTL shows a *cloud*, and the
//! header names the router before it. For each such upstream router the port has a *virtual
//! router*: an XCP controller whose link is the cloud. It lowers what packets ask for before the
//! port's own controller does.
//!
//! **Available against spare bandwidth.** The paper's equation 1 has the available bandwidth BW of
//! an estimate in the place of XCP's spare bandwidth S. S is measured in each interval, BW is not:
//! between two estimates the same BW would be given again and again. So an estimate that came at
//! t_e is turned into a capacity, C_v = BW + y_v(t_e), where y_v is the rate at which packets come
//! from that upstream router, taken over the same time as the estimate; the virtual router then
//! gives α·(C_v − y_v) − β·Q_v/d with y_v measured in each interval. Where BW is new in each
//! interval this is the paper's equation. Q_v is the queue in the cloud, as far as the estimate
//! covers it: the port's own queue is handled by its own controller.
//!
//! **Without an estimate** a virtual router can say nothing. The port answers as if there were no
//! cloud, and the packet says that one is not accounted for, so that its sender looks after itself
//! ([`hidden`](crate::bottleneck)).

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
