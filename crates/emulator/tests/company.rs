//! Flows of several kinds at one port that keeps them apart.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

/// A port of 20 Mbit/s with a round trip of 40 ms for 40 s, the last 20 of which are measured.
fn run(port: &str, flows: &[(&str, &str, u32)], seed: u64) -> RunResult {
    let mut text = format!(
        r#"duration = "40s"
seed = {seed}
measure = [["20s", "40s"]]
[[link]]
name = "port"
from = "A"
to = "B"
duplex = true
rate = "20Mbit"
delay = "20ms"
controller = "{port}"
queue = {{ limit = "1bdp", rtt = "200ms" }}
"#
    );
    for (name, algorithm, count) in flows {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"A\"\nto = \"B\"\nalgorithm = \"{algorithm}\"\n\
             count = {count}\nstart_spread = \"1s\"\n"
        );
    }
    let scenario = Scenario::parse(Path::new("test.toml"), &text).unwrap();
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// Goodputs in the last window of flows whose names begin so, in Mbit/s.
fn goodputs(result: &RunResult, name: &str) -> Vec<f64> {
    let flows = result.windows.last().unwrap().flows.iter();
    let own = flows.filter(|flow| flow.name.starts_with(name));
    own.map(|flow| flow.goodput_bps / 1e6).collect()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

#[test]
fn a_flow_has_its_share_whatever_kind_it_is_of() {
    for port in ["vcp+bise", "xcp"] {
        let ours = if port == "xcp" {
            "xcp"
        } else {
            "vcp+bise+wlte"
        };
        for (own, tcp) in [(1, 1), (1, 20), (20, 1), (5, 5)] {
            let result = run(port, &[("ours", ours, own), ("tcp", "cubic", tcp)], 1);
            let (a, b) = (
                mean(&goodputs(&result, "ours")),
                mean(&goodputs(&result, "tcp")),
            );
            let (least, most) = (a.min(b), a.max(b));
            assert!(least >= 0.6 * most, "{port} {own}+{tcp}: {a} {b}");
            let fair = 20.0 / f64::from(own + tcp);
            assert!(least >= 0.85 * fair, "{port} {own}+{tcp}: {a} {b}");
        }
    }
}
