//! Paths whose narrow hop gives no feedback: no law may do worse there than CUBIC.

use pathmark_cc::Duration;

use crate::sim::{FlowConfig, HopConfig, Sim};

const PACKET: u64 = 1500;
const GAPS_MS: [u64; 4] = [30, 70, 110, 150];

/// Share of packets that the plain hop drops, and goodput of the least flow in Mbit/s, over 30 s;
/// the mean of runs whose second flow starts at other times.
fn run(
    algorithm: &'static str,
    port: &'static str,
    plain_mbit: f64,
    limit: u64,
    first: bool,
) -> (f64, f64) {
    let marked = HopConfig::new(port, 50.0, 500_000);
    let plain = HopConfig::new("none", plain_mbit, limit * PACKET);
    let hops = if first {
        [plain, marked]
    } else {
        [marked, plain]
    };
    let once = |gap: u64| {
        let flows: Vec<_> = (0..2)
            .map(|n| FlowConfig::new(algorithm, 80).start(Duration::from_millis(gap * n)))
            .collect();
        let mut sim = Sim::new(&hops, &flows, 1);
        sim.run(Duration::from_secs(30));
        let hop = sim.hop(usize::from(!first));
        let sent = hop.sent() / PACKET + hop.drops();
        let least = (0..2)
            .map(|n| sim.flow(n).goodput(0.0, 30.0))
            .fold(f64::MAX, f64::min);
        (hop.drops() as f64 / sent as f64, least)
    };
    let runs = GAPS_MS.map(once);
    let mean = |of: fn(&(f64, f64)) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    (mean(|run| run.0), mean(|run| run.1))
}

#[test]
fn a_shallow_hop_that_says_nothing_is_not_flooded() {
    for (plain_mbit, limit) in [(5.0, 8), (20.0, 20), (40.0, 8)] {
        for first in [false, true] {
            let (cubic_loss, cubic_least) = run("cubic", "vcp+bise", plain_mbit, limit, first);
            for (algorithm, port) in [
                ("vcp+bise+wlte", "vcp+bise"),
                ("vcp", "vcp"),
                ("xcp", "xcp"),
            ] {
                let (loss, least) = run(algorithm, port, plain_mbit, limit, first);
                let case = format!(
                    "{algorithm} {plain_mbit} {limit} {first}: {loss} {cubic_loss} {least} \
                     {cubic_least}"
                );
                assert!(loss <= 2.0 * cubic_loss + 0.02, "{case}");
                assert!(least >= 0.5 * cubic_least, "{case}");
            }
        }
    }
}
