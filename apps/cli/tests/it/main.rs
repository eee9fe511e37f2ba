//! The `pathmark` command: real processes, sockets, files and interfaces.

#![expect(clippy::disallowed_methods, reason = "these tests run in real time")]

use std::process::Command;

mod answers;
mod applications;
#[path = "../../../../crates/router/tests/it/cards/mod.rs"]
#[expect(dead_code, reason = "the router's own tests use more of it")]
mod cards;
mod chain;
mod cli;
mod client_certificates;
mod clients;
mod common;
mod compare;
mod demo;
mod deploy;
mod ecn_tunnel;
mod emulate;
mod exits;
mod explain;
mod far_server;
mod files;
mod hostile;
mod known_servers;
mod link_local;
mod logs;
mod many_files;
mod matrix;
mod mistakes;
mod moving_get;
mod pages;
mod parity;
mod path_facts;
mod proxy;
mod quick_start;
mod readme;
mod reconnect;
mod renewal;
mod resume_put;
mod satellite;
mod serve_proxy;
#[path = "../../../proxy/tests/it/support/mod.rs"]
#[expect(dead_code, reason = "the proxy's own tests use more of it")]
mod support;
mod survival;
mod trees;
mod trust;
mod tunnel;
mod tunnel_ends;
mod tunnel_first_bytes;
mod tunnel_net;
mod tunnel_port;
mod tunnel_queues;
mod units;
mod without_udp;
mod xcp;
mod xcp_i;

/// Returns the program under test.
fn vcp_router() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathmark"));
    command.arg("vcp-router");
    command
}
