//! XCP-i between the edge routers of a cloud (the XCP-i paper: Lopez-Pacheco, Pham, Lefèvre,
//! section III-A.3).
//!
//! ```text
//!   router k−1 ── cloud: hops that are no XCP routers ──► router k
//!       ▲  Prober                                  Requester │
//!       └────────────── request: a train of packets ─────────┘
//!         acknowledgement, then the train through the cloud ──►  Estimator
//! ```
//!
//! Router k asks for a train of packets with a given gap, router k−1 acknowledges and sends it, and
//! router k works out from the times of their arrival what the cloud leaves. In the paper router
//! k−1 finds the estimate and reports it; here the work is at router k, which sees the packets
//! arrive and knows how much of the traffic is that of its own virtual router. Router k−1 keeps
//! only the admitted requesters and the bytes that it has sent.
//!
//! Nothing here reads a clock or has a socket: `now`, bytes and random numbers come in, bytes,
//! deadlines and estimates come out. `docs/wire.md` has the messages byte by byte.

mod auth;
mod edge;
mod estimator;
mod mac;
mod measurer;
mod message;
mod prober;
mod replay;
mod requester;

pub use auth::{Key, LEAST_SECRET, Own, Route, ShortSecret};
pub use edge::Edge;
pub use estimator::Estimator;
pub use measurer::Measurer;
pub use message::{BadMessage, Body, CONTROL_LEN, LEAST_PROBE, Message, Probe, Token, Train};
pub use prober::{Limits, Prober, ProberStats};
pub use requester::{Ask, Received, Requester, RequesterStats, Step};

/// A datagram to be sent: the first `len` bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub to: core::net::SocketAddr,
    /// Bytes of UDP payload.
    pub len: usize,
}
