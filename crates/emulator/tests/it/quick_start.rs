//! Granted starts with real endpoints: the key figures of their scenarios.

use pathmark_emulator::result::{QuickStartResult, RunResult};
use pathmark_testbed::sampled;

use crate::support::{self, built_in as run, changed, link};

const ENDS: [&str; 2] = ["S", "D"];

fn asked(result: &RunResult, flow: usize) -> QuickStartResult {
    result.flows[flow].quick_start.clone().unwrap()
}

/// Returns the round trips of 60 ms from the first data, which follow that of the handshake, until
/// the link is used to 80 %.
fn rounds(result: &RunResult) -> f64 {
    result.links[0].time_to_80_s.unwrap() / 0.06 - 1.0
}

#[test]
fn a_gigabit_is_used_after_three_round_trips() {
    for algorithm in [
        "cubiq[paper,iw=2,rate=1Gbit]",
        "ada[iw=2,rate=1Gbit]",
        "cubiq",
        "ada",
    ] {
        let changes = [("duration", "1s"), ("flow.f.algorithm", algorithm)];
        let result = run("xcp-cubic-fig1", &changes);
        assert!(rounds(&result) <= 3.0, "{algorithm}: {}", rounds(&result));
        let granted = asked(&result, 0).granted_bps;
        assert!((840e6..=850e6).contains(&granted), "{algorithm}: {granted}");
        if algorithm.starts_with("ada") {
            assert_eq!(result.flows[0].packets_lost, Some(0), "{algorithm}");
        }
    }
    let changes = [
        ("duration", "1s"),
        ("flow.f.algorithm", "cubic[iw=2,hystart=no]"),
    ];
    let slow = rounds(&run("xcp-cubic-fig1", &changes));
    assert!(slow > 11.0, "{slow}");
}

#[test]
fn a_hop_that_does_not_take_part_leaves_all_as_with_cubic() {
    let file = |algorithm, exit| {
        let changes = [
            ("duration", "5s"),
            ("flow.f.bytes", "20_000_000"),
            ("flow.f.algorithm", algorithm),
            ("link.exit.controller", exit),
        ];
        run("xcp-cubic-fig1", &changes)
    };
    let plain = file("cubic", "none");
    let result = file("cubiq", "none");
    let [took, before] = [&result, &plain].map(|run| run.flows[0].completion_s.unwrap());
    assert!((took / before - 1.0).abs() < 0.02, "{took} {before}");
    let asked = self::asked(&result, 0);
    assert_eq!((asked.asked, asked.partial, asked.denied), (1, 1, 1));
    let granted = file("cubiq", "quick-start").flows[0].completion_s.unwrap();
    assert!(granted < 0.7 * took, "{granted} {took}");
}

/// A plain router behind a VCP port makes its grant invalid. Although the port counts this grant
/// until its interval is over, files of 1 MB that have the path to themselves must not wait for
/// this.
#[test]
fn a_void_grant_does_not_hold_back_the_file_that_asked() {
    let files = |algorithm: &str| {
        let keys = "count = 5\nbytes = 1000000\nstart_gap = \"5s\"";
        let marks = "controller = \"vcp+bise\"";
        let text = "name = \"void\"\nduration = \"50s\"\n".to_owned()
            + &link("port", ["S", "R"], "100Mbit", "5ms", marks)
            + &link("plain", ["R", "D"], "1Gbit", "25ms", "")
            + &flow("f", algorithm, keys);
        let result = support::run(&text);
        let times = result.flows.iter().map(|flow| flow.completion_s.unwrap());
        times.sum::<f64>() / 5.0
    };
    let (auto, cubic) = (files("auto"), files("cubic"));
    assert!(auto < 1.25 * cubic, "{auto} {cubic}");
}

/// Files arrive at random at a port that is used to 80 % of its capacity. Ports keep packets with
/// their law's shim in a separate queue. A request precedes its flow's first shim, so it waits in
/// the other queue, and later packets may overtake it. This must not count as a loss of the
/// request: otherwise, 44 and 22 of 92 requests would get their answer too late. Half of the files
/// take no longer than with CUBIC.
#[test]
fn questions_at_a_busy_port_are_answered_in_time() {
    let files = |port, law| {
        let changes = [
            ("flow.file.count", "100"),
            ("flow.file.start_gap", "139ms"),
            ("link.bottleneck.controller", port),
            ("flow.file.algorithm", law),
        ];
        run("arrivals", &changes)
    };
    let median = |result: &RunResult| {
        let mut times: Vec<f64> = result.flows.iter().filter_map(|f| f.completion_s).collect();
        assert_eq!(times.len(), 100);
        times.sort_by(f64::total_cmp);
        times[50]
    };
    let cubic = median(&files("none", "cubic"));
    for port in ["xcp", "vcp+bise"] {
        let result = files(port, "auto");
        let asked: Vec<QuickStartResult> = (0..100).map(|flow| asked(&result, flow)).collect();
        let sum = |count: fn(&QuickStartResult) -> u64| asked.iter().map(count).sum::<u64>();
        assert!(sum(|q| q.asked) >= 80, "{port}: {}", sum(|q| q.asked));
        let missed = sum(|q| q.late + q.repeated);
        assert!(missed <= 2, "{port}: {missed}");
        let lost: u64 = result.flows.iter().filter_map(|f| f.packets_lost).sum();
        assert_eq!(lost, 0, "{port}");
        let median = median(&result);
        assert!(median <= cubic, "{port}: {median}, cubic {cubic}");
    }
}

/// As in figure 7 of the paper, the second request is refused.
#[test]
fn of_two_flows_that_begin_together_one_is_granted() {
    let changes = [
        ("duration", "1s"),
        ("flow.f.count", "2"),
        ("flow.f.algorithm", "cubiq[paper,rate=1Gbit]"),
    ];
    let result = run("xcp-cubic-fig1", &changes);
    assert!(asked(&result, 0).granted_bps > 840e6);
    let second = asked(&result, 1);
    assert_eq!((second.granted_bps, second.denied), (0.0, 1));
    let grants = &result.links[0].controller["grants"];
    let counts = (&grants["granted"], &grants["denied_busy"]);
    assert_eq!(counts, (&1.into(), &1.into()));
}

/// Figure 3 of the paper at a tenth of its rate and size, for endpoints that have met before: their
/// routers have answered when the handshake is complete. The lower bound is the transmission time
/// of the bytes plus one and a half round trips; downloads need another half until they can begin.
#[test]
fn ends_that_have_met_begin_with_what_they_are_granted() {
    let took = |law: &str, port: &str, delay: u64, connects: &str, known: bool| {
        let text = format!("{delay}ms");
        let mut changes = vec![
            ("link.bottleneck.rate", "1Gbit"),
            ("link.edge.rate", "10Gbit"),
            ("link.exit.rate", "10Gbit"),
            ("link.*.delay", &*text),
            ("link.bottleneck.queue.rtt", &*text),
            ("link.bottleneck.queue.limit", "6bdp"),
            ("link.bottleneck.controller", port),
            ("link.exit.controller", port),
            ("flow.f.bytes", "60_000_000"),
            ("flow.f.algorithm", law),
            ("flow.f.connects", connects),
        ];
        if known {
            changes.push(("flow.f.known_rate", "1Gbit"));
        }
        let result = run("xcp-cubic-fig3", &changes);
        let asked = asked(&result, 0);
        assert_eq!((asked.asked, asked.late), (1, 0), "{law} {port} {connects}");
        // No more than the file needs.
        let needed = 0.99 * 60e6 * 8.0 / (6.0 * delay as f64 / 1e3);
        let least = needed.min(840e6);
        assert!(asked.granted_bps > least, "{law} {port} {connects}");
        assert_eq!(result.flows[0].packets_lost, Some(0), "{law} {port}");
        result.flows[0].completion_s.unwrap()
    };
    for (law, port) in [
        ("auto", "xcp"),
        ("auto", "vcp+bise"),
        ("ada", "quick-start"),
    ] {
        for delay in [10, 120] {
            let rtt = 6.0 * delay as f64 / 1e3;
            let floor = 0.48 + 1.5 * rtt;
            let upload = took(law, port, delay, "sender", true) / floor;
            assert!(upload <= 1.25, "{law} {port} {rtt}: {upload}");
            let download = took(law, port, delay, "receiver", true);
            let over = download / (floor + rtt / 2.0);
            assert!(over <= 1.25, "{law} {port} {rtt}: {over}");
            if delay > 100 {
                // Otherwise, it takes another round trip, minus the part that the first packets
                // have shown by then, and sending the requested amount takes a round trip.
                let unknown = took(law, port, delay, "receiver", false);
                let saved = (unknown - download) / rtt;
                assert!((0.85..1.25).contains(&saved), "{law} {port}: {saved}");
            }
        }
    }
}

/// Returns a scenario with one link, `R` to `D`, behind an unlimited one.
fn scenario(rate: &str, delay: &str, controller: &str, flows: &str) -> String {
    let marks = format!("controller = \"{controller}\"");
    "duration = \"8s\"\n".to_owned()
        + &link("bottleneck", ["R", "D"], rate, delay, &marks)
        + &link("access", ["S", "R"], "", "0s", "")
        + flows
}

fn flow(name: &str, algorithm: &str, keys: &str) -> String {
    support::flow(name, ENDS, algorithm, keys)
}

const LAWS: [(&str, &str); 2] = [
    ("vcp+bise+wlte[start=quick-start]", "vcp+bise"),
    ("xcp[start=quick-start]", "xcp"),
];

/// These laws, and `auto` at ports of both kinds, which requests a starting rate by default.
const LAWS_AND_AUTO: [(&str, &str); 4] = [LAWS[0], LAWS[1], ("auto", "xcp"), ("auto", "vcp+bise")];

#[test]
fn with_a_grant_every_law_fills_an_idle_link_within_four_round_trips() {
    let paths = [
        ("100Mbit", "250ms", 0.5, "4s"),
        ("1Gbit", "500ms", 1.0, "6s"),
        ("10Gbit", "50ms", 0.1, "600ms"),
    ];
    let cells = LAWS_AND_AUTO
        .iter()
        .flat_map(|law| paths.map(|path| (law, path)));
    // Each law and each path once or twice.
    for ((algorithm, controller), (rate, delay, rtt, end)) in sampled(2, cells) {
        let text = scenario(rate, delay, controller, &flow("f", algorithm, ""));
        let result = changed(&text, &[("duration", end)]);
        let link = &result.links[0];
        // The handshake takes one round trip.
        let rounds = link.time_to_80_s.unwrap() / rtt - 1.0;
        assert!(rounds <= 4.0, "{algorithm} {rate}: {rounds}");
        let queue = link.queue_ms.unwrap().max / 1e3 / rtt;
        assert!(queue <= 0.2, "{algorithm} {rate}: {queue} BDP");
        assert_eq!(link.drops, 0, "{algorithm} {rate}");
        assert!(asked(&result, 0).granted_bps > 0.0, "{algorithm} {rate}");
    }
}

#[test]
fn twenty_that_begin_within_a_round_trip_drop_nothing_and_leave_others_theirs() {
    for (algorithm, controller) in LAWS_AND_AUTO {
        let twenty = "count = 20\nstart = \"4s\"\nstart_spread = \"100ms\"";
        let flows = flow("old", algorithm, "rate = \"50Mbit\"") + &flow("new", algorithm, twenty);
        let result = support::run(&scenario("100Mbit", "50ms", controller, &flows));
        assert_eq!(result.links[0].drops, 0, "{algorithm}");
        // From then on, a fair share is a 21st of the link.
        let fair = (4.0 * 50e6 + 4.0 * 100e6 / 21.0) / 8.0;
        let old = result.flows[0].goodput_bps;
        assert!(old >= 0.95 * fair, "{algorithm}: {old} of {fair}");
    }
}

/// The first flow is granted all free capacity.
#[test]
fn twenty_that_begin_together_on_an_idle_link_share_it() {
    for (algorithm, controller) in LAWS_AND_AUTO {
        let flows = flow("f", algorithm, "count = 20\nstart_spread = \"100ms\"");
        let text = scenario("100Mbit", "50ms", controller, &flows);
        let result = changed(&text, &[("duration", "10s")]);
        let link = &result.links[0];
        assert_eq!(link.drops, 0, "{algorithm}");
        assert!(result.jain >= 0.95, "{algorithm}: {}", result.jain);
        let used = link.utilization.unwrap();
        assert!(used >= 0.93, "{algorithm}: {used}");
    }
}

#[test]
fn who_joins_a_flow_that_holds_half_has_the_other_half_within_ten_round_trips() {
    for (algorithm, controller) in LAWS_AND_AUTO {
        let flows =
            flow("old", algorithm, "rate = \"50Mbit\"") + &flow("new", algorithm, "start = \"4s\"");
        let text = scenario("100Mbit", "50ms", controller, &flows);
        let result = changed(&text, &[("measure", "[[\"5100ms\", \"7s\"]]")]);
        let goodput = |flow: usize| result.windows[0].flows[flow].goodput_bps / 1e6;
        let fair = (goodput(0) + goodput(1)) / 2.0;
        assert!(fair >= 0.9 * 48.0, "{algorithm}: {fair}");
        assert!(goodput(0) >= 0.95 * fair, "{algorithm}: {}", goodput(0));
        assert!(goodput(1) >= 0.8 * fair, "{algorithm}: {}", goodput(1));
        assert_eq!(result.links[0].drops, 0, "{algorithm}");
    }
}

#[test]
fn a_port_with_grant_false_grants_nothing() {
    for (algorithm, controller) in LAWS {
        let of = |law: &str, changes: &[(&str, &str)]| {
            let flows = flow("f", law, "bytes = 5_000_000");
            changed(&scenario("100Mbit", "250ms", controller, &flows), changes)
        };
        let granted = of(algorithm, &[]);
        let result = of(algorithm, &[("link.bottleneck.grant", "false")]);
        let asked = self::asked(&result, 0);
        assert_eq!((asked.granted_bps, asked.denied), (0.0, 1), "{algorithm}");
        let took = |result: &RunResult| result.flows[0].completion_s.unwrap();
        assert!(took(&granted) <= took(&result), "{algorithm}");
        // No worse than a flow without a request.
        let plain = of(&algorithm.replace("[start=quick-start]", ""), &[]);
        assert!(took(&result) <= 1.03 * took(&plain), "{algorithm}");
    }
}
