//! Metrics of handwritten runs.

use super::*;
use pathmark_emulator::result::WindowFlow;

fn flow(name: &str, start_s: f64, megabytes: u64, completion_s: Option<f64>) -> FlowResult {
    let seconds = completion_s.unwrap_or(20.0 - start_s);
    FlowResult {
        name: name.to_owned(),
        start_s,
        bytes_delivered: megabytes * 1_000_000,
        completion_s,
        goodput_bps: megabytes as f64 * 8e6 / seconds,
        ..FlowResult::default()
    }
}

fn udp() -> FlowResult {
    FlowResult {
        algorithm: UDP.to_owned(),
        ..flow("udp", 0.0, 30, None)
    }
}

/// A file of 1 MB.
fn one_file(name: &str, start_s: f64, completion_s: Option<f64>) -> FlowResult {
    FlowResult {
        bytes_requested: Some(1_000_000),
        ..flow(name, start_s, 1, completion_s)
    }
}

fn run(flows: Vec<FlowResult>) -> RunResult {
    RunResult {
        simulated_s: 20.0,
        jain: 0.5,
        flows,
        ..RunResult::default()
    }
}

/// Two flows, one after the other, have the link's rate together, and not twice this rate.
#[test]
fn goodput_of_all_is_bytes_over_time() {
    let one_by_one = run(vec![
        flow("a", 0.0, 10, Some(10.0)),
        flow("b", 10.0, 10, None),
    ]);
    assert_eq!(value(&one_by_one, Metric::Goodput, None), Some(8e6));
    assert_eq!(value(&one_by_one, Metric::Goodput, Some("b")), Some(8e6));
    assert_eq!(value(&run(Vec::new()), Metric::Goodput, None), Some(0.0));
    let mut with_udp = one_by_one;
    with_udp.flows.push(udp());
    assert_eq!(value(&with_udp, Metric::Goodput, None), Some(8e6));
    assert_eq!(value(&run(vec![udp()]), Metric::Goodput, None), Some(12e6));
}

/// The last window counts, and only the flows that a row names.
#[test]
fn late_goodput_is_of_the_last_window() {
    let window = |megabytes: [u64; 3]| WindowResult {
        from_s: 10.0,
        to_s: 18.0,
        flows: (["f1", "f2", "udp"].iter().zip(megabytes))
            .map(|(name, megabytes)| WindowFlow {
                name: (*name).to_owned(),
                bytes: megabytes * 1_000_000,
                // Over their own part of the window, which may be short.
                goodput_bps: megabytes as f64 * 1e9,
                lost: None,
            })
            .collect(),
        ..WindowResult::default()
    };
    let mut result = run(vec![
        flow("f1", 0.0, 10, None),
        flow("f2", 0.0, 10, None),
        udp(),
    ]);
    assert_eq!(value(&result, Metric::LateGoodput, None), None);
    result.windows = vec![window([9, 9, 9]), window([1, 2, 4])];
    assert_eq!(value(&result, Metric::LateGoodput, None), Some(3e6));
    assert_eq!(value(&result, Metric::LateGoodput, Some("f2")), Some(2e6));
    assert_eq!(value(&result, Metric::LateGoodput, Some("udp")), Some(4e6));
}

/// Files with downloads without an end have a mean completion time, once all files have arrived.
#[test]
fn completion_is_of_the_flows_that_have_an_end() {
    let file = |name: &str, completion_s| one_file(name, 1.0, completion_s);
    let download = flow("download", 0.0, 30, None);
    let arrived = run(vec![
        download.clone(),
        file("f1", Some(2.0)),
        file("f2", Some(4.0)),
    ]);
    assert_eq!(value(&arrived, Metric::Completion, None), Some(3.0));
    assert_eq!(here(&[&arrived], Metric::Completion, None), "3.00 s");
    let one_missing = run(vec![download, file("f1", Some(2.0)), file("f2", None)]);
    assert_eq!(value(&one_missing, Metric::Completion, None), None);
    let missing = here(&[&one_missing], Metric::Completion, None);
    assert_eq!(missing, "1 of 2 ended");
    assert_eq!(ended(&[&one_missing, &arrived], None), (3, 4));
    let only_one = here(&[&one_missing], Metric::Completion, Some("f2"));
    assert_eq!(only_one, "0 of 1 ended", "of the flow that was named");
}

/// The range has one unit where both ends share it, and is left out where both look the same.
#[test]
fn a_mean_over_seeds_has_its_range() {
    let files = |seconds: &[f64]| -> Vec<RunResult> {
        let one = |s: &f64| run(vec![one_file("f", 0.0, Some(*s))]);
        seconds.iter().map(one).collect()
    };
    let ranged = |runs: &[RunResult], metric| ranged(&runs.iter().collect::<Vec<_>>(), metric);
    let three = files(&[2.0, 4.5, 2.5]);
    assert_eq!(
        ranged(&three, Metric::Completion),
        "3.00 s (2.00 to 4.50 s)"
    );
    let equal = files(&[2.0, 2.001]);
    assert_eq!(ranged(&equal, Metric::Completion), "2.00 s");
    let mut fast = files(&[1.0, 1.0]);
    fast[0].flows[0].bytes_delivered = 1_000_000;
    fast[1].flows[0].bytes_delivered = 100;
    let rates = ranged(&fast, Metric::Goodput);
    assert_eq!(rates, "4.00 Mbit/s (0.80 kbit/s to 8.00 Mbit/s)");
}

/// By nearest rank: of 20 flows, 19 ended within the 95th percentile, and 10 within the median.
#[test]
fn percentiles_of_completion() {
    let file = |n: u32| one_file("f", 0.0, Some(f64::from(n)));
    let twenty = run((1..=20).rev().map(file).collect());
    assert_eq!(value(&twenty, Metric::CompletionMedian, None), Some(10.0));
    assert_eq!(value(&twenty, Metric::CompletionP95, None), Some(19.0));
    let one = run(vec![file(7)]);
    assert_eq!(value(&one, Metric::CompletionMedian, None), Some(7.0));
    assert_eq!(value(&one, Metric::CompletionP95, None), Some(7.0));
    let missing = run(vec![file(7), one_file("f", 0.0, None)]);
    assert_eq!(value(&missing, Metric::CompletionP95, None), None);
    let missing = here(&[&missing], Metric::CompletionP95, None);
    assert_eq!(missing, "1 of 2 ended");
}

/// A row about some flows does not depend on others, so UDP does not make TCP flows unfair.
#[test]
fn fairness_is_of_the_flows_that_a_row_names() {
    let flows = vec![
        flow("f1", 0.0, 10, None),
        flow("f2", 0.0, 10, None),
        flow("udp", 0.0, 30, None),
    ];
    let result = run(flows);
    assert_eq!(value(&result, Metric::Jain, Some("f")), Some(1.0));
    assert_eq!(value(&result, Metric::Jain, None), Some(0.5));
    let windows = RunResult {
        jain_windows: Some(0.75),
        ..result
    };
    assert_eq!(value(&windows, Metric::Jain, None), Some(0.75));
    assert_eq!(value(&windows, Metric::Jain, Some("f")), Some(1.0));
    let nothing = run(vec![flow("f1", 0.0, 0, None), flow("f2", 0.0, 0, None)]);
    assert_eq!(
        value(&nothing, Metric::Jain, None),
        None,
        "nothing is shared"
    );
}

/// A flow with a stop time is measured until this time.
#[test]
fn what_was_stopped_ended() {
    let stopped = FlowResult {
        stopped_s: Some(10.0),
        ..flow("a", 0.0, 10, None)
    };
    let result = run(vec![stopped]);
    assert_eq!(value(&result, Metric::Goodput, None), Some(8e6));
}

#[test]
fn spread_is_from_the_least_to_the_greatest() {
    let runs = [2, 4, 9].map(|megabytes| run(vec![flow("a", 0.0, megabytes, Some(8.0))]));
    let runs: Vec<&RunResult> = runs.iter().collect();
    let found = spread(&runs, Metric::Goodput, None);
    assert_eq!(found, Some((2e6, 5e6, 9e6)));
    assert_eq!(spread(&[], Metric::Goodput, None), None);
}
