//! What a run leaves in a directory.

use std::ops::ControlFlow;

use pathmark_emulator::{Outputs, Scenario};

#[test]
fn series_result_and_plot() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/place");
    let mut scenario = Scenario::load("five-files").unwrap();
    scenario.set("flow.ftp.count", "2").unwrap();
    scenario.set("flow.ftp.bytes", "1_000_000").unwrap();
    let mut outputs = Outputs::create(&out, |_| ControlFlow::Continue(())).unwrap();
    let result = scenario.run_with(&mut outputs).unwrap();
    outputs.finish(&result).unwrap();

    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let text = serde_json::to_string_pretty(&result).unwrap();
    assert_eq!(read("result.json").trim_end(), text);
    let unwatched = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result, unwatched, "watching changes nothing");

    let flows = read("flows.csv");
    let mut rows = flows.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let headings = rows.next().unwrap();
    assert_eq!(headings[..3], ["time_s", "flow", "cwnd_bytes"]);
    let rows: Vec<_> = rows.collect();
    assert!(rows.iter().all(|row| row.len() == headings.len()));
    // Two flows, a point every 100 ms from 0 on, and one at the end.
    let points = (result.simulated_s * 10.0).floor() as usize + 2;
    assert_eq!(rows.len(), 2 * points);
    let last: Vec<_> = rows[rows.len() - 2..].iter().map(|row| row[6]).collect();
    assert_eq!(last, ["1000000", "1000000"]);
    let goodput = |row: &Vec<&str>| row[5].parse::<f64>().unwrap();
    let steps = rows.windows(3).map(|w| {
        let time = |row: &Vec<&str>| row[0].parse::<f64>().unwrap();
        (time(&w[2]) - time(&w[0])) * goodput(&w[2])
    });
    let delivered: f64 = steps.sum::<f64>() / 8.0;
    assert!((delivered - 2e6).abs() < 1.0, "{delivered}");

    let links = read("links.csv");
    assert_eq!(links.lines().count(), 1 + 4 * points);
    assert!(links.contains(",bottleneck.reverse,"));
    assert!(read("plot.svg").contains("<polyline"));
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error = Outputs::create(std::path::Path::new("/proc/no"), |_| {
        ControlFlow::Continue(())
    });
    let text = error.err().unwrap().to_string();
    assert!(text.contains("/proc/no"), "{text}");
}
