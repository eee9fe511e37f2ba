//! Clouds that others use too: other XCP-i routers, foreign packets, CUBIC.

use std::ops::ControlFlow;

use pathmark_emulator::Scenario;

use super::{clouds, drops, goodputs, jain, late, run, timeouts};

/// Figure 14: two paths that share nothing but the cloud, and a flow that joins when it is full.
#[test]
fn a_cloud_is_shared() {
    for seed in ["1", "2", "3"] {
        let result = run("xcp-i-fig14", "xcp-i", &[("seed", seed)]);
        // The last of 100 round trips after it joined.
        let joining = goodputs(&result, 1);
        let after = goodputs(&result, 2);
        assert!(jain(&joining) >= 0.9, "{joining:?}");
        assert!(jain(&after) >= 0.95, "{after:?}");
        assert!(late(&result, "cloud") >= 0.9);
        assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    }
}

/// Figure 14 with estimates that are measured: each takes the other's flow for foreign.
#[test]
fn a_shared_cloud_is_measured() {
    let result = run("xcp-i-fig14", "xcp-i, measured", &[]);
    let after = goodputs(&result, 2);
    assert!(jain(&after) >= 0.95, "{after:?}");
    assert!(late(&result, "cloud") >= 0.9);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
}

/// Foreign packets in the cloud, which come as they like: what they leave is used, and they lose
/// nothing.
#[test]
fn foreign_traffic_is_left_what_it_takes() {
    let text = r#"
name = "a cloud with foreign packets"
duration = "20s"
packet = 1000
measure = [["5s", "20s"]]
[[link]]
name = "into"
from = "R0"
to = "P"
duplex = true
rate = "80Mbit"
delay = "10ms"
controller = "xcp-i"
[[link]]
name = "sender"
from = "S"
to = "R0"
duplex = true
rate = "80Mbit"
delay = "5ms"
controller = "xcp-i"
[[link]]
name = "other"
from = "X"
to = "P"
duplex = true
rate = "80Mbit"
[[link]]
name = "cloud"
from = "P"
to = "R1"
duplex = true
rate = "30Mbit"
delay = "10ms"
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
[[flow]]
name = "x"
from = "X"
to = "D"
algorithm = "udp"
rate = "15Mbit"
poisson = true
"#;
    let scenario = Scenario::parse(std::path::Path::new("foreign.toml"), text).unwrap();
    let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    let used = late(&result, "cloud");
    assert!(used >= 0.85, "{used}");
    assert_eq!(drops(&result), 0);
    let [ours, foreign] = goodputs(&result, 0)[..] else {
        panic!("two flows")
    };
    assert!(foreign >= 14e6 && ours >= 9e6, "{ours} {foreign}");
}

/// One CUBIC flow beside: each side gets 30 to 70 %, with an exact estimate and a measured one; the
/// mean over seeds. Once it is gone, the cloud is accounted for again.
#[test]
fn beside_cubic() {
    for variant in ["xcp-i", "xcp-i, measured"] {
        let mut share = 0.0;
        for seed in ["1", "2"] {
            let result = run("xcp-i-tcp", variant, &[("seed", seed)]);
            let [ours, cubic] = goodputs(&result, 0)[..] else {
                panic!("two flows")
            };
            share += ours / (ours + cubic) / 2.0;
            assert!(clouds(&result, "out", "crowded") >= 1);
        }
        assert!((0.3..=0.7).contains(&share), "{variant}: {share}");
        let changes = [
            ("flow.tcp.stop", "20s"),
            ("measure", "[[\"50s\", \"60s\"]]"),
        ];
        let result = run("xcp-i-tcp", variant, &changes);
        assert!(late(&result, "cloud") >= 0.95);
        assert!(clouds(&result, "out", "counted") > 50_000);
    }
}
