//! The public interop runner's cases between this library and quinn, in both roles: a table in
//! Markdown, as docs/reliability.md has it.
//!
//! `cargo run -p pathmark-transport --example interop [-- CASE…]`

#[path = "../tests/interop/cases.rs"]
mod cases;
#[path = "../tests/interop/resumption.rs"]
mod resumption;
#[path = "../tests/interop/support/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::peers::{STRANGERS, Stack};

/// Those of the runner's that are not run, and why.
const NOT_RUN: [(&str, &str); 6] = [
    ("http3, v2", "another protocol, another version"),
    ("zerortt", "there is no 0-RTT"),
    (
        "half of handshakecorruption at quinn's server",
        "it ends a connection whose first packet was damaged",
    ),
    (
        "goodput, crosstraffic",
        "measurements, not judgements; see `pathmark demo` and results.md",
    ),
    ("aioquic", "not beside ours yet"),
    ("versionnegotiation", "a test of its own (`version`)"),
];

/// Each case must be done in it, as the runner's must.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("| case | our client, quinn's server | quinn's client, our server |\n|---|---|---|");
    let mut all_passed = true;
    for name in cases::NAMES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mut cells = Vec::new();
        for stacks in STRANGERS {
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
    for (name, why) in NOT_RUN {
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
