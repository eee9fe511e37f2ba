//! Interoperability: each test runs a client and a server of different implementations (this
//! library and quinn), over real sockets on loopback.

pub(crate) mod support;

mod cases;
mod close;
mod datagrams;
mod ends;
mod handshake;
mod idle;
mod judged;
mod key_update;
mod migration;
mod proxy;
mod reset;
mod resumption;
mod resumption_tests;
mod retry;
mod streams;
mod tshark;
mod version;
mod zero_rtt;
mod zero_rtt_tests;

use cases::Stacks;
use support::peers::STRANGERS as STACKS;

/// Always true, because quinn can play both roles in each case.
fn can(_: &str, _: Stacks) -> bool {
    true
}
