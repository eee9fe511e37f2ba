//! How flows leave: the seam between ingresses and a tunnel.

use std::io;
use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;
use pathmark_driver::Stall;
use pathmark_transport::{Ecn, QueueCounters};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::target::Target;

/// Opens flows to targets. Clones share one connection.
pub trait Outbound: Clone + Send + Sync + 'static {
    /// Bytes from a target.
    type Read: AsyncRead + Abort + Send + Unpin + 'static;
    /// Bytes to a target. Its shutdown ends this direction alone.
    type Write: AsyncWrite + Abort + Send + Unpin + 'static;
    /// Datagrams to and from a target.
    type Datagrams: Datagrams;

    /// Opens a TCP connection from the proxy to a target.
    fn tcp(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<(Self::Read, Self::Write), Refusal>> + Send {
        async { self.tcp_early(target, &mut tokio::io::empty()).await }
    }

    /// The same. Bytes that can be read from `early` meanwhile may follow the request at once, and
    /// are lost where the flow is refused.
    fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> impl Future<Output = Result<(Self::Read, Self::Write), Refusal>> + Send;

    /// Opens a UDP flow from the proxy to a target.
    fn udp(&self, target: &Target)
    -> impl Future<Output = Result<Self::Datagrams, Refusal>> + Send;
}

/// One direction of a byte stream that can end without its last bytes, as a TCP reset does. A
/// reader that meets the other side's reset returns `ConnectionReset`.
pub trait Abort {
    /// Ends the direction at once.
    fn abort(&mut self);

    /// Sets the weight of the direction among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}

    /// Tells whether the far end of the flow, and not the path to it, takes no bytes.
    fn stall(&self) -> Option<Stall> {
        None
    }
}

/// The ECN fields of a datagram from a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// That of the target's packet.
    pub inner: Ecn,
    /// That of the packet between proxy and client; Not-ECT where the datagram came on a stream.
    pub outer: Ecn,
}

/// Datagrams of one flow. Both calls may run at once, and either may be cancelled.
pub trait Datagrams: Send + Sync + 'static {
    /// Sends a payload of at most 65,527 bytes, whose packet has this ECN field.
    fn send_marked(&self, payload: Bytes, ecn: Ecn) -> impl Future<Output = io::Result<()>> + Send;
    /// Sets the weight of the flow among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}
    /// The counters of the queue in which payloads wait, if they have one.
    fn queue(&self) -> Option<Arc<QueueCounters>> {
        None
    }
    /// The next payload from the target, with ECN fields; an error once the flow has ended.
    fn receive_marked(&self) -> impl Future<Output = io::Result<(Bytes, Marks)>> + Send;

    /// Sends a payload whose packet has no ECN.
    fn send(&self, payload: Bytes) -> impl Future<Output = io::Result<()>> + Send {
        self.send_marked(payload, Ecn::NotEct)
    }

    /// The next payload from the target.
    fn receive(&self) -> impl Future<Output = io::Result<Bytes>> + Send {
        async { self.receive_marked().await.map(|(payload, _)| payload) }
    }
}

/// Why a flow was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The target refused the connection.
    #[error("the target refused the connection")]
    Refused,
    /// The target did not answer in time.
    #[error("the target did not answer in time")]
    TimedOut,
    /// No route leads to the target.
    #[error("no route leads to the target")]
    Unreachable,
    /// The name has no address.
    #[error("the name of the target has no address")]
    Name,
    /// The proxy does not allow this target to this client.
    #[error("the proxy does not allow this target")]
    Denied,
    /// The proxy or its client has reached a limit.
    #[error("the proxy has reached its limit of flows")]
    Busy,
    /// The proxy does not know this client.
    #[error("the proxy knows neither the token nor the certificate")]
    Unauthorized,
    /// The proxy cannot be reached, or ended the connection.
    #[error("the proxy cannot be reached: {0}")]
    Proxy(String),
}
