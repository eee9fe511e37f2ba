//! Runs the public interop runner's cases between this library and s2n-quic, in both roles, and
//! prints the Markdown table of docs/evidence/interop.md.
//!
//! `cargo run -p pathmark-judges --example s2n [-- CASE…]`. The test command runs all cases.

#[path = "../../../../crates/driver/tests/it/interop/cases.rs"]
mod cases;
#[cfg(test)]
#[path = "../../../../crates/driver/tests/it/interop/judged.rs"]
mod judged;
#[path = "../../../../crates/driver/tests/it/interop/resumption.rs"]
mod resumption;
#[path = "../shared/roles.rs"]
mod roles;
mod support;
#[path = "../../../../crates/driver/examples/shared/table.rs"]
mod table;
#[path = "../../../../crates/driver/tests/it/interop/zero_rtt.rs"]
mod zero_rtt;

use std::process::ExitCode;

#[cfg(test)]
use roles::STACKS;
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

/// Returns true if s2n-quic supports its role in `case`.
#[cfg(test)]
fn can(case: &str, stacks: cases::Stacks) -> bool {
    roles::can(&NOT_RUN, case, stacks)
}
