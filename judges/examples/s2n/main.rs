//! The public interop runner's cases between this library and s2n-quic, in both roles: a table in
//! Markdown, as docs/reliability.md has it.
//!
//! `cargo run -p pathmark-judges --example s2n [-- CASE…]`

#[path = "../../../crates/transport/tests/interop/cases.rs"]
mod cases;
#[path = "../../../crates/transport/tests/interop/resumption.rs"]
mod resumption;
mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::peers::Stack;

/// Client and server.
const ROLES: [(Stack, Stack); 2] = [(Stack::Ours, Stack::S2n), (Stack::S2n, Stack::Ours)];

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

/// Each case must be done in it, as the runner's must.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("| case | our client, s2n-quic's server | s2n-quic's client, our server |");
    println!("|---|---|---|");
    let mut all_passed = true;
    for name in cases::NAMES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mut cells = Vec::new();
        for stacks in ROLES {
            let role = match stacks.0 {
                Stack::Ours => Role::Server,
                Stack::S2n => Role::Client,
            };
            let cannot =
                |(case, roles, _): &(&str, &[Role], &str)| *case == name && roles.contains(&role);
            if NOT_RUN.iter().any(cannot) {
                cells.push("not run".to_owned());
                continue;
            }
            let passed = passes(name, stacks).await;
            all_passed &= passed.is_some();
            cells.push(passed.map_or_else(
                || "failed".to_owned(),
                |took| format!("{:.1} s", took.as_secs_f64()),
            ));
        }
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!("\n| not run | why |\n|---|---|");
    for (name, _, why) in NOT_RUN {
        println!("| {name} | {why} |");
    }
    if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// How long the case took; `None` if it failed, which it says itself.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
async fn passes(name: &'static str, stacks: (Stack, Stack)) -> Option<Duration> {
    let began = Instant::now();
    let task = tokio::spawn(tokio::time::timeout(PATIENCE, cases::run(name, stacks)));
    matches!(task.await, Ok(Ok(()))).then(|| began.elapsed())
}
