//! Measured clouds whose delay changes: goodput relative to that of CUBIC over the same path.

use pathmark_testbed::sampled;

use super::{clouds, goodputs, run};

/// Returns the goodput of XCP-i over a measured cloud of 30 Mbit/s and 60 ms, divided by that of
/// CUBIC, and the number of packets that are marked with an unknown cloud. `keys` are added to the
/// cloud's narrow link. Both are means over `seeds`, since jitter may hide a cloud in some runs.
fn relative_to_cubic(keys: &[(&str, &str)], seeds: &[u64]) -> (f64, u64) {
    let count = seeds.len();
    let runs = seeds.iter().map(|seed| with_seed(&seed.to_string(), keys));
    let (shares, unknown): (Vec<f64>, Vec<u64>) = runs.unzip();
    let share = shares.iter().sum::<f64>() / count as f64;
    println!("{keys:?}: {shares:.3?}, {share:.3} of CUBIC's goodput");
    (share, unknown.iter().sum::<u64>() / count as u64)
}

fn with_seed(seed: &str, keys: &[(&str, &str)]) -> (f64, u64) {
    let [ours, cubic] = ["xcp-i", "cubic"].map(|law| {
        let mut changes = vec![
            ("measure", "[[\"10s\", \"30s\"]]"),
            ("duration", "30s"),
            ("flow.f.algorithm", law),
            ("seed", seed),
        ];
        changes.extend(keys);
        run("xcp-i-fig2", "xcp-i, measured", &changes)
    });
    let share = goodputs(&ours, 0)[0] / goodputs(&cubic, 0)[0];
    (share, clouds(&ours, "receiver", "unknown"))
}

/// A longer path does not count as a queue, whether it stays longer or not.
#[test]
fn longer_paths() {
    for (at, least) in [
        ("[{ t = \"12s\", delay = \"13ms\" }]", 0.9),
        ("[{ t = \"12s\", delay = \"50ms\" }]", 0.85),
        (
            "[{ t = \"10s\", delay = \"30ms\" }, { t = \"14s\", delay = \"10ms\" }, \
             { t = \"18s\", delay = \"30ms\" }, { t = \"22s\", delay = \"10ms\" }]",
            0.85,
        ),
    ] {
        let (share, _) = relative_to_cubic(&[("link.bottleneck.at", at)], &sampled(2, [1, 2]));
        assert!(share >= least, "{at}: {share}");
    }
}

/// With 5 ms of jitter, trains yield no estimate. The port reports this, and senders fall back to
/// standard control.
#[test]
fn jitter() {
    for (jitter, hides) in [("\"1ms\"", false), ("\"5ms\"", true)] {
        let (share, unknown) = relative_to_cubic(&[("link.bottleneck.jitter", jitter)], &[1, 2, 3]);
        assert!(share >= 0.9, "{jitter}: {share}");
        assert!(unknown > 0 || !hides, "{jitter}");
    }
}
