//! The transport judged by others: each test runs a client and a server of different making (this
//! library and quinn), over real sockets on loopback.

mod support;

mod bulk;
mod cases;
mod cases_tests;
mod close;
mod datagrams;
mod handshake;
mod idle;
mod key_update;
mod migration;
mod proxy;
mod reset;
mod resumption;
mod retry;
mod streams;
mod tshark;
mod version;
mod zero_rtt;
mod zero_rtt_tests;
