//! Formats results as human-readable text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pathmark_emulator::result::{Controllers, FlowResult, LinkResult, RunResult};
use pathmark_emulator::scenario::{Metric, Reference};
use pathmark_lab::metric::{Summary, fairness, here, ruled_by, within};
use pathmark_lab::sweep::CaseResult;
use pathmark_lab::text::{dash, rate};

/// Maximum number of flows and of links to show individually.
const MOST_ROWS: usize = 24;

/// Formats a run.
pub(in super::super) fn one(result: &RunResult) -> String {
    let mut text = format!(
        "{}\n{:.1} s simulated in {:.2} s, {} packets, seed {}, Jain's index {:.4}\n\n",
        result.scenario,
        result.simulated_s,
        result.wall_s,
        result.packets,
        result.seed,
        fairness(result)
    );
    let header =
        "flow, algorithm, MB, done, goodput, RTT mean, p99, sent, lost, timeouts, ruled by";
    let rows: Vec<_> = result.flows.iter().take(MOST_ROWS).map(flow).collect();
    text += &aligned(&headings(header), &rows);
    more(&mut text, result.flows.len(), "flows");
    let links: Vec<&LinkResult> = result
        .links
        .iter()
        .filter(|l| l.rate_bps.is_some())
        .collect();
    let header = "link, rate, utilization, 80 % after, queue mean, p99, max, drops, losses";
    let rows: Vec<_> = links.iter().take(MOST_ROWS).map(|l| link(l)).collect();
    text.push('\n');
    text += &aligned(&headings(header), &rows);
    more(&mut text, links.len(), "links");
    for window in &result.windows {
        let _ = write!(
            text,
            "\n{:.0} to {:.0} s: {} in all, Jain's index {:.4}",
            window.from_s,
            window.to_s,
            rate(within(result, window)),
            window.jain
        );
        let used = window
            .links
            .iter()
            .filter_map(|link| Some((link, link.utilization?)));
        for (link, utilization) in used.take(MOST_ROWS) {
            let (name, queue) = (&link.name, link.queue_packets.mean);
            let _ = write!(
                text,
                "; {name} utilization {utilization:.3}, queue {queue:.1}"
            );
        }
        text.push('\n');
    }
    text
}

fn flow(flow: &FlowResult) -> Vec<String> {
    let count = |n: Option<u64>| n.map_or_else(dash, |n| n.to_string());
    let millis = |value: Option<f64>| value.map_or_else(dash, |ms| format!("{ms:.1} ms"));
    vec![
        flow.name.clone(),
        flow.algorithm.clone(),
        format!("{:.2}", flow.bytes_delivered as f64 / 1e6),
        seconds(flow.completion_s),
        rate(flow.goodput_bps),
        millis(flow.rtt_ms.map(|rtt| rtt.mean)),
        millis(flow.rtt_ms.map(|rtt| rtt.p99)),
        count(flow.packets_sent),
        count(flow.packets_lost),
        count(flow.timeouts),
        flow.controllers
            .as_ref()
            .map_or_else(dash, Controllers::largest),
    ]
}

fn link(link: &LinkResult) -> Vec<String> {
    let queue = &link.queue_packets;
    vec![
        link.name.clone(),
        link.rate_bps.map_or_else(dash, rate),
        share(link.utilization),
        seconds(link.time_to_80_s),
        format!("{:.1}", queue.mean),
        format!("{:.0}", queue.p99),
        format!("{:.0}", queue.max),
        link.drops.to_string(),
        link.random_losses.to_string(),
    ]
}

/// Formats one row per run.
pub(super) fn many(runs: &[CaseResult]) -> String {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.case.set.keys()).collect();
    let varied = runs.iter().any(|run| run.case.variant.is_some());
    let mut header = vec!["run".to_owned()];
    header.extend(varied.then(|| "variant".to_owned()));
    header.extend(keys.iter().map(|key| (*key).clone()));
    header.extend(headings(
        "done, mean, goodput, Jain, link, utilization, 80 % after, queue mean, max, drops, lost, \
         ruled by",
    ));
    let row = |run: &CaseResult| {
        let summary = Summary::new(&run.result);
        let link = summary.link.as_ref();
        let mark = if run.case.interrupted { "!" } else { "" };
        let mut row = vec![format!("{}{mark}", run.case.index)];
        row.extend(varied.then(|| run.case.variant.clone().unwrap_or_else(dash)));
        let value = |key: &&String| run.case.set.get(*key).cloned().unwrap_or_else(dash);
        row.extend(keys.iter().map(value));
        row.extend([
            format!("{}/{}", summary.completed, summary.flows),
            seconds(summary.completion_s),
            rate(summary.goodput_bps),
            format!("{:.4}", summary.jain),
            link.map_or_else(dash, |l| l.name.clone()),
            share(link.and_then(|l| l.utilization)),
            seconds(link.and_then(|l| l.time_to_80_s)),
            link.map_or_else(dash, |l| format!("{:.1}", l.queue_packets.mean)),
            link.map_or_else(dash, |l| format!("{:.0}", l.queue_packets.max)),
            link.map_or_else(dash, |l| l.drops.to_string()),
            summary.packets_lost.to_string(),
            ruled_by(&[&run.result]),
        ]);
        row
    };
    aligned(&header, &runs.iter().map(row).collect::<Vec<_>>())
}

/// Compares a paper's statements with the results.
pub(super) fn paper(runs: &[CaseResult], references: &[Reference]) -> String {
    let mut rows = Vec::new();
    for reference in references {
        let value = reference.value.as_deref().unwrap_or("plot only");
        let all = reference.flow.is_none() && reference.only.is_empty();
        let plotted = reference.value.is_none() && all;
        let Some(metric) = (reference.metric).filter(|of| !(plotted && has_column(*of))) else {
            let row = [&reference.says, value, "see above", "all"];
            rows.push(row.map(str::to_owned).into());
            continue;
        };
        let about = |run: &&CaseResult| {
            let variant = reference.variant.is_none() || reference.variant == run.case.variant;
            let mut only = reference.only.iter();
            variant && only.all(|(key, value)| run.case.set.get(key) == Some(value))
        };
        for run in runs.iter().filter(about) {
            rows.push(vec![
                reference.says.clone(),
                value.to_owned(),
                here(&[&run.result], metric, reference.flow.as_deref()),
                super::label(&run.case),
            ]);
        }
    }
    aligned(&headings("the paper says, paper, here, run"), &rows)
}

/// Returns true if the table of runs already shows this metric.
fn has_column(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::QueueNonempty
            | Metric::LateGoodput
            | Metric::LateUtilization
            | Metric::WindowMax
            | Metric::CompletionMedian
            | Metric::CompletionP95
            | Metric::OverTransmission
    )
}

fn more(text: &mut String, all: usize, what: &str) {
    if let Some(left @ 1..) = all.checked_sub(MOST_ROWS) {
        let _ = writeln!(
            text,
            "… and {left} more {what}: --json and --out have all of them"
        );
    }
}

fn headings(text: &str) -> Vec<String> {
    text.split(", ").map(str::to_owned).collect()
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(dash, |seconds| format!("{seconds:.2} s"))
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(dash, |share| format!("{share:.3}"))
}

/// Aligns columns to their widest cell, the first one to the left and others to the right.
pub(in super::super) fn aligned(header: &[String], rows: &[Vec<String>]) -> String {
    let mut widths = vec![0; header.len()];
    let lines = || std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
    for line in lines() {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines() {
        for (index, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let _ = match index {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
