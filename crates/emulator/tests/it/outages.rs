//! A link fails for a second or three, and everything in flight is in the queue before it.

use pathmark_testbed::sampled;

use crate::support::{flow, goodputs, link, run};

/// Returns the goodput of flows in Mbit/s during the half minute after an outage of a link of 100
/// Mbit/s.
fn after(algorithm: &str, flows: u32, delay: &str, outage: u64) -> f64 {
    let back = 10_000 + outage;
    let at = format!("{{ t = \"10s\", rate = 0 }}, {{ t = \"{back}ms\", rate = \"100Mbit\" }}");
    let more = format!("controller = \"xcp\"\nat = [{at}]");
    let several = format!("count = {flows}\nstart_spread = \"1s\"");
    let text = "duration = \"40s\"\nseed = 1\nmeasure = [[\"10s\", \"40s\"]]\n".to_owned()
        + &link("radio", ["S", "D"], "100Mbit", delay, &more)
        + &flow("f", ["S", "D"], algorithm, &several);
    goodputs(&run(&text), "f").iter().sum()
}

/// Packets that the port's own queue drops during the outage, and the delay of the others, must not
/// be mistaken for a hop without feedback. Otherwise CUBIC would control the window for half a
/// minute, and `auto` would get 56 to 68 Mbit/s over 400 ms.
#[test]
fn an_outage_is_no_hop_that_says_nothing() {
    for (flows, delay, outage) in
        sampled(2, [(2, "200ms", 1000), (1, "50ms", 300), (1, "50ms", 3000)])
    {
        let cubic = after("cubic", flows, delay, outage);
        for algorithm in ["auto", "xcp"] {
            let ours = after(algorithm, flows, delay, outage);
            assert!(
                ours >= 0.92 * cubic,
                "{algorithm} x{flows} {delay} {outage} ms: {ours}, cubic {cubic}"
            );
        }
    }
}
