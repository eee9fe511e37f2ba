//! Ingresses with real sockets: each way behaves as a connection without a tunnel does.

mod bed;
mod curl;
mod datagrams;
mod direct;
mod flows;
mod requests;
#[path = "../support/mod.rs"]
mod support;
mod transparent;
