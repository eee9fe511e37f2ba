//! A thousand simulated transfers over faults; `cargo run --release --example faults` runs any
//! number.

mod simulation;

use simulation::{Crypto, Outcome, run};

#[test]
fn a_thousand_transfers_over_faults() {
    let threads = 2;
    let counted: Vec<_> = std::thread::scope(|scope| {
        let part = |thread: u64| {
            let crypto = Crypto::new();
            let (mut noticed, mut timed_out) = (0, 0);
            for seed in (thread..1000).step_by(threads) {
                match run(&crypto, seed, false) {
                    Ok(Outcome::Complete) => {}
                    Ok(Outcome::Noticed) => noticed += 1,
                    Ok(Outcome::TimedOut) => timed_out += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (noticed, timed_out)
        };
        let running: Vec<_> = (0..threads as u64)
            .map(|thread| scope.spawn(move || part(thread)))
            .collect();
        running.into_iter().map(|t| t.join()).collect()
    });
    let (mut noticed, mut timed_out) = (0, 0);
    for part in counted {
        let part: (u64, u64) = part.expect("all went well");
        noticed += part.0;
        timed_out += part.1;
    }
    // One plan in eight has an end that goes; some are through before.
    assert!((20..200).contains(&noticed), "{noticed}");
    assert!(timed_out <= 5, "{timed_out}");
}
