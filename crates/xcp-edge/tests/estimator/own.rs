//! What is counted for the router's own traffic, and is not what crossed the link at that time.

use pathmark_cc::Duration;

use super::median;
use super::world::World;

/// Rates of 5, 30 and 300 Mbit/s, in bytes per second.
const RATES: [f64; 3] = [5e6 / 8.0, 30e6 / 8.0, 300e6 / 8.0];

/// Several flows of which each eighth or sixteenth packet stands for the others: what is counted
/// between two packets of a train came long before, and must not make the link look faster.
#[test]
fn lumps_of_several_flows_make_no_capacity() {
    for rate in RATES {
        for (flows, lump) in [(1, 8), (4, 8), (8, 8), (8, 16)] {
            for own in [0.5, 0.95] {
                let (mut off, mut left) = (0.0f64, Vec::new());
                for seed in 1..=4 {
                    let mut world = World::new(rate, 0.0, seed);
                    (world.own_share, world.lump) = (own, lump);
                    world.uncounted = vec![0; flows];
                    for tenth in 20..300 {
                        world.run(Duration::from_millis(100 * tenth));
                        let (now, own) = (world.instant(), world.own);
                        let capacity = world.estimator.capacity().unwrap();
                        off = off.max((capacity as f64 / rate - 1.0).abs());
                        if let Some(told) = world.estimator.estimate(now, own) {
                            left.push(told.available as f64 / rate);
                        }
                    }
                }
                let left = median(left);
                println!(
                    "{:2.0} Mbit/s, {flows} flows, lumps of {lump}, {own}: capacity off by \
                     {off:.3}, {left:.3} left",
                    rate * 8.0 / 1e6
                );
                assert!(off <= 0.05, "{off}");
            }
        }
    }
}
