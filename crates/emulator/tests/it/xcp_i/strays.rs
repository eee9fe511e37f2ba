//! Traffic that names an upstream router but didn't pass the cloud behind it.

use pathmark_testbed::sampled;

use super::{MEASURES, around_a_cloud};
use crate::support::{flow, link, run};

/// Returns the goodput over a cloud of 30 Mbit/s, of which other traffic takes 6. From 10 s on,
/// another sender sends packets to the port behind the cloud that claim to have passed it.
fn goodput(algorithm: &str, stray: &str) -> f64 {
    let udp = |rate: &str, more: &str| format!("rate = \"{rate}\"\npoisson = true\n{more}");
    let forged = "start = \"10s\"\npacket = 1000\n\
                  forge = { shim = \"xcp\", rtt = \"60ms\", names = \"R0\" }";
    let text = "duration = \"40s\"\npacket = 1000\n".to_owned()
        + &around_a_cloud("10ms")
        + &link("others", ["O", "P"], "80Mbit", "1ms", "")
        + &link("elsewhere", ["A", "X"], "300Mbit", "1ms", "")
        + &link("around", ["X", "R1"], "300Mbit", "1ms", "")
        + &link("receiver", ["R1", "D"], "400Mbit", "5ms", MEASURES)
        + &flow("f", ["S", "D"], algorithm, "")
        + &flow("others", ["O", "D"], "udp", &udp("6Mbit", ""))
        + &flow("stray", ["A", "D"], "udp", &udp(stray, forged));
    run(&text).flows[0].goodput_bps
}

#[test]
fn packets_from_another_path_starve_no_flow() {
    for stray in sampled(2, ["60Mbit", "200Mbit"]) {
        let cubic = goodput("cubic", stray);
        for algorithm in ["xcp-i", "auto"] {
            let here = goodput(algorithm, stray);
            assert!(
                here > 0.9 * cubic,
                "{algorithm}, {stray}: {here} of {cubic}"
            );
        }
    }
}
