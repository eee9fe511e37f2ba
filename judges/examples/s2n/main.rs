//! The public interop runner's cases between this library and s2n-quic, in both roles: a table in
//! Markdown, as docs/reliability.md has it.
//!
//! `cargo run -p pathmark-judges --example s2n [-- CASE…]`. All cases are in the test command.

#[path = "../../../crates/transport/tests/interop/cases.rs"]
mod cases;
#[path = "../../../crates/transport/tests/interop/resumption.rs"]
mod resumption;
#[path = "../shared/roles.rs"]
mod roles;
mod support;
#[path = "../../../crates/transport/tests/interop/table.rs"]
mod table;
#[cfg(test)]
mod tests;
#[path = "../../../crates/transport/tests/interop/zero_rtt.rs"]
mod zero_rtt;

use std::process::ExitCode;

use roles::{NotRun, Role};

const NOT_RUN: [NotRun; 4] = [
    (
        "resumption",
        &[Role::Client, Role::Server],
        "only with an unstable feature of it",
    ),
    (
        "zerortt",
        &[Role::Client, Role::Server],
        "it drops 0-RTT packets and sends none",
    ),
    ("keyupdate", &[Role::Client], "no call asks it for one"),
    (
        "connectionmigration",
        &[Role::Client],
        "its clients keep their socket",
    ),
];

#[tokio::main]
async fn main() -> ExitCode {
    roles::judge("s2n-quic", &NOT_RUN).await
}
