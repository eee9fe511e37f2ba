//! Granted starts with real endpoints: the key numbers of their scenarios.

use std::ops::ControlFlow;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::{QuickStartResult, RunResult};

/// A built-in scenario with keys changed.
fn run(name: &str, changes: &[(&str, &str)]) -> RunResult {
    let mut scenario = Scenario::load(name).unwrap();
    for (key, value) in changes {
        scenario.set(key, value).unwrap();
    }
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

fn asked(result: &RunResult, flow: usize) -> QuickStartResult {
    result.flows[flow].quick_start.unwrap()
}

/// Round trips of 60 ms from the first data, which follow the handshake's one, until the link is used to 80 %.
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
    let (took, before) = (
        result.flows[0].completion_s.unwrap(),
        plain.flows[0].completion_s,
    );
    assert!(
        (took / before.unwrap() - 1.0).abs() < 0.02,
        "{took} {before:?}"
    );
    let asked = self::asked(&result, 0);
    assert_eq!((asked.asked, asked.partial, asked.denied), (1, 1, 1));
    let granted = file("cubiq", "quick-start").flows[0].completion_s.unwrap();
    assert!(granted < 0.7 * took, "{granted} {took}");
}

/// As figure 7 of the paper says: the second request is refused.
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
    let told = (&grants["granted"], &grants["denied_busy"]);
    assert_eq!(told, (&1.into(), &1.into()));
}
