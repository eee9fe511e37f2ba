//! Routers and hosts that are stopped for a second, and links that almost stop.

use pathmark_emulator::result::RunResult;

use crate::support::{flow, link, over_all, run};

const ENDS: [&str; 2] = ["S", "D"];

/// A path of 10 Mbit/s and 400 ms, with `more` added.
fn path(controller: &str, at: &str, more: &str) -> String {
    let port = format!(
        "queue = {{ kind = \"droptail\", limit = \"1bdp\" }}\ncontroller = \"{controller}\"\n\
         at = [{at}]"
    );
    "duration = \"30s\"\n".to_owned()
        + &link("access", ["S", "R"], "", "1ms", "")
        + &link("bottleneck", ["R", "D"], "10Mbit", "199ms", &port)
        + more
}

/// A stall for a second.
fn stall(node: &str) -> String {
    format!("[[stall]]\nnode = \"{node}\"\nat = \"15s\"\nlasts = \"1s\"\n")
}

fn udp(stall: &str) -> RunResult {
    let flow = flow("u", ENDS, "udp", "rate = \"1.2Mbit\"");
    run(&path("none", "", &(flow + stall)))
}

/// 1.2 Mbit/s are 100 packets of 1500 bytes per second. A router that is stopped for a second
/// receives about 100 packets at once, and loses none. A stopped sending host creates no packets in
/// this time. If the receiver is stopped, nothing queues at the port.
#[test]
fn what_comes_during_a_stall_waits() {
    let plain = udp("").flows[0].bytes_delivered / 1472;
    for (node, longest, missing) in [
        ("R", 98.0..=101.0, 0..=0),
        ("S", 0.0..=1.0, 99..=101),
        ("D", 0.0..=1.0, 0..=0),
    ] {
        let result = udp(&stall(node));
        let port = over_all(&result, "bottleneck");
        let most = port.queue_packets.max;
        assert!(longest.contains(&most), "{node}: {most}");
        assert_eq!(port.drops, 0, "{node}");
        let short = plain - result.flows[0].bytes_delivered / 1472;
        assert!(missing.contains(&short), "{node}: {short}");
    }
}

/// Five flows over a router or a sending host that is stopped for a second. XCP must not mistake
/// this for an idle link and grant its capacity in addition to the flows' rates.
#[test]
fn nothing_is_granted_for_time_in_which_a_port_did_not_run() {
    for node in ["R", "S"] {
        for seed in 101..=105 {
            for law in ["xcp", "auto"] {
                let seeded = format!("seed = {seed}\n");
                let flows = flow("f", ENDS, law, "count = 5\nstart_spread = \"50ms\"");
                let text = seeded + &path("xcp", "", &(flows + &stall(node)));
                let result = run(&text);
                let port = over_all(&result, "bottleneck");
                assert_eq!(port.drops, 0, "{node} {law} {seed}");
                let rtts = result.flows.iter().map(|f| f.rtt_ms.as_ref().unwrap().max);
                let longest = rtts.fold(0.0, f64::max);
                assert!(longest <= 1420.0, "{node} {law} {seed}: {longest} ms");
            }
        }
    }
}

/// A packet whose transmission begins just before the rate returns must not occupy the port at the
/// old rate: this would take 12 s at 1 kbit/s, and 25 minutes at 8 bit/s.
#[test]
fn a_rate_that_returns_is_used_at_once() {
    for slow in ["\"8bit\"", "\"1kbit\"", "0"] {
        for (port, law) in [
            ("xcp", "auto"),
            ("vcp+bise", "vcp+bise+wlte"),
            ("none", "cubic"),
        ] {
            let at =
                format!("{{ t = \"10s\", rate = {slow} }}, {{ t = \"11s\", rate = \"10Mbit\" }}");
            let path = path(port, &at, &flow("f", ENDS, law, ""));
            let text = format!("measure = [[\"12s\", \"15s\"]]\n{path}");
            let result = run(&text);
            let goodput = result.windows[0].flows[0].goodput_bps / 1e6;
            assert!(goodput > 5.0, "{slow} {law}: {goodput} Mbit/s");
        }
    }
}
