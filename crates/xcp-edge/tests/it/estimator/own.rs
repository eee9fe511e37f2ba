//! Counted own traffic that did not cross the link at that time.

use pathmark_cc::Duration;

use super::world::World;
use super::{median, shares};

/// Rates of 5, 30 and 300 Mbit/s, in bytes per second.
const RATES: [f64; 3] = [5e6 / 8.0, 30e6 / 8.0, 300e6 / 8.0];

/// In several flows, each eighth or sixteenth packet stands for the others. Bytes counted between
/// two packets of a train then arrived long before, and must not make the link look faster.
#[test]
fn lumps_of_several_flows_make_no_capacity() {
    for rate in RATES {
        for (flows, lump) in [(1, 8), (4, 8), (8, 8), (8, 16)] {
            for own in [0.5, 0.95] {
                let mut off = 0.0f64;
                for seed in 1..=4 {
                    let mut world = World::new(rate, 0.0, seed);
                    (world.own_share, world.lump) = (own, lump);
                    world.uncounted = vec![0; flows];
                    for tenth in 20..300 {
                        let _ = shares(&mut world, [tenth]);
                        let capacity = world.estimator.capacity().unwrap();
                        off = off.max((capacity as f64 / rate - 1.0).abs());
                    }
                }
                let case = format!("{rate} B/s, {flows} flows, lumps of {lump}, {own}");
                assert!(off <= 0.05, "{case}: {off}");
            }
        }
    }
}

/// Traffic that names the upstream router but took another path is counted as own traffic. The
/// unused capacity is still known, but there is no estimate if far more arrived than the link can
/// carry.
#[test]
fn own_traffic_that_came_another_way() {
    for (stray, lump) in [(0.1, 1), (0.5, 1), (0.5, 8), (1.0, 1), (3.0, 1), (3.0, 8)] {
        let mut left = Vec::new();
        for seed in 1..=3 {
            let mut world = with_strays(stray, lump, seed);
            left.extend(shares(&mut world, 250..400).0);
        }
        assert!(left.len() >= 440, "{stray}: {}", left.len());
        let left = median(left);
        assert!((left - 0.5).abs() <= 0.2, "{stray}: {left}");
    }
    let mut world = with_strays(10.0, 1, 1);
    assert_eq!(shares(&mut world, 250..400).0, []);
}

/// 25 s on a link of which own traffic uses 0.3 and foreign traffic 0.2. After 10 s, `stray` times
/// the link's capacity arrives on another path.
fn with_strays(stray: f64, lump: u64, seed: u64) -> World {
    let mut world = World::new(30e6 / 8.0, 0.2, seed);
    (world.own_share, world.lump) = (0.3, lump);
    world.run(Duration::from_secs(10));
    (world.stray_share, world.stray_next) = (stray, world.now as f64);
    world.run(Duration::from_secs(25));
    world
}
