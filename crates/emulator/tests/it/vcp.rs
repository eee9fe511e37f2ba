//! VCP with real endpoints, over paths that no built-in scenario has.

use pathmark_emulator::result::RunResult;
use pathmark_testbed::sampled;

use crate::support::{drops, flow, goodputs, in_the_end, jain, link, mean, over_all, run};

const BEST: &str = "vcp+bise+wlte";

/// Returns the utilization of a link in the last window.
fn used(result: &RunResult, name: &str) -> f64 {
    in_the_end(result, name).utilization.unwrap()
}

#[test]
fn mixed_round_trips_share_one_port() {
    let port = "controller = \"vcp+bise\"\nqueue = { limit = \"1bdp\", rtt = \"400ms\" }";
    let mut text = "duration = \"100s\"\nmeasure = [[\"80s\", \"100s\"]]\n".to_owned()
        + &link("port", ["R", "D"], "50Mbit", "5ms", port);
    for (rtt_ms, more) in [(400, ""), (200, ""), (50, ""), (100, "start = \"10s\"")] {
        let (host, name) = (format!("S{rtt_ms}"), format!("f{rtt_ms}"));
        let delay = format!("{}ms", rtt_ms / 2 - 5);
        text += &link(&host, [&host, "R"], "", &delay, "");
        text += &flow(&name, [&host, "D"], BEST, more);
    }
    let result = run(&text);
    let shares = goodputs(&result, "f");
    let least = shares.iter().copied().fold(f64::MAX, f64::min);
    assert!(least >= 50.0 / 16.0, "{shares:?}");
    assert_eq!(drops(&result), 0);
    assert!(used(&result, "port") >= 0.93);
}

#[test]
fn one_to_twenty_flows_fill_the_link_evenly() {
    let port = "controller = \"vcp+bise\"";
    for count in [1, 2, 5, 10, 20] {
        let more = format!("count = {count}\nstart_spread = \"150ms\"");
        let text = "duration = \"30s\"\nmeasure = [[\"15s\", \"30s\"]]\n".to_owned()
            + &link("port", ["S", "D"], "100Mbit", "250ms", port)
            + &flow("f", ["S", "D"], BEST, &more);
        let result = run(&text);
        assert_eq!(drops(&result), 0, "{count} flows");
        assert!(used(&result, "port") >= 0.95, "{count} flows");
        let shares = goodputs(&result, "f");
        assert!(jain(&shares) >= 0.98, "{shares:?}");
    }
}

/// Foreign packets keep their 40 %, and VCP uses the rest without a queue.
#[test]
fn foreign_traffic_counts_and_vcp_makes_room() {
    let port = "controller = \"vcp+bise\"\nqueue = { limit = \"1bdp\" }";
    let result = run(
        &("duration = \"60s\"\nmeasure = [[\"20s\", \"60s\"]]\n".to_owned()
            + &link("port", ["S", "D"], "20Mbit", "50ms", port)
            + &flow("vcp", ["S", "D"], BEST, "")
            + &flow("foreign", ["S", "D"], "udp", "rate = \"8Mbit\"")),
    );
    assert_eq!(drops(&result), 0);
    let vcp = mean(&goodputs(&result, "vcp"));
    assert!((10.0..11.7).contains(&vcp), "{vcp}");
}

#[test]
fn plain_and_bise_ports_in_a_row_neither_drop_nor_stall() {
    for hops in [
        [("vcp", 10), ("vcp+bise", 10)],
        [("vcp+bise", 10), ("vcp", 10)],
        [("vcp+bise", 10), ("vcp", 8)],
        [("vcp", 8), ("vcp+bise", 10)],
        [("vcp+bise", 10), ("vcp+bise", 8)],
    ] {
        let port = |name, ends, (law, mbit): (&str, u32)| {
            let more = format!("controller = \"{law}\"\nqueue = {{ limit = \"1bdp\" }}");
            link(name, ends, &format!("{mbit}Mbit"), "25ms", &more)
        };
        let result = run(
            &("duration = \"60s\"\nmeasure = [[\"30s\", \"60s\"]]\n".to_owned()
                + &port("one", ["S", "R"], hops[0])
                + &port("two", ["R", "D"], hops[1])
                + &flow("f", ["S", "D"], BEST, "")),
        );
        assert_eq!(drops(&result), 0, "{hops:?}");
        let narrow = if hops[1].1 < hops[0].1 { "two" } else { "one" };
        let used = used(&result, narrow);
        assert!(used >= 0.9, "{hops:?}: {used}");
    }
}

/// Returns the mean completion time of five files of 5 MB over 10 Mbit/s and 400 ms.
fn five_files(law: &str, controller: &str) -> f64 {
    let more = "bytes = 5_000_000\ncount = 5\nstart_spread = \"15ms\"";
    let port = format!("controller = \"{controller}\"");
    let result = run(&("duration = \"120s\"\n".to_owned()
        + &link("port", ["S", "D"], "10Mbit", "200ms", &port)
        + &flow("f", ["S", "D"], law, more)));
    let times = result.flows.iter().map(|flow| flow.completion_s.unwrap());
    mean(&times.collect::<Vec<_>>())
}

#[test]
fn the_ecn_field_carries_plain_vcp_as_well() {
    let ecn_law = "vcp[carrier=ecn]";
    let (shim, ecn) = (five_files("vcp", "vcp"), five_files(ecn_law, "vcp"));
    assert!(ecn <= 1.1 * shim, "{ecn} {shim}");
    // Without marks it is CUBIC.
    let (alone, cubic) = (five_files(ecn_law, "none"), five_files("cubic", "none"));
    assert!((alone / cubic - 1.0).abs() <= 0.01, "{alone} {cubic}");
}

/// Returns the share of packets that the plain hop drops, and the lowest goodput of a flow in
/// Mbit/s, over 30 s, as the mean of runs with different start times of the second flow.
fn beside_a_plain_hop(
    algorithm: &str,
    controller: &str,
    plain_mbit: u32,
    limit: u32,
    first: bool,
) -> (f64, f64) {
    let ends = [["S", "R"], ["R", "D"]];
    let more = format!("controller = \"{controller}\"\nqueue = {{ limit = \"333p\" }}");
    let marked = link("marked", ends[usize::from(first)], "50Mbit", "20ms", &more);
    let more = format!("queue = {{ kind = \"droptail\", limit = \"{limit}p\" }}");
    let rate = format!("{plain_mbit}Mbit");
    let plain = link("plain", ends[usize::from(!first)], &rate, "20ms", &more);
    let once = |gap_ms: u32| {
        let starts = format!("count = 2\nstart = [\"0s\", \"{gap_ms}ms\"]");
        let result = run(
            &("duration = \"30s\"\nmeasure = [[\"0s\", \"30s\"]]\n".to_owned()
                + &marked
                + &plain
                + &flow("f", ["S", "D"], algorithm, &starts)),
        );
        let drops = over_all(&result, "plain").drops;
        let sent = result.flows.iter().filter_map(|flow| flow.packets_sent);
        let least = goodputs(&result, "f").into_iter().fold(f64::MAX, f64::min);
        (drops as f64 / sent.sum::<u64>() as f64, least)
    };
    let runs = [30, 110].map(once);
    (mean(&runs.map(|run| run.0)), mean(&runs.map(|run| run.1)))
}

/// If the narrow hop gives no feedback, no law performs worse than CUBIC.
#[test]
fn a_shallow_hop_that_says_nothing_is_not_flooded() {
    let paths = [(5, 8), (20, 20), (40, 8)];
    let paths = paths.map(|(mbit, limit)| [(mbit, limit, false), (mbit, limit, true)]);
    for (plain_mbit, limit, first) in sampled(3, paths.concat()) {
        let of = |algorithm, port| beside_a_plain_hop(algorithm, port, plain_mbit, limit, first);
        let (cubic_loss, cubic_least) = of("cubic", "vcp+bise");
        for (algorithm, port) in [(BEST, "vcp+bise"), ("vcp", "vcp"), ("xcp", "xcp")] {
            let (loss, least) = of(algorithm, port);
            let case = format!(
                "{algorithm} {plain_mbit} {limit} {first}: {loss} {cubic_loss} {least} \
                 {cubic_least}"
            );
            assert!(loss <= 2.0 * cubic_loss + 0.02, "{case}");
            // If the marked port has the same rate, `vcp` without BISE starts slowly.
            let part = if algorithm == "vcp" { 0.3 } else { 0.5 };
            assert!(least >= part * cubic_least, "{case}");
        }
    }
}
