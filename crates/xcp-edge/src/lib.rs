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
//! Router k requests a train of packets with a given gap. Router k−1 acknowledges this request
//! and sends the train, and router k estimates the cloud's unused capacity from the arrival times.
//! In the paper, router k−1 computes the estimate and reports it. Here, router k does so instead,
//! because it sees the packets arrive and can therefore distinguish the traffic of its own virtual
//! router. Router k−1 only stores the admitted requesters and the number of bytes sent.
//!
//! This crate neither reads a clock nor uses sockets. Callers pass `now`, bytes and random
//! numbers, and get bytes, deadlines and estimates. `docs/wire.md` describes the messages byte
//! by byte.

mod auth;
mod edge;
mod estimator;
mod message;
mod prober;
mod requester;

pub use auth::{Key, LEAST_SECRET, Own, Route, ShortSecret};
pub use edge::{Edge, Measurer};
pub use estimator::Estimator;
pub use message::{BadMessage, Body, CONTROL_LEN, LEAST_PROBE, Message, Probe, Token, Train};
pub use prober::{Limits, Prober, ProberStats};
pub use requester::{Ask, Received, Requester, RequesterStats, Step};

/// A datagram to send: the first `len` bytes of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: core::net::SocketAddr,
    /// Bytes of UDP payload.
    pub len: usize,
}
