//! How flows leave: the seam between ingresses and a tunnel.

use std::io;

use bytes::Bytes;
use pathmark_transport::Ecn;
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
}

/// Datagrams of one flow. Both calls may run at once, and either may be cancelled.
pub trait Datagrams: Send + Sync + 'static {
    /// Sends a payload of at most 65,527 bytes, whose packet has this ECN field.
    fn send_marked(&self, payload: Bytes, ecn: Ecn) -> impl Future<Output = io::Result<()>> + Send;
    /// The next payload from the target, with the ECN field of its packet; an error once the flow
    /// has ended.
    fn receive_marked(&self) -> impl Future<Output = io::Result<(Bytes, Ecn)>> + Send;

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
    /// The proxy cannot be reached, or ended the connection.
    #[error("the proxy cannot be reached: {0}")]
    Proxy(String),
}
