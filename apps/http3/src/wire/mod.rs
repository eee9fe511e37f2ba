//! HTTP/3 on a connection. This is the only module that uses the `h3` crate, so that it can be
//! replaced.
//!
//! A server accepts [`Incoming`] requests from a [`ServerLink`], and a client sends requests on
//! a [`ClientLink`]. Both result in an exchange of one request and its response. This module
//! adds some features to `h3` 0.0.8: limits on frames ([`frames`]), a deadline for header
//! sections, a reset of streams that are dropped early, and tunnels with plain and extended
//! CONNECT, HTTP datagrams and capsules.

mod adapter;
pub mod capsule;
mod client;
mod connect;
mod datagrams;
mod error;
pub mod frames;
mod hints;
mod section;
mod server;
mod settings;
mod streams;
mod tunnel;
mod varint;

pub use client::{ClientExchange, ClientLink};
pub use connect::ClientConnect;
pub use datagrams::{DatagramFlow, DatagramRefused};
pub use error::{LinkError, codes};
pub use server::{Incoming, ServerExchange, ServerLink};
pub use settings::{PeerSettings, Protocol};
pub use tunnel::{TunnelRecv, TunnelSend};

/// The application protocol's name in TLS (ALPN, RFC 9114 section 3.1).
pub const ALPN: &[u8] = b"h3";
