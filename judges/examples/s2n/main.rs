//! The public interop runner's cases between this library and s2n-quic, in both roles: a table in
//! Markdown, as docs/reliability.md has it.
//!
//! `cargo run -p pathmark-judges --example s2n [-- CASE…]`

#[path = "../../../crates/transport/tests/interop/cases.rs"]
mod cases;
#[path = "../../../crates/transport/tests/interop/resumption.rs"]
mod resumption;
#[path = "../shared/roles.rs"]
mod roles;
mod support;
#[path = "../../../crates/transport/tests/interop/table.rs"]
mod table;

use std::process::ExitCode;

use roles::{NotRun, Role};
use support::peers::Stack;

const NOT_RUN: [NotRun; 3] = [
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

#[tokio::main]
async fn main() -> ExitCode {
    roles::judge(Stack::S2n, "s2n-quic", &NOT_RUN).await
}
