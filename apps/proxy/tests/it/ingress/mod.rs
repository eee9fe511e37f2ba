//! Ingresses with real sockets: each way behaves like a connection without a tunnel.

pub(crate) mod bed;
mod curl;
mod datagrams;
pub(crate) mod direct;
mod flows;
mod requests;
mod transparent;
