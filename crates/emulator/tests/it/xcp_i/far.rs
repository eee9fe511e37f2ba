//! A measured cloud behind a geostationary satellite. With a round trip of 540 ms, there are so few
//! trains that many consecutive trains find the link busy.

use pathmark_testbed::sampled;

use super::{MEASURES, around_a_cloud};
use crate::support::{changed, flow, link, over_all};

/// Returns the goodput in the window in bit/s, and the packets that the cloud dropped.
fn seen(law: &str, seed: u64) -> (f64, u64) {
    let text = "duration = \"60s\"\nmeasure = [[\"10s\", \"60s\"]]\n".to_owned()
        + &around_a_cloud("250ms")
        + &link("out", ["R1", "D"], "80Mbit", "5ms", MEASURES)
        + &flow("f", ["S", "D"], law, "");
    let result = changed(&text, &[("seed", &seed.to_string())]);
    let drops = over_all(&result, "cloud").drops;
    (result.windows[0].flows[0].goodput_bps, drops)
}

/// On the full link, trains show less than its capacity. The port recognizes that the link is the
/// same, so that a single train doesn't replace the estimate of foreign traffic. Otherwise, a queue
/// would grow until thousands of packets are dropped.
#[test]
fn a_full_link_is_no_slower_link() {
    for seed in sampled(3, 2..=4) {
        let (cubic, lost) = seen("cubic", seed);
        for law in ["xcp-i", "auto"] {
            let (goodput, drops) = seen(law, seed);
            println!("{law}, seed {seed}: {goodput}, {drops} lost; CUBIC {cubic}, {lost} lost");
            assert!(
                goodput >= 0.96 * cubic,
                "{law}, seed {seed}: {goodput} {cubic}"
            );
            // `auto` starts with half of a granted rate, which a full cloud may not be able to
            // carry.
            assert!(drops == 0 || law == "auto", "{law}, seed {seed}");
        }
    }
}
