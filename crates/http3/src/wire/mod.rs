//! HTTP/3 on a connection: the only module that knows the `h3` crate, so that another one can take
//! its place.
//!
//! A server takes [`Incoming`] requests from a [`ServerLink`], a client sends requests on a
//! [`ClientLink`]; both end in an exchange of one request and its response. This module adds to
//! `h3` 0.0.8: bounds on frames ([`frames`]), a deadline for heads, a reset of streams that are
//! dropped before their end, and tunnels: plain and extended CONNECT, HTTP datagrams and capsules.

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
