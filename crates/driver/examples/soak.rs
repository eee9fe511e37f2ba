//! Rounds of connections that 64 tasks on two threads open, use and end at random: `cargo run
//! --release -p pathmark-driver --example soak [-- --rounds N] [--connections N]`, by default three
//! rounds of 1000. Prints the table of `evidence/faults.md`.
//!
//! The exit code is 1 if memory has grown by more than 1 MiB from the first round to the last, or
//! by more than 2 MiB to any round in between, or if more than one connection in a thousand fails.
//! Leaked descriptors and futures that never resolve end the program.

#[path = "../../transport/examples/shared/arguments.rs"]
mod arguments;
#[path = "../tests/it/soak/process.rs"]
mod process;
#[path = "../tests/it/soak/rounds.rs"]
mod rounds;
#[path = "../tests/it/soak/sys.rs"]
mod sys;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use arguments::Arguments;
use process::{descriptors, resident};
use rounds::{Soak, TASKS};
use sys::allocated;

/// Largest growth of memory in bytes from the first round to the last.
const GROWTH: u64 = 1 << 20;
/// Largest growth to any round in between. More buffers wait for reuse if tasks run late.
const GROWTH_BETWEEN: u64 = 2 << 20;

const USAGE: &str = "soak [--rounds N] [--connections N]";

fn main() -> ExitCode {
    let read = || -> Result<(u64, u64), ExitCode> {
        let arguments = Arguments::read(USAGE, &["--rounds", "--connections"], &[])?;
        let rounds = arguments.number("--rounds", 3)?;
        Ok((rounds, arguments.number("--connections", 1000)?))
    };
    match read() {
        Ok((rounds, connections)) => soak(rounds, connections),
        Err(code) => code,
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "it says how long it took")]
async fn soak(rounds: u64, connections: u64) -> ExitCode {
    let begun = std::time::Instant::now();
    let soak = Soak::begin();
    // Descriptors, KiB allocated, KiB resident.
    let state = || [descriptors() as u64, allocated() / 1024, resident() / 1024];
    let (mut first, mut most) = ([0; 3], 0);
    for round in 0..rounds {
        soak.round(round, connections).await;
        let now = state();
        if round == 0 {
            first = now;
        }
        most = most.max(now[1]);
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("round {round}: {now:?}, {seconds:.0} s");
    }
    let last = state();
    let counts = &soak.counts;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let rows = [
        ("rounds", rounds.to_string()),
        ("connections of each", connections.to_string()),
        ("tasks on two threads", TASKS.to_string()),
        ("closed by the client", of(&counts.closed)),
        ("closed by the server", of(&counts.closed_by_server)),
        (
            "closed by the server, whose word was lost",
            of(&counts.unheard),
        ),
        ("ended by dropped handles", of(&counts.dropped)),
        ("handshakes given up", of(&counts.given_up)),
        (
            "connected before they were given up",
            of(&counts.before_given_up),
        ),
        ("connections that failed", of(&counts.failed)),
        ("streams echoed", of(&counts.echoed)),
        ("streams given up", of(&counts.abandoned)),
        (
            "futures dropped before they were ready",
            of(&counts.cancelled),
        ),
        (
            "descriptors after the first and the last round",
            format!("{}, {}", first[0], last[0]),
        ),
        (
            "KiB allocated after the first and the last round",
            format!("{}, {}", first[1], last[1]),
        ),
        ("most KiB allocated after a round", most.to_string()),
        (
            "KiB resident after the first and the last round",
            format!("{}, {}", first[2], last[2]),
        ),
        ("seconds", format!("{:.0}", begun.elapsed().as_secs_f64())),
    ];
    println!("| what | how much |\n|---|---|");
    for (what, how_much) in rows {
        println!("| {what} | {how_much} |");
    }
    let failed = counts.failed.load(Ordering::Relaxed) * 1000 > rounds * connections;
    let grown = |to: u64| 1024 * to.saturating_sub(first[1]);
    let grew = grown(last[1]) > GROWTH || grown(most) > GROWTH_BETWEEN;
    ExitCode::from(u8::from(failed || grew))
}
