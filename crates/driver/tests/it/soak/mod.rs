//! A hundredth of the soak, which `cargo run --release -p pathmark-driver --example soak` runs
//! completely.
#![cfg(target_os = "linux")]

mod process;
mod rounds;
mod sys;

use std::sync::atomic::Ordering;

use pathmark_testbed::own_process;
use process::resident;
use rounds::Soak;
use sys::allocated;

/// Connections per round, and rounds after the first: a hundredth of the soak.
const CONNECTIONS: u64 = 5_000;
const ROUNDS: u64 = 1;
/// Largest growth of memory in bytes over all rounds after the first.
const GROWTH: u64 = 1 << 20;

#[test]
fn rounds_of_connections_leave_nothing_behind() {
    own_process(
        "soak::rounds_of_connections_leave_nothing_behind",
        two_rounds,
    );
}

fn two_rounds() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let soak = Soak::begin();
        soak.round(0, CONNECTIONS).await;
        let first = allocated();
        for round in 1..=ROUNDS {
            soak.round(round, CONNECTIONS).await;
            let (allocated, resident) = (allocated(), resident());
            println!("round {round}: {allocated} bytes after {first}, {resident} resident");
        }
        let grown = allocated().saturating_sub(first);
        assert!(grown <= GROWTH, "{grown} bytes");
        let counts = &soak.counts;
        println!("{counts:?}");
        let ends = [
            &counts.closed,
            &counts.dropped,
            &counts.closed_by_server,
            &counts.unheard,
            &counts.given_up,
            &counts.before_given_up,
            &counts.failed,
        ];
        let ended: u64 = ends.iter().map(|end| end.load(Ordering::Relaxed)).sum();
        assert_eq!(ended, (1 + ROUNDS) * CONNECTIONS, "each has one end");
        let failed = counts.failed.load(Ordering::Relaxed);
        assert!(failed * 1000 <= CONNECTIONS, "{failed} connections failed");
        let unheard = counts.unheard.load(Ordering::Relaxed);
        assert!(unheard * 50 <= CONNECTIONS, "{unheard} closes were lost");
        for counter in [
            &counts.closed,
            &counts.dropped,
            &counts.closed_by_server,
            &counts.given_up,
            &counts.echoed,
            &counts.abandoned,
            &counts.cancelled,
        ] {
            assert!(counter.load(Ordering::Relaxed) > CONNECTIONS / 50);
        }
    });
}
