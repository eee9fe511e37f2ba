//! A measured cloud behind a geostationary satellite: a round trip of 540 ms, and so few trains
//! that for many of them in a row none meets an idle link.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

const SCENARIO: &str = r#"
duration = "60s"
measure = [["10s", "60s"]]

[[link]]
name = "sender"
from = "S"
to = "R0"
duplex = true
rate = "80Mbit"
delay = "5ms"
controller = "xcp-i"

[[link]]
name = "into"
from = "R0"
to = "P"
duplex = true
rate = "80Mbit"
delay = "10ms"
controller = "xcp-i"

[[link]]
name = "cloud"
from = "P"
to = "R1"
duplex = true
rate = "30Mbit"
delay = "250ms"

[[link]]
name = "out"
from = "R1"
to = "D"
duplex = true
rate = "80Mbit"
delay = "5ms"
controller = "xcp-i[estimate=real]"

[[flow]]
name = "f"
from = "S"
to = "D"
algorithm = "xcp-i"
"#;

fn run(law: &str, seed: u64) -> RunResult {
    let mut scenario = Scenario::parse(Path::new("far.toml"), SCENARIO).unwrap();
    scenario.set("flow.f.algorithm", law).unwrap();
    scenario.set("seed", &seed.to_string()).unwrap();
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// Goodput in the window, bit/s, and packets that the cloud dropped.
fn seen(law: &str, seed: u64) -> (f64, u64) {
    let result = run(law, seed);
    let mut links = result.links.iter();
    let cloud = links.find(|link| link.name == "cloud").unwrap();
    (result.windows[0].flows[0].goodput_bps, cloud.drops)
}

/// Trains on the full link show less than its capacity. The port takes that for the same link, and
/// one train does not replace the estimate of foreign traffic. Such a replacement grew a queue
/// until it dropped thousands of packets.
#[test]
fn a_full_link_is_no_slower_link() {
    for seed in 2..=4 {
        let (cubic, lost) = seen("cubic", seed);
        for law in ["xcp-i", "auto"] {
            let (goodput, drops) = seen(law, seed);
            println!("{law}, seed {seed}: {goodput}, {drops} lost; CUBIC {cubic}, {lost} lost");
            assert!(
                goodput >= 0.96 * cubic,
                "{law}, seed {seed}: {goodput} {cubic}"
            );
            assert_eq!(drops, 0, "{law}, seed {seed}");
        }
    }
}
