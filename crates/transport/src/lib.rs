//! QUIC v1 as a sans-I/O state machine for reliable streams, with explicit feedback from the path.
//!
//! Applications should use the package `pathmark`, which combines this crate with the control laws
//! and the feedback protocols.
//!
//! ```text
//!   application ──streams──► Connection ──datagrams──► driver (tokio, emulator) ──► UDP
//!                               │  ▲
//!              sent, acked, lost│  │window, pace, request
//!            feedback difference▼  │
//!                            pathmark_cc::Controller
//! ```
//!
//! [`Connection`] and [`Endpoint`](endpoint::Endpoint) take the current time and received bytes,
//! and return bytes to send, events and deadlines. Sockets, clocks and wakers belong to a driver:
//! `pathmark-driver` runs on tokio, and `examples/blocking.rs` shows how to write one in 150 lines
//! using threads. The crate doesn't know any algorithm or header. Instead, a protocol such as VCP,
//! which puts a header in front of datagrams, is added by implementing [`Signal`].

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
pub mod observe;
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
