//! Ingresses with real sockets: each way behaves as a connection without a tunnel does.

mod bed;
mod curl;
mod datagrams;
pub(crate) mod direct;
mod flows;
mod requests;
mod transparent;
