//! XCP-i: the key figures of its scenarios. Rates and amounts are IP bytes at the links, as in the
//! XCP-i paper.

mod far;
mod paper;
mod paths;
mod shared;
mod strays;

use std::ops::ControlFlow;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

use crate::support::{drops, in_the_end, link, over_all};

pub(crate) fn run(name: &str, variant: &str, changes: &[(&str, &str)]) -> RunResult {
    let mut scenario = Scenario::load(name).unwrap();
    let mut variants = scenario.variants.iter();
    let variant = variants.find(|known| known.name == variant).unwrap();
    for change in variant.set.clone() {
        scenario.set(&change.key, &change.value).unwrap();
    }
    for (key, value) in changes {
        scenario.set(key, value).unwrap();
    }
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// Routers of XCP-i from `S` to `R1`, and a cloud of 30 Mbit/s between `P` and `R1`.
fn around_a_cloud(delay: &str) -> String {
    let marks = "controller = \"xcp-i\"";
    link("sender", ["S", "R0"], "80Mbit", "5ms", marks)
        + &link("into", ["R0", "P"], "80Mbit", "10ms", marks)
        + &link("cloud", ["P", "R1"], "30Mbit", delay, "")
}

/// The port behind the cloud, which measures it.
const MEASURES: &str = "controller = \"xcp-i[estimate=real]\"";

pub(crate) fn utilization(result: &RunResult, link: &str) -> f64 {
    over_all(result, link).utilization.unwrap()
}

/// The same in the last measuring window.
pub(crate) fn late(result: &RunResult, link: &str) -> f64 {
    in_the_end(result, link).utilization.unwrap()
}

pub(crate) fn timeouts(result: &RunResult) -> u64 {
    let flows = result.flows.iter();
    flows.filter_map(|flow| flow.timeouts).sum()
}

/// Returns the count `key` in the port's report on clouds.
pub(crate) fn clouds(result: &RunResult, link: &str, key: &str) -> u64 {
    let report = &over_all(result, link).controller;
    report["clouds"][key].as_u64().unwrap()
}

pub(crate) fn goodputs(result: &RunResult, window: usize) -> Vec<f64> {
    let flows = result.windows[window].flows.iter();
    flows.map(|flow| flow.goodput_bps).collect()
}

/// Without an estimate, the port reports an unknown cloud. The sender then behaves as if no router
/// looked for clouds.
#[test]
fn without_an_estimate_ports_report_an_unknown_cloud() {
    let changes = [("link.receiver.controller", "xcp-i")];
    let result = run("xcp-i-fig2", "xcp-i", &changes);
    let plain = run("xcp-i-fig2", "xcp", &[]);
    assert_eq!(clouds(&result, "receiver", "counted"), 0);
    assert!(clouds(&result, "receiver", "unknown") > 10_000);
    let [here, there] = [&result, &plain].map(|run| utilization(run, "bottleneck"));
    assert!((here - there).abs() <= 0.02, "{here} {there}");
    // The reasons for the fallback differ.
    let short = [("measure", "[]"), ("duration", "5s")];
    let counted = run("xcp-i-fig2", "xcp-i", &short);
    let no_port = run(
        "xcp-i-fig2",
        "xcp",
        &[
            short[0],
            short[1],
            ("link.sender.controller", "none"),
            ("link.into.controller", "none"),
            ("link.receiver.controller", "none"),
        ],
    );
    let reasons = [&result, &plain, &counted, &no_port].map(|run| run.flows[0].fallback.as_deref());
    let expected = ["no-estimate", "plain-hop", "", "no-answer"];
    assert_eq!(reasons.map(Option::unwrap_or_default), expected);
}

/// A header on every eighth packet also represents the others in a virtual router.
#[test]
fn headers_on_every_eighth_packet() {
    let changes = [("flow.f.algorithm", "xcp-i[every=8]")];
    let result = run("xcp-i-fig2", "xcp-i", &changes);
    assert!(late(&result, "bottleneck") >= 0.98);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
}

/// Figure 2 with measured estimates: at least 0.95 of XCP at every router, and no loss.
#[test]
fn a_plain_bottleneck_is_measured() {
    let all = utilization(&run("xcp-i-fig2", "all-xcp", &[]), "bottleneck");
    for seed in ["1", "2"] {
        let result = run("xcp-i-fig2", "xcp-i, measured", &[("seed", seed)]);
        let here = utilization(&result, "bottleneck");
        assert!(here >= 0.95 * all, "{here} of {all}");
        assert_eq!((drops(&result), timeouts(&result)), (0, 0));
        assert_eq!(clouds(&result, "receiver", "unknown"), 0);
    }
}

/// `auto` does the same on its own, since the routers answer with XCP's own feedback: it names the
/// router before the cloud in a full header on every n-th packet. Therefore it gets more than
/// `xcp-i`, which has such a header in each packet, even on a slow link, and at least 0.95 of the
/// goodput of CUBIC, which fills the queue.
#[test]
fn auto_goes_by_measured_clouds() {
    for (rate, most_drops) in [("30Mbit", 0), ("3Mbit", 20)] {
        let [auto, every, cubic] = ["auto", "xcp-i", "cubic"].map(|law| {
            let changes = [
                ("measure", "[[\"10s\", \"30s\"]]"),
                ("duration", "30s"),
                ("link.bottleneck.rate", rate),
                ("flow.f.algorithm", law),
            ];
            run("xcp-i-fig2", "auto, measured", &changes)
        });
        let used = late(&auto, "bottleneck");
        let [ours, full, cubics] = [&auto, &every, &cubic].map(|result| goodputs(result, 0)[0]);
        let lost = [&auto, &every, &cubic].map(drops);
        println!("{rate}: {used:.3}, {ours:.0} of {full:.0} and {cubics:.0} bit/s, drops {lost:?}");
        assert!(used >= 0.95, "{rate}: {used}");
        assert!(
            ours >= full && ours >= 0.94 * cubics,
            "{rate}: {ours} {full} {cubics}"
        );
        assert!(lost[0] <= most_drops.max(lost[2]), "{rate}: {lost:?}");
        assert_eq!(timeouts(&auto), 0, "{rate}");
        assert_eq!(auto.flows[0].fallback, None, "{rate}");
        assert_eq!(clouds(&auto, "receiver", "known"), 1);
        assert_eq!(clouds(&auto, "receiver", "unknown"), 0);
    }
}

/// The router between two clouds measures the first one, and lets the second one be measured.
#[test]
fn two_clouds_in_a_row_are_measured() {
    let real = "xcp-i[estimate=real]";
    let changes = [
        ("link.between.controller", real),
        ("link.receiver.controller", real),
    ];
    let all = run("xcp-i-fig6", "all-xcp", &[]);
    let result = run("xcp-i-fig6", "xcp-i", &changes);
    for port in ["between", "receiver"] {
        assert_eq!(clouds(&result, port, "known"), 1, "{port}");
        let counted = clouds(&result, port, "counted");
        let unknown = clouds(&result, port, "unknown");
        assert!(unknown <= counted / 100, "{port}: {unknown} {counted}");
    }
    let (all, here) = (utilization(&all, "first"), utilization(&result, "first"));
    assert!(here >= 0.9 * all, "{here} of {all}");
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
}

/// Figure 4, with routers only near the receiver: the sender acts as the router before the cloud.
#[test]
fn a_cloud_at_the_sender() {
    let result = run("xcp-i-fig4", "receiver, xcp-i", &[]);
    assert!(late(&result, "first") >= 0.98);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    assert_eq!(clouds(&result, "second", "unknown"), 0);
}

/// Figure 4, with routers only near the sender: the receiver is behind the cloud. It either has an
/// exact estimate of the cloud's spare capacity, or measures it.
#[test]
fn a_cloud_at_the_receiver() {
    for (variant, least) in [("sender, xcp-i", 0.98), ("sender, xcp-i, measured", 0.95)] {
        let result = run("xcp-i-fig4", variant, &[]);
        let used = late(&result, "second");
        assert!(used >= least, "{variant}: {used}");
        assert_eq!((drops(&result), timeouts(&result)), (0, 0), "{variant}");
        assert_eq!(result.flows[0].fallback, None, "{variant}");
    }
}
