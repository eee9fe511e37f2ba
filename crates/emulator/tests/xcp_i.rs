//! XCP-i: the key numbers of its scenarios. Rates and amounts are IP bytes at the links, as the
//! XCP-i paper's are.

use std::ops::ControlFlow;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

/// A variant of a built-in scenario, with keys changed.
fn run(name: &str, variant: &str, changes: &[(&str, &str)]) -> RunResult {
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

fn utilization(result: &RunResult, link: &str) -> f64 {
    let mut links = result.links.iter();
    let link = links.find(|known| known.name == link).unwrap();
    link.utilization.unwrap()
}

/// The same in the last measuring window.
fn late(result: &RunResult, link: &str) -> f64 {
    let mut links = result.windows.last().unwrap().links.iter();
    let link = links.find(|known| known.name == link).unwrap();
    link.utilization.unwrap()
}

fn drops(result: &RunResult) -> u64 {
    result.links.iter().map(|link| link.drops).sum()
}

fn timeouts(result: &RunResult) -> u64 {
    let flows = result.flows.iter();
    flows.filter_map(|flow| flow.timeouts).sum()
}

/// What a port says of clouds.
fn clouds(result: &RunResult, link: &str, key: &str) -> u64 {
    let mut links = result.links.iter();
    let link = links.find(|known| known.name == link).unwrap();
    link.controller["clouds"][key].as_u64().unwrap()
}

/// Figures 2 and 6: as good as XCP at every router within 1 % where one is plain, and nearly so
/// where two are: 0.985 there, of 0.995.
#[test]
fn plain_bottlenecks_are_as_good_as_xcp_routers() {
    for (scenario, link, least) in [
        ("xcp-i-fig2", "bottleneck", 0.99),
        ("xcp-i-fig6", "first", 0.985),
    ] {
        let all = run(scenario, "all-xcp", &[]);
        let some = run(scenario, "xcp-i", &[]);
        let (all, here) = (utilization(&all, link), utilization(&some, link));
        assert!(here >= least * all, "{scenario}: {here} of {all}");
        assert_eq!((drops(&some), timeouts(&some)), (0, 0), "{scenario}");
        assert_eq!(clouds(&some, "receiver", "unknown"), 0);
        assert_eq!(clouds(&some, "receiver", "known"), 1);
    }
}

/// Without an estimate the port says so, and the sender does as where no router looks for clouds.
#[test]
fn without_an_estimate_senders_are_told() {
    let result = run(
        "xcp-i-fig2",
        "xcp-i",
        &[("link.receiver.controller", "xcp-i")],
    );
    let plain = run("xcp-i-fig2", "xcp", &[]);
    assert_eq!(clouds(&result, "receiver", "counted"), 0);
    assert!(clouds(&result, "receiver", "unknown") > 10_000);
    let (here, there) = (
        utilization(&result, "bottleneck"),
        utilization(&plain, "bottleneck"),
    );
    assert!((here - there).abs() <= 0.02, "{here} {there}");
    // And says why, which differs.
    let short = [("measure", "[]"), ("duration", "5s")];
    let counted = run("xcp-i-fig2", "xcp-i", &short);
    let nobody = run(
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
    let reasons = [&result, &plain, &counted, &nobody].map(|run| run.flows[0].fallback.as_deref());
    assert_eq!(
        reasons,
        [
            Some("no-estimate"),
            Some("plain-hop"),
            None,
            Some("no-answer")
        ]
    );
}

/// A header on every eighth packet stands for the others also in a virtual router.
#[test]
fn headers_on_every_eighth_packet() {
    let result = run(
        "xcp-i-fig2",
        "xcp-i",
        &[("flow.f.algorithm", "xcp-i[every=8]")],
    );
    assert!(late(&result, "bottleneck") >= 0.98);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
}

/// Figure 8: two clouds into one link of the sum of their rates; the mean over seeds.
#[test]
fn two_clouds_merge() {
    const SEEDS: u32 = 4;
    let mut sums = [0.0, 0.0];
    for seed in 1..=SEEDS {
        let result = run("xcp-i-fig8", "xcp-i", &[("seed", &seed.to_string())]);
        sums[0] += 30.0 * late(&result, "cloud-i");
        sums[1] += 10.0 * late(&result, "cloud-j");
        assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    }
    let [i, j] = sums.map(|sum| sum / f64::from(SEEDS));
    // The paper's 28 and 10 Mbit/s; 27.96 here, where i has 27.94 to 28.01 by seed.
    assert!(i >= 27.9 && j >= 9.5, "{i} {j}");
}

/// Figure 10: two flows within one cloud share it evenly, and the link behind is full.
#[test]
fn flows_in_one_cloud_share_it() {
    const SEEDS: u32 = 4;
    let (mut shares, mut full) = ([0.0, 0.0], 0.0);
    for seed in 1..=SEEDS {
        let result = run("xcp-i-fig10", "xcp-i", &[("seed", &seed.to_string())]);
        let window = result.windows.last().unwrap();
        let rate = |name| {
            let mut flows = window.flows.iter();
            flows.find(|flow| flow.name == name).unwrap().goodput_bps
        };
        let both = [rate("j0"), rate("j1")];
        for (share, rate) in shares.iter_mut().zip(both) {
            *share += 10.0 * late(&result, "cloud-j") * rate / (both[0] + both[1]);
        }
        full += 50.0 * late(&result, "out");
    }
    for share in shares {
        let share = share / f64::from(SEEDS);
        assert!((share - 5.0).abs() <= 0.25, "{shares:?}");
    }
    assert!(full <= 50.0 * f64::from(SEEDS) && full >= 47.5 * f64::from(SEEDS));
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|s| s * s).sum::<f64>())
}

/// Goodputs of all flows in a measuring window.
fn goodputs(result: &RunResult, window: usize) -> Vec<f64> {
    let flows = result.windows[window].flows.iter();
    flows.map(|flow| flow.goodput_bps).collect()
}

/// Figure 12: two ports behind one cloud, each with a virtual router of its own; the mean over
/// seeds.
#[test]
fn a_cloud_forks() {
    const SEEDS: u32 = 4;
    let mut means = [0.0, 0.0];
    for seed in 1..=SEEDS {
        let result = run("xcp-i-fig12", "xcp-i", &[("seed", &seed.to_string())]);
        let rates = goodputs(&result, 0);
        let sum: f64 = rates.iter().sum();
        for (mean, rate) in means.iter_mut().zip(rates) {
            *mean += 50.0 * late(&result, "cloud") * rate / sum / f64::from(SEEDS);
        }
        assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    }
    for mean in means {
        assert!((mean - 25.0).abs() <= 0.75, "{means:?}");
    }
}

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

/// Figure 2 with estimates that are measured: at least 0.95 of XCP at every router, no loss.
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

/// The router between two clouds measures the first, and lets the second be measured.
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

/// Figure 13 with estimates that are measured: 800 MB in 20 s, both together.
#[test]
fn fast_clouds_are_measured() {
    let result = run("xcp-i-fig13", "measured", &[]);
    let (i, j) = (
        utilization(&result, "cloud-i"),
        utilization(&result, "cloud-j"),
    );
    // 300 and 100 Mbit/s for 20 s.
    let megabytes = 750.0 * i + 250.0 * j;
    assert!(megabytes >= 800.0 && 250.0 * j >= 187.0, "{megabytes} {j}");
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
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

/// Figure 4, routers only near the receiver: the sender is the one before the cloud.
#[test]
fn a_cloud_at_the_sender() {
    let result = run("xcp-i-fig4", "receiver, xcp-i", &[]);
    assert!(late(&result, "first") >= 0.98);
    assert_eq!((drops(&result), timeouts(&result)), (0, 0));
    assert_eq!(clouds(&result, "second", "unknown"), 0);
}

/// Figure 4, routers only near the sender: the receiver is the one behind the cloud, told exactly
/// what it leaves, or measuring it.
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

/// The Linux study's hybrid networks: with a router or receiver behind the plain queue nothing is
/// dropped, shares are even, and goodput is nearly TCP's: 0.967 and 0.987 of CUBIC's, which loses
/// nothing by its queue of 65 packets.
#[test]
fn hybrid_networks_of_the_linux_study() {
    let window = |result: &RunResult| {
        let shares = goodputs(result, 0);
        (shares.iter().sum::<f64>(), jain(&shares))
    };
    for (scenario, least) in [("xcp-linux-fig13", 0.96), ("xcp-linux-fig14", 0.98)] {
        let tcp = run(scenario, "cubic", &[]);
        let here = run(scenario, "xcp-i", &[]);
        let ((rate, even), (of_tcp, _)) = (window(&here), window(&tcp));
        assert!(rate >= least * of_tcp, "{scenario}: {rate} {of_tcp}");
        assert!(even >= 0.95, "{scenario}: {even}");
        assert_eq!(drops(&here), 0, "{scenario}");
        assert!(drops(&tcp) > 700, "{scenario}");
    }
}
