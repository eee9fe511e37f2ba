//! Simulated transfers over faults drawn by seed: `cargo run --release -p pathmark-transport
//! --example faults -- --seeds N [--from SEED] [--trace]`. Prints a table for `docs/reliability.md`,
//! and every seed that failed. Exit 1 if any did.

#[path = "../tests/faults/simulation.rs"]
mod simulation;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use simulation::{Crypto, Outcome, Plan, run};

/// Plans with each kind of fault, and in all.
const KINDS: [&str; 11] = [
    "all",
    "TLS 1.3",
    "loss",
    "duplication",
    "reordering",
    "corruption",
    "truncation",
    "rebinding",
    "outage",
    "clock jump",
    "end gone",
];

fn kinds(plan: &Plan) -> [bool; 11] {
    let incident = |name: &str| {
        let names = plan.incidents.iter().map(|(_, i)| format!("{i:?}"));
        names.into_iter().any(|i| i.starts_with(name))
    };
    [
        true,
        plan.tls,
        plan.loss > 0,
        plan.duplication > 0,
        plan.reordering > 0,
        plan.corruption > 0,
        plan.truncation > 0,
        incident("Rebinding"),
        incident("Outage"),
        incident("Sleep"),
        plan.is_fatal(),
    ]
}

fn number(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|a| a == name);
    at.and_then(|at| arguments.get(at + 1)?.parse().ok())
        .unwrap_or(default)
}

fn main() -> ExitCode {
    let (from, seeds) = (number("--from", 0), number("--seeds", 1000));
    let trace = std::env::args().any(|argument| argument == "--trace");
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let next = AtomicU64::new(from);
    // By kind: simulated, complete, noticed, timed out, failed.
    let table: Vec<[AtomicU64; 5]> = (0..KINDS.len()).map(|_| Default::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let crypto = Crypto::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let column = match run(&crypto, seed, trace) {
                        Ok(Outcome::Complete) => 1,
                        Ok(Outcome::Noticed) => 2,
                        Ok(Outcome::TimedOut) => 3,
                        Err(error) => {
                            println!("{error}");
                            4
                        }
                    };
                    for (row, has) in table.iter().zip(kinds(&Plan::new(seed))) {
                        for column in [0, column].into_iter().filter(|_| has) {
                            row[column].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    println!(
        "| plans with | simulated | complete | end gone, noticed | timed out in the dark | failed |"
    );
    println!("|---|---|---|---|---|---|");
    for (kind, row) in KINDS.iter().zip(&table) {
        let [all, complete, noticed, dark, failed] =
            row.each_ref().map(|n| n.load(Ordering::Relaxed));
        println!("| {kind} | {all} | {complete} | {noticed} | {dark} | {failed} |");
    }
    let failed = table[0][4].load(Ordering::Relaxed);
    ExitCode::from(u8::from(failed > 0))
}
