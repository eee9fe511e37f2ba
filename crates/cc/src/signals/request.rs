//! What a sender asks of routers.

use super::{Explicit, OwnWords, QuickStartRequest, XcpRequest};
use crate::base::Duration;

/// The sender's request to the routers: it goes into the shim of the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The signal that is to carry it, for laws that read several. `None`, and where the peer does
    /// not know that one: the connection's own.
    pub signal: Option<Explicit>,
    /// VCP: the sender would follow BISE's large ε.
    pub bise: bool,
    /// Least RTT of this path, with queues on the way back if they stand, for routers that size
    /// their interval by it. `None`: the controller has no sample yet; the transport then writes
    /// the handshake's.
    pub min_rtt: Option<Duration>,
    /// The path is one of IPv6: addresses of its routers take 16 bytes. The transport writes it.
    pub ipv6: bool,
    /// XCP: the fields of the next packet's header. `None`: the packet carries no header, or the
    /// one that routers skip.
    pub xcp: Option<XcpRequest>,
    /// Quick-Start: the rate to start with. `None`: the next packet does not ask for one.
    pub quick_start: Option<QuickStartRequest>,
    /// A registered protocol: the fields of the next packet's header.
    pub own: Option<OwnWords>,
}
