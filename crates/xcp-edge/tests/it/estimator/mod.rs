//! Tests the estimator with a known link: errors, load, and misbehaviour of the link or the other
//! router.

mod own;
mod paths;
mod world;

use pathmark_cc::Duration;
use world::World;
use xcp_edge::{LEAST_PROBE, Probe};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The unused share of the link, as estimated now.
fn known(world: &mut World) -> Option<f64> {
    let now = world.instant();
    let estimate = world.estimator.estimate(now, world.own)?;
    Some(estimate.available as f64 / 1e9 / world.capacity)
}

/// The unused shares as estimated at these tenths of seconds, and how often there is no estimate.
fn shares(world: &mut World, tenths: impl IntoIterator<Item = u64>) -> (Vec<f64>, u32) {
    let (mut shares, mut without) = (Vec::new(), 0);
    for tenth in tenths {
        world.run(Duration::from_millis(100 * tenth));
        match known(world) {
            Some(available) => shares.push(available),
            None => without += 1,
        }
    }
    (shares, without)
}

/// The median error of estimates. It is a share of the link: the bandwidth that a virtual router
/// would give too much or too little.
fn error(shares: &[f64], available: f64) -> f64 {
    let errors = shares.iter().map(|share| (share - available).abs());
    median(errors.collect())
}

/// Errors and probing load on links of 30 to 300 Mbit/s of which foreign packets use 0 to 80 %.
#[test]
fn error_and_load() {
    for capacity in [30e6 / 8.0, 100e6 / 8.0, 300e6 / 8.0] {
        for foreign in [0.0, 0.2, 0.4, 0.6, 0.8] {
            let mut found = Vec::new();
            for seed in 1..=5 {
                let mut world = World::new(capacity, foreign, seed);
                world.run(Duration::from_secs(2));
                let after = world.probe_bytes;
                found.extend(shares(&mut world, 20..220).0);
                let burst = after as f64 / (2.0 * capacity);
                let steady = (world.probe_bytes - after) as f64 / (20.0 * capacity);
                let is_little = burst <= 0.05 && steady <= 0.0101;
                assert!(is_little, "{capacity} {foreign}: {burst} {steady}");
                assert!(world.first.unwrap() <= Duration::from_secs(2));
            }
            let error = error(&found, 1.0 - foreign);
            assert!(error <= 0.1, "{capacity} {foreign}: {error}");
        }
    }
}

/// The same with routers that are processes on a busy machine: they read packets in batches, and
/// send them late. If they are held up for up to 0.3 ms at once, errors are only slightly larger,
/// and there is an estimate for 99 % of the time. If they are held up for up to 4 ms, which is
/// longer than a train, there is still an estimate of a slow link for nine tenths of the time.
#[test]
fn error_on_a_busy_machine() {
    for (micros, megabits, most, most_without) in [
        (300, 30e6, 0.15, 6),
        (300, 100e6, 0.15, 6),
        (300, 300e6, 0.15, 6),
        (4000, 30e6, 0.2, 60),
    ] {
        for foreign in [0.0, 0.4, 0.8] {
            let (mut found, mut without) = (Vec::new(), 0);
            for seed in 1..=3 {
                let mut world = World::new(megabits / 8.0, foreign, seed).busy(micros, seed);
                world.run(Duration::from_secs(3));
                let (shares, none) = shares(&mut world, 30..230);
                found.extend(shares);
                without += none;
            }
            let error = error(&found, 1.0 - foreign);
            let is_good = error <= most && without <= most_without;
            assert!(
                is_good,
                "{micros} us, {megabits} {foreign}: {error} {without}"
            );
        }
    }
}

/// The upstream router disappears: its estimate expires, and it gets three requests, followed by
/// another three after each silence.
#[test]
fn a_router_that_vanishes() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.run(Duration::from_secs(5));
    assert!(known(&mut world).is_some());
    world.gone = true;
    let before = world.downstream.requester.stats().requests;
    world.run(Duration::from_secs(10));
    assert_eq!(known(&mut world), None);
    let asked = world.downstream.requester.stats().requests - before;
    assert!(asked <= 9, "{asked}");
    world.gone = false;
    world.run(Duration::from_secs(30));
    let available = known(&mut world).unwrap();
    assert!((available - 0.6).abs() <= 0.2, "{available}");
}

/// The upstream router's clock is a day ahead and 100 ppm fast, without any effect.
#[test]
fn clocks_that_differ() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.ahead = 86_400_000_000_000;
    world.drift = 100;
    let (found, without) = shares(&mut world, (30..300).step_by(10));
    let error = error(&found, 0.6);
    assert!(error <= 0.1 && without == 0, "{error} {without}");
}

/// The upstream router restarts, and its clock starts at 0 again: no queue is detected, because
/// there is none, and the estimate of the cloud remains.
#[test]
fn a_router_that_restarts() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.run(Duration::from_secs(10));
    assert!((known(&mut world).unwrap() - 0.6).abs() <= 0.2);
    world.restart();
    for tenth in 100..300 {
        world.run(Duration::from_millis(100 * tenth));
        let now = world.instant();
        let Some(estimate) = world.estimator.estimate(now, 0) else {
            continue;
        };
        let available = estimate.available as f64 / 1e9 / world.capacity;
        assert!((available - 0.6).abs() <= 0.4, "{tenth}: {estimate:?}");
        let queue = estimate.queue as f64 / 1e9 / world.capacity;
        assert!(queue <= 0.1, "{tenth}: {queue} s");
    }
}

/// A queue of ten packets: trains become shorter until they fit.
#[test]
fn a_shallow_queue() {
    let mut world = World::new(100e6 / 8.0, 0.4, 1);
    world.limit = 10.0 * 1000.0;
    let (found, _) = shares(&mut world, (30..300).step_by(10));
    assert!(found.len() >= 20, "{}", found.len());
    let error = error(&found, 0.6);
    assert!(error <= 0.15, "{error}");
}

/// The link becomes slower and then faster again, which is detected within fifteen seconds.
#[test]
fn a_link_that_changes() {
    let mut world = World::new(100e6 / 8.0, 0.0, 1);
    world.run(Duration::from_secs(5));
    assert!((known(&mut world).unwrap() - 1.0).abs() <= 0.05);
    for (at, rate) in [(20, 40e6), (35, 100e6)] {
        world.capacity = rate / 8.0 / 1e9;
        world.run(Duration::from_secs(at));
        let available = known(&mut world).unwrap();
        assert!((available - 1.0).abs() <= 0.05, "{rate}: {available}");
    }
}

/// A thin link becomes many times faster. This is detected before several regular trains have
/// arrived, of which there is one in 3.6 s on 5 Mbit/s, and one in 18 s on 1 Mbit/s. It does not
/// cost more probing than usual.
#[test]
fn a_thin_link_that_becomes_fast() {
    for (before, after, within) in [(5e6, 60e6, 9), (5e6, 10e6, 9), (1e6, 30e6, 27)] {
        for seed in 1..=3 {
            let mut world = World::new(before / 8.0, 0.0, seed);
            world.uplink = 2.0 * after / 8.0 / 1e9;
            world.run(Duration::from_secs(60));
            assert!((known(&mut world).unwrap() - 1.0).abs() <= 0.05);
            let probes = world.probe_bytes;
            world.capacity = after / 8.0 / 1e9;
            world.run(Duration::from_secs(60 + within));
            let available = known(&mut world).unwrap();
            let is_near = (available - 1.0).abs() <= 0.05;
            assert!(is_near, "{before} to {after}, seed {seed}: {available}");
            let load = (world.probe_bytes - probes) as f64 * 8.0 / within as f64 / after;
            assert!(load <= 0.011, "{before} to {after}, seed {seed}: {load}");
        }
    }
}

/// A sender that invents sending times, anywhere on its clock, breaks nothing, and is measured
/// again once its times are correct.
#[test]
fn times_that_are_made_up() {
    let mut world = World::new(30e6 / 8.0, 0.4, 1);
    world.jitter = 1_000_000;
    world.run(Duration::from_secs(10));
    world.jitter = 0;
    let now = world.instant();
    let times = [0, u64::MAX, 1 << 62, u64::MAX / 2, 1 << 63, 1 << 40];
    // In the second half of the test, times never decrease.
    let falling = times.iter().cycle().take(300).copied();
    let rising = (0..300).map(|step| (1 << 62) + step * (1 << 54));
    for sent in falling.chain(rising) {
        let probe = Probe {
            sent,
            index: 0,
            packets: 1,
        };
        let bytes = usize::from(LEAST_PROBE);
        let own = world.own;
        world.estimator.on_probe(now, 0, &probe, bytes, own);
        let _ = world.estimator.estimate(now, own);
    }
    world.run(Duration::from_secs(40));
    let available = known(&mut world).unwrap();
    assert!((available - 0.6).abs() <= 0.2, "{available}");
}
