//! The public interop runner's cases between this library and s2n-quic, in both roles: a table in
//! Markdown, as docs/reliability.md has it.
//!
//! `cargo run -p pathmark-judges --example s2n [-- CASE…]`

#[path = "../../../crates/transport/tests/interop/cases.rs"]
mod cases;
#[path = "../../../crates/transport/tests/interop/resumption.rs"]
mod resumption;
mod support;
#[path = "../../../crates/transport/tests/interop/table.rs"]
mod table;

use std::process::ExitCode;

use cases::Stacks;
use support::peers::Stack;

/// Client and server.
const ROLES: [Stacks; 2] = [(Stack::Ours, Stack::S2n), (Stack::S2n, Stack::Ours)];

/// Cases that s2n-quic cannot play: in which role of its own, and why.
const NOT_RUN: [(&str, &[Role], &str); 3] = [
    (
        "resumption",
        &[Role::Client, Role::Server],
        "only with an unstable feature of it",
    ),
    ("keyupdate", &[Role::Client], "no call asks it for one"),
    (
        "connectionmigration",
        &[Role::Client],
        "its clients keep their socket",
    ),
];

/// What s2n-quic plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

#[tokio::main]
async fn main() -> ExitCode {
    let titles = [
        "our client, s2n-quic's server",
        "s2n-quic's client, our server",
    ];
    let can = |name: &str, stacks: Stacks| {
        let role = match stacks.0 {
            Stack::Ours => Role::Server,
            Stack::S2n => Role::Client,
        };
        let cannot =
            |(case, roles, _): &(&str, &[Role], &str)| *case == name && roles.contains(&role);
        !NOT_RUN.iter().any(cannot)
    };
    table::print(
        titles,
        ROLES,
        can,
        &NOT_RUN.map(|(name, _, why)| (name, why)),
    )
    .await
}
