//! QUIC v1 as a sans-I/O state machine for reliable streams, with explicit feedback from the path.
//!
//! Applications use the package `pathmark`, which puts this one, laws and protocols together.
//!
//! ```text
//!   application ──streams──► Connection ──datagrams──► driver (tokio, emulator) ──► UDP
//!                               │  ▲
//!              sent, acked, lost│  │window, pace, request
//!            feedback difference▼  │
//!                            pathmark_cc::Controller
//! ```
//!
//! `Connection` and `Endpoint` take `now` and bytes and return bytes, events and deadlines.
//! Sockets, clocks and wakers belong to a driver: `pathmark-driver` is the one on tokio, and
//! `examples/blocking.rs` is one in 150 lines on threads. The crate knows no algorithm and no
//! header: what a protocol such as VCP puts in front of datagrams comes in through [`Signal`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

#[cfg(all(feature = "rustls", not(any(feature = "aws-lc-rs", feature = "ring"))))]
compile_error!(
    "pathmark-transport: feature `rustls` needs a cryptography provider: enable `aws-lc-rs` (the \
     default) or `ring`"
);

pub mod ack;
pub mod cid;
mod config;
pub mod connection;
pub mod crypto;
mod datagrams;
pub mod endpoint;
pub mod path;
pub mod recovery;
mod signal;
pub mod streams;
pub mod wire;

pub use config::{ControllerFactory, TransportConfig};
pub use connection::Connection;
pub use datagrams::{DatagramError, DatagramsConfig, FlowDatagram, QueueCounters, QueueCounts};
pub use pathmark_cc::{Duration, Instant};
pub use signal::{Arrived, BadFeedback, Breach, Counters, Ecn, MAX_COUNTERS, Meter, Signal};
pub use wire::VarInt;
