//! The interface between ingresses and a tunnel, through which flows leave.

use std::io;
use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;
use pathmark_driver::Stall;
use pathmark_transport::{Ecn, QueueCounters};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::target::Target;

/// Opens flows to targets. Clones share the same connection.
pub trait Outbound: Clone + Send + Sync + 'static {
    /// Bytes from a target.
    type Read: AsyncRead + Abort + Send + Unpin + 'static;
    /// Bytes to a target. Shutting it down ends only this direction.
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

    /// Does the same with early data. Bytes that can be read from `early` before the response
    /// may be sent right after the request, and are lost if the flow is refused.
    fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> impl Future<Output = Result<(Self::Read, Self::Write), Refusal>> + Send;

    /// Opens a UDP flow from the proxy to a target.
    fn udp(&self, target: &Target)
    -> impl Future<Output = Result<Self::Datagrams, Refusal>> + Send;
}

/// One direction of a byte stream that can be aborted without its last bytes, as with a TCP
/// reset. After the other side's reset, a reader returns `ConnectionReset`.
pub trait Abort {
    /// Ends the direction immediately.
    fn abort(&mut self);

    /// Sets the direction's weight among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}

    /// Returns a handle that reports whether the flow's far end, rather than the path to it,
    /// accepts no bytes.
    fn stall(&self) -> Option<Stall> {
        None
    }
}

/// The ECN fields of a datagram from a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The ECN field of the target's packet.
    pub inner: Ecn,
    /// The ECN field of the packet between proxy and client, or Not-ECT if a stream carried the
    /// datagram.
    pub outer: Ecn,
}

/// The datagrams of one flow. Sending and receiving can run concurrently, and both can be
/// cancelled.
pub trait Datagrams: Send + Sync + 'static {
    /// Sends a payload of at most 65,527 bytes, whose packet has this ECN field.
    fn send_marked(&self, payload: Bytes, ecn: Ecn) -> impl Future<Output = io::Result<()>> + Send;
    /// Sets the flow's weight among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}
    /// Returns the counters of the queue in which payloads wait, if there is one.
    fn queue(&self) -> Option<Arc<QueueCounters>> {
        None
    }
    /// Waits for the next payload from the target and returns its ECN fields, or an error once
    /// the flow has ended.
    fn receive_marked(&self) -> impl Future<Output = io::Result<(Bytes, Marks)>> + Send;

    /// Sends a payload without ECN.
    fn send(&self, payload: Bytes) -> impl Future<Output = io::Result<()>> + Send {
        self.send_marked(payload, Ecn::NotEct)
    }

    /// Waits for the next payload from the target.
    fn receive(&self) -> impl Future<Output = io::Result<Bytes>> + Send {
        async { self.receive_marked().await.map(|(payload, _)| payload) }
    }
}

/// The reason why a flow was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The target refused the connection.
    #[error("the target refused the connection")]
    Refused,
    /// The target did not respond in time.
    #[error("the target did not answer in time")]
    TimedOut,
    /// There is no route to the target.
    #[error("no route leads to the target")]
    Unreachable,
    /// The target's name could not be resolved.
    #[error("the name of the target has no address")]
    Name,
    /// The proxy doesn't allow this target for this client.
    #[error("the proxy does not allow this target")]
    Denied,
    /// The proxy or its client has reached a limit.
    #[error("the proxy has reached its limit of flows")]
    Busy,
    /// The proxy could not authenticate this client.
    #[error("the proxy knows neither the token nor the certificate")]
    Unauthorized,
    /// The proxy can't be reached or ended the connection.
    #[error("the proxy cannot be reached: {0}")]
    Proxy(String),
}
