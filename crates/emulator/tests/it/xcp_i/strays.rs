//! Traffic that names an upstream router and did not come through the cloud behind it.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

/// A cloud of 30 Mbit/s in which others have 6; from 10 s on another sender sends packets to the
/// port behind it that claim to have come through it.
const SCENARIO: &str = r#"
duration = "40s"
packet = 1000

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
delay = "10ms"

[[link]]
name = "others"
from = "O"
to = "P"
duplex = true
rate = "80Mbit"
delay = "1ms"

[[link]]
name = "elsewhere"
from = "A"
to = "X"
duplex = true
rate = "300Mbit"
delay = "1ms"

[[link]]
name = "around"
from = "X"
to = "R1"
duplex = true
rate = "300Mbit"
delay = "1ms"

[[link]]
name = "receiver"
from = "R1"
to = "D"
duplex = true
rate = "400Mbit"
delay = "5ms"
controller = "xcp-i[estimate=real]"

[[flow]]
name = "f"
from = "S"
to = "D"

[[flow]]
name = "others"
from = "O"
to = "D"
algorithm = "udp"
rate = "6Mbit"
poisson = true

[[flow]]
name = "stray"
from = "A"
to = "D"
algorithm = "udp"
rate = "60Mbit"
poisson = true
start = "10s"
packet = 1000
forge = { shim = "xcp", rtt = "60ms", names = "R0" }
"#;

fn run(algorithm: &str, stray: &str) -> RunResult {
    let mut scenario = Scenario::parse(Path::new("strays.toml"), SCENARIO).unwrap();
    scenario.set("flow.f.algorithm", algorithm).unwrap();
    scenario.set("flow.stray.rate", stray).unwrap();
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn packets_from_another_path_starve_no_flow() {
    for stray in ["60Mbit", "200Mbit"] {
        let cubic = run("cubic", stray).flows[0].goodput_bps;
        for algorithm in ["xcp-i", "auto"] {
            let here = run(algorithm, stray).flows[0].goodput_bps;
            assert!(
                here > 0.9 * cubic,
                "{algorithm}, {stray}: {here} of {cubic}"
            );
        }
    }
}
