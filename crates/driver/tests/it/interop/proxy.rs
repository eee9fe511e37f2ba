//! Transfers over paths that drop, reorder, duplicate, corrupt and delay packets.

use std::time::Duration;

use super::support::peers::{Connection, Options, PAIRINGS, Pair, STRANGERS, Stack};
use super::support::proxy::{Toll, Weather};
use super::support::{data, for_each, in_time};

const SEEDS: [u64; 3] = [1, 2, 3];

/// All faults at once.
const STORM: Weather = Weather {
    drop: 20,
    duplicate: 20,
    corrupt: 10,
    reorder: 50,
    delay: Duration::from_millis(2),
    ..Weather::FAIR
};

/// Transfers data in both directions on `streams` streams each, and checks that it arrives
/// unchanged.
async fn exchange(pair: &Pair, seed: u64, streams: u64, length: u64) {
    let one_way = |from: Connection, to: Connection, seed: u64| async move {
        let (mut sending, mut receiving) = (Vec::new(), Vec::new());
        let opening = async {
            for n in 0..streams {
                let mut sender = from.open_uni().await.unwrap();
                sending.push(tokio::spawn(async move {
                    let sent = data::send(&mut sender, seed + n, length).await.unwrap();
                    assert_eq!(sender.stopped().await, Ok(None));
                    sent
                }));
            }
        };
        let accepting = async {
            for _ in 0..streams {
                let mut receiver = to.accept_uni().await.unwrap();
                receiving.push(tokio::spawn(async move {
                    data::receive(&mut receiver).await.unwrap()
                }));
            }
        };
        tokio::join!(opening, accepting);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for (sender, receiver) in sending.into_iter().zip(receiving) {
            sent.push(sender.await.unwrap());
            received.push(receiver.await.unwrap());
        }
        sent.sort();
        received.sort();
        assert_eq!(sent, received);
    };
    tokio::join!(
        one_way(pair.client.clone(), pair.server.clone(), seed),
        one_way(pair.server.clone(), pair.client.clone(), seed + 1000)
    );
}

/// Runs a transfer between `stacks` through `weather`, and returns the path's counts of faults.
async fn through(stacks: (Stack, Stack), weather: Weather, seed: u64) -> Toll {
    let (proxy, pair) = Pair::over(stacks, &Options::default(), weather, seed).await;
    exchange(&pair, seed, 4, 512 << 10).await;
    proxy.end().await
}

/// The same for every pairing and seed at once; returns the counts of each path.
async fn everyone_through(weather: Weather, seeds: &[u64]) -> Vec<Toll> {
    let mut running = Vec::new();
    for stacks in PAIRINGS {
        for seed in seeds.iter().copied() {
            println!("{stacks:?} seed {seed}");
            running.push(tokio::spawn(through(stacks, weather, seed)));
        }
    }
    let mut tolls = Vec::new();
    for task in running {
        tolls.push(task.await.unwrap());
    }
    tolls
}

#[test]
fn everything_arrives_whole_through_a_storm() {
    in_time(async {
        for toll in everyone_through(STORM, &SEEDS).await {
            assert!(toll.passed > 2000, "{toll:?}");
            for count in [
                toll.dropped,
                toll.duplicated,
                toll.corrupted,
                toll.reordered,
            ] {
                assert!(count > 10, "{toll:?}");
            }
        }
    });
}

#[test]
fn everything_arrives_with_a_tenth_of_all_datagrams_lost() {
    in_time(async {
        let weather = Weather::with(|weather| weather.drop = 100);
        for toll in everyone_through(weather, &SEEDS).await {
            assert!(toll.dropped > 100, "{toll:?}");
        }
    });
}

/// Every datagram arrives twice, and half arrive late.
#[test]
fn everything_arrives_with_echoes_and_overtaking() {
    in_time(async {
        let weather = Weather {
            duplicate: 1000,
            reorder: 500,
            ..Weather::FAIR
        };
        for toll in everyone_through(weather, &SEEDS[..1]).await {
            assert_eq!(toll.duplicated, toll.passed);
        }
    });
}

/// Only a handshake, through loss that hits each of its flights with some seed.
#[test]
fn handshakes_survive_loss_and_corruption() {
    in_time(async {
        let weather = |server| Weather {
            drop: 200,
            duplicate: 100,
            // Quinn's server ends a connection whose first packet can't be opened.
            corrupt: if server == Stack::Quinn { 0 } else { 100 },
            reorder: 100,
            ..Weather::FAIR
        };
        let mut running = Vec::new();
        for stacks in PAIRINGS {
            for (seed, retry) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
                running.push(tokio::spawn(async move {
                    println!("{stacks:?} seed {seed} retry {retry}");
                    let options = Options::with(|options| options.retry = retry);
                    let weather = weather(stacks.1);
                    let (_proxy, pair) = Pair::over(stacks, &options, weather, seed).await;
                    exchange(&pair, seed, 1, 10_000).await;
                }));
            }
        }
        for task in running {
            task.await.unwrap();
        }
    });
}

/// The path stops carrying the size that was found, so our side goes back and finds a size that
/// fits.
#[test]
fn a_path_that_shrinks_is_noticed() {
    for_each(STRANGERS, async |stacks| {
        let (proxy, pair) = Pair::over(stacks, &Options::default(), Weather::FAIR, 1).await;
        exchange(&pair, 1, 2, 1 << 20).await;
        for side in [&pair.client, &pair.server] {
            assert!(side.mtu() > 1400, "{} {stacks:?}", side.mtu());
        }
        proxy.set_weather(Weather::with(|weather| weather.mtu = 1300));
        exchange(&pair, 2, 2, 1 << 20).await;
        for side in [&pair.client, &pair.server] {
            assert!(side.mtu() <= 1300, "{} {stacks:?}", side.mtu());
        }
        assert!(proxy.toll().too_large > 0);
    });
}

/// Random loss, however heavy, is not mistaken for a lower MTU.
#[test]
fn loss_is_not_mistaken_for_a_smaller_path() {
    for_each(STRANGERS, async |stacks| {
        let weather = Weather::with(|weather| weather.drop = 50);
        let (_proxy, pair) = Pair::over(stacks, &Options::default(), weather, 4).await;
        exchange(&pair, 4, 2, 2 << 20).await;
        for side in [&pair.client, &pair.server] {
            if let Some(ours) = side.ours() {
                assert_eq!(ours.stats().mtu_black_holes, 0, "{stacks:?}");
                assert!(side.mtu() > 1400, "{} {stacks:?}", side.mtu());
            }
        }
    });
}
