//! `auto` with real endpoints, with any protocol of the routers, and while it changes.

use pathmark_emulator::result::RunResult;
use pathmark_testbed::sampled;

use crate::support::{self, built_in, changed, drops, flow, link};

/// One download over two links of 20 and 20 Mbit/s and 100 ms in total, with buffers of one
/// bandwidth-delay product each.
fn run(changes: &[(&str, &str)]) -> RunResult {
    let text = "duration = \"30s\"\nmeasure = [[\"5s\", \"10s\"], [\"15s\", \"30s\"]]\n".to_owned()
        + &link("first", ["S", "R"], "20Mbit", "10ms", "")
        + &link("second", ["R", "D"], "20Mbit", "40ms", "")
        + &flow("f", ["S", "D"], "auto", "");
    changed(&text, changes)
}

/// The same with these controllers and this algorithm.
fn path(first: &str, second: &str, algorithm: &str, more: &[(&str, &str)]) -> RunResult {
    let mut changes = vec![
        ("link.first.controller", first),
        ("link.second.controller", second),
        ("flow.f.algorithm", algorithm),
    ];
    changes.extend(more);
    run(&changes)
}

fn goodput(result: &RunResult) -> f64 {
    result.flows[0].goodput_bps / 1e6
}

/// Returns the goodput in a measuring window in Mbit/s.
fn during(result: &RunResult, window: usize) -> f64 {
    result.windows[window].flows[0].goodput_bps / 1e6
}

#[test]
fn on_a_path_of_one_kind_it_does_as_the_law_of_that_kind_does() {
    for (port, law, least) in [
        ("xcp", "xcp[start=quick-start]", 0.995),
        ("vcp+bise", "vcp+bise+wlte[start=quick-start]", 0.98),
        ("vcp", "vcp+bise+wlte[start=quick-start]", 0.95),
        ("none", "cubic", 0.98),
        ("quick-start", "cubiq", 0.98),
    ] {
        let own = path(port, port, law, &[]);
        let auto = path(port, port, "auto", &[]);
        let share = goodput(&auto) / goodput(&own);
        assert!(share >= least, "{port}: {share} of {}", goodput(&own));
        if port != "none" && port != "quick-start" {
            assert_eq!(drops(&auto), 0, "{port}");
        }
        let queue = |result: &RunResult| result.links[0].queue_packets.max;
        // Over `vcp+bise`, the end of growth queues 26 additional packets in one or two of ten
        // seeds.
        let mut queues = Vec::new();
        for seed in sampled(2, ["1", "2", "3", "4", "5"]) {
            queues.push(queue(&path(port, port, "auto", &[("seed", seed)])));
        }
        queues.sort_by(f64::total_cmp);
        let (median, most) = (queues[queues.len() / 2], queues[queues.len() - 1]);
        assert!(median <= queue(&own) + 10.0, "{port}: {queues:?}");
        assert!(most <= queue(&own) + 30.0, "{port}: {queues:?}");
    }
}

/// A router that doesn't know our protocols is visible in the TTL. It has a high rate, and all
/// losses are random, so that ports keep control of the window, whatever their law.
#[test]
fn a_plain_hop_that_shows_and_random_loss_leave_routers_in_control() {
    for (port, own) in [("vcp+bise", "vcp+bise+wlte"), ("xcp", "xcp")] {
        let more = [
            ("link.first.rate", "40Mbit"),
            ("link.second.loss", r#"{ kind = "bernoulli", per = 0.01 }"#),
        ];
        let [cubic, own, auto] =
            ["cubic", own, "auto"].map(|law| goodput(&path("none", port, law, &more)));
        assert!(auto >= 0.95 * own, "{port}: {auto}, of its own {own}");
        assert!(auto > 4.0 * cubic, "{port}: {auto}, cubic {cubic}");
    }
}

#[test]
fn whichever_kind_the_narrow_port_is_the_link_is_full_and_nothing_is_dropped() {
    for (first, second) in [("xcp", "vcp+bise"), ("vcp+bise", "xcp")] {
        for (narrow, wide) in [("first", "second"), ("second", "first")] {
            let rate = format!("link.{wide}.rate");
            let result = path(first, second, "auto", &[(&rate, "40Mbit")]);
            let late = during(&result, 1);
            // 1444 of 1500 bytes, minus shims and QUIC's own overhead.
            assert!(late >= 0.9 * 20.0, "{first}, {second}, {narrow}: {late}");
            assert_eq!(drops(&result), 0, "{first}, {second}, {narrow}");
        }
        // Both have the same rate: each keeps a part of its own free, so that no law fills them.
        let runs = |law: &str| {
            let seeds = sampled(3, ["1", "2", "3", "4", "5"]).into_iter();
            let of = |seed| path(first, second, law, &[("seed", seed)]);
            seeds.map(of).collect::<Vec<_>>()
        };
        let mean = |runs: &[RunResult]| {
            runs.iter().map(|run| during(run, 1)).sum::<f64>() / runs.len() as f64
        };
        let auto = runs("auto");
        let own = ["vcp+bise+wlte", "xcp"].map(|law| mean(&runs(law)));
        let (late, least) = (mean(&auto), own[0].min(own[1]));
        assert!(
            late >= (0.98 * least).max(0.87 * 20.0),
            "{first}, {second}: {late}, {own:?}"
        );
        for result in &auto {
            assert_eq!(drops(result), 0, "{first}, {second}");
        }
    }
}

#[test]
fn a_port_that_changes_its_law_under_a_flow_neither_stalls_nor_floods_it() {
    for (before, after) in [
        ("xcp", "vcp+bise"),
        ("vcp+bise", "xcp"),
        ("xcp", "none"),
        ("vcp+bise", "none"),
        ("none", "xcp"),
        ("none", "vcp+bise"),
    ] {
        let at = format!(r#"[{{ t = "10s", controller = "{after}" }}]"#);
        let changes = [
            ("link.second.at", at.as_str()),
            ("link.first.rate", "100Mbit"),
            (
                "measure",
                r#"[["5s", "10s"], ["10s", "13s"], ["20s", "30s"]]"#,
            ),
        ];
        let result = path("none", before, "auto", &changes);
        let [first, turn, late] = [0, 1, 2].map(|window| during(&result, window));
        assert!(first >= 17.0, "{before} to {after}: {first}");
        // A queue that CUBIC has filled must drain first.
        let least = if before == "none" { 0.7 } else { 0.85 };
        assert!(
            turn >= least * first,
            "{before} to {after}: {turn} of {first}"
        );
        assert!(late >= 17.0, "{before} to {after}: {late}");
        if before != "none" && after != "none" {
            assert_eq!(drops(&result), 0, "{before} to {after}");
        }
    }
}

/// A port that only grants starts gives 85 % of an idle link. Regular slow start from there would
/// fill the queue before this shows; the remaining 15 % fit.
#[test]
fn at_a_port_that_only_grants_an_idle_link_is_full_soon_and_its_queue_is_not() {
    for (rate, delay, rtt, duration) in [
        ("100Mbit", "250ms", 0.5, "6s"),
        ("1Gbit", "500ms", 1.0, "9s"),
        ("10Gbit", "50ms", 0.1, "1s"),
    ] {
        for buffer in ["1bdp", "0.2bdp"] {
            let changes = [
                ("duration", duration),
                ("link.bottleneck.rate", rate),
                ("link.bottleneck.delay", delay),
                ("link.bottleneck.queue.limit", buffer),
                ("link.bottleneck.controller", "quick-start"),
                ("flow.f.algorithm", "auto"),
            ];
            let result = built_in("auto-start", &changes);
            let link = &result.links[0];
            let rounds = link.time_to_80_s.unwrap() / rtt - 1.0;
            assert!(rounds <= 4.0, "{rate}, {buffer}: {rounds}");
            assert_eq!(link.drops, 0, "{rate}, {buffer}");
            let queue = link.queue_ms.unwrap().max / 1e3 / rtt;
            assert!(queue <= 0.2, "{rate}, {buffer}: {queue}");
        }
    }
}

/// At such a port, where another flow uses half of the rate, a newcomer reaches its share. It loses
/// fewer packets than fit into the queue, and takes nothing from the other flow.
#[test]
fn at_a_port_that_only_grants_a_newcomer_gets_to_its_share() {
    for delay in ["20ms", "50ms", "250ms"] {
        let port =
            "queue = { kind = \"droptail\", limit = \"1bdp\" }\ncontroller = \"quick-start\"";
        let text = "duration = \"25s\"\nmeasure = [[\"6s\", \"25s\"]]\n".to_owned()
            + &link("port", ["A", "B"], "100Mbit", delay, port)
            + &flow("old", ["A", "B"], "auto", "rate = \"50Mbit\"")
            + &flow("new", ["A", "B"], "auto", "start = \"5s\"");
        let result = support::run(&text);
        let flows = &result.windows[0].flows;
        let (old, new) = (flows[0].goodput_bps, flows[1].goodput_bps);
        assert!(old >= 47.5e6 && new >= 40e6, "{delay}: {old} {new}");
        let drops = result.links[0].drops;
        assert!(drops <= 60, "{delay}: {drops}");
    }
}

/// A radio link of 100 Mbit/s and 500 ms that loses 30 % and declares this. A third of the requests
/// for a rate is lost, as is a third of the answers, of the headers and of the granted flight, but
/// none of this is due to a hidden hop. At most 70 Mbit/s can arrive.
#[test]
fn declared_loss_of_a_third_holds_no_start_back() {
    for controller in ["xcp", "vcp+bise"] {
        let mut rates = Vec::new();
        for seed in sampled(3, ["1", "2", "3"]) {
            let result = run(&[
                ("seed", seed),
                ("measure", "[]"),
                ("link.first.rate", "\"1Gbit\""),
                ("link.second.rate", "\"100Mbit\""),
                ("link.second.delay", "\"240ms\""),
                ("link.second.controller", controller),
                ("link.second.loss", "{ kind = \"bernoulli\", per = 0.3 }"),
                ("link.second.corruption", "\"30%\""),
            ]);
            rates.push(goodput(&result));
        }
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let good = rates.iter().all(|rate| *rate > 10.0);
        assert!(good && mean > 30.0, "{controller}: {rates:?}");
    }
}
