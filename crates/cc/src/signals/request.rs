//! Requests from senders to routers.

use super::{Explicit, OwnWords, QuickStartRequest, XcpRequest};
use crate::base::Duration;

/// Request from a sender to the routers, which is written into the next packet's shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Signal that should carry the request, for laws that read several. With `None`, or if the
    /// peer doesn't know this signal, the connection's own is used.
    pub signal: Option<Explicit>,
    /// VCP: true if the sender supports BISE's large ε.
    pub bise: bool,
    /// Minimum RTT of this path, including standing queues on the way back, for routers that derive
    /// their interval from it. With `None`, the controller doesn't have a sample yet, and the
    /// transport writes the handshake's.
    pub min_rtt: Option<Duration>,
    /// True if the path uses IPv6, so that addresses of its routers take 16 bytes. Set by the
    /// transport.
    pub ipv6: bool,
    /// XCP: fields of the next packet's header. With `None`, the packet carries no header, or one
    /// that routers ignore.
    pub xcp: Option<XcpRequest>,
    /// Quick-Start: question for a starting rate. With `None`, the next packet doesn't ask for one.
    pub quick_start: Option<QuickStartRequest>,
    /// A registered protocol: fields of the next packet's header.
    pub own: Option<OwnWords>,
}
