//! Transfers over a path that drops, reorders, duplicates, corrupts and delays packets.

use std::time::Duration;

use super::support::peers::{Options, PAIRINGS, Pair, Stack};
use super::support::proxy::{Toll, Weather};
use super::support::{bounded, data};

/// All faults at once.
const STORM: Weather = Weather {
    drop: 20,
    duplicate: 20,
    corrupt: 10,
    reorder: 50,
    delay: Duration::from_millis(2),
    ..Weather::FAIR
};
/// Bytes that are transferred in each direction.
const LENGTH: u64 = 2 << 20;

/// Transfers data in both directions between `stacks`, and returns the path's counts of faults.
async fn through_a_storm(stacks: (Stack, Stack), seed: u64) -> Toll {
    let (proxy, pair) = Pair::over(stacks, &Options::default(), STORM, seed).await;
    tokio::join!(
        data::pass(&pair.client, &pair.server, (seed, LENGTH), |_| ()),
        data::pass(&pair.server, &pair.client, (seed + 1000, LENGTH), |_| ())
    );
    proxy.end().await
}

#[tokio::test]
async fn everything_arrives_whole_through_a_storm() {
    let mut running = Vec::new();
    for stacks in PAIRINGS {
        for seed in [1, 2, 3] {
            println!("{stacks:?} seed {seed}");
            running.push(tokio::spawn(through_a_storm(stacks, seed)));
        }
    }
    for task in running {
        let toll = bounded(task).await.unwrap();
        assert!(toll.passed > 2000, "{toll:?}");
        let all = [
            toll.dropped,
            toll.duplicated,
            toll.corrupted,
            toll.reordered,
        ];
        assert!(all.iter().all(|&n| n > 10), "{toll:?}");
    }
}
