//! Compares the runs in a table and a picture.

use std::fmt::Write as _;

use pathmark_lab::plot::{Figure, Line, Panel};

use super::run::Measured;

/// One run's figures for the table.
struct Row {
    completions: Vec<Option<f64>>,
    mean: Option<f64>,
    last: Option<f64>,
    utilization: f64,
    queue_ms: f64,
    drops: u64,
    losses: u64,
}

impl Row {
    fn of(run: &Measured) -> Self {
        let bottleneck = run.result.links.first();
        Self {
            completions: run.result.flows.iter().map(|f| f.completion_s).collect(),
            mean: run.mean_s(),
            last: run.last_s(),
            utilization: bottleneck.and_then(|l| l.utilization).unwrap_or(0.0),
            queue_ms: bottleneck.and_then(|l| l.queue_ms).map_or(0.0, |q| q.mean),
            drops: bottleneck.map_or(0, |l| l.drops),
            losses: bottleneck.map_or(0, |l| l.random_losses),
        }
    }
}

/// Formats the table as human-readable text.
pub fn table(runs: &[Measured]) -> String {
    let files = runs
        .iter()
        .map(|run| run.result.flows.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = writeln!(
        out,
        "{:9} {:24} {:width$} {:>8} {:>8} {:>6} {:>6} {:>9} {:>6} {:>6}",
        "path",
        "stack",
        "files done after [s]",
        "last",
        "mean",
        "util.",
        "Jain",
        "queue",
        "drops",
        "lost",
        width = files * 7
    );
    for run in runs {
        let row = Row::of(run);
        let completions: String = row
            .completions
            .iter()
            .map(|done| done.map_or_else(|| "      –".to_owned(), |s| format!("{s:7.1}")))
            .collect();
        let seconds =
            |time: Option<f64>| time.map_or_else(|| "not done".to_owned(), |s| format!("{s:.1} s"));
        let (last, mean) = (seconds(row.last), seconds(row.mean));
        let _ = writeln!(
            out,
            "{:9} {:24} {completions:width$} {last:>8} {mean:>8} {:5.0}% {:6.3} {:6.0} ms \
             {:6} {:6}",
            run.result.scenario,
            run.stack,
            row.utilization * 100.0,
            run.result.jain,
            row.queue_ms,
            row.drops,
            row.losses,
            width = files * 7
        );
    }
    out
}

/// Draws each run's throughput per flow and its queue.
pub fn figure(runs: &[Measured]) -> Figure {
    let longest = runs
        .iter()
        .map(|run| run.result.simulated_s)
        .fold(0.0, f64::max);
    let queue_max = runs
        .iter()
        .flat_map(|run| &run.queue_ms)
        .map(|(_, queue)| *queue)
        .fold(10.0, f64::max);
    let mut panels = Vec::new();
    for run in runs {
        let rate = run
            .result
            .links
            .first()
            .and_then(|link| link.rate_bps)
            .unwrap_or(0.0)
            * 1e-6;
        let title = format!("{}, {}", run.stack, run.result.scenario);
        let mut lines: Vec<Line> = run
            .throughput
            .iter()
            .enumerate()
            .map(|(index, series)| {
                let rates = smooth(series).map(|(at, bps)| (at, bps * 1e-6));
                Line::named(format!("file {index}"), rates.collect::<Vec<_>>())
            })
            .collect();
        lines.push(Line {
            label: None,
            points: vec![
                (0.0, rate / lines.len().max(1) as f64),
                (longest, rate / lines.len().max(1) as f64),
            ],
            reference: true,
            ..Line::default()
        });
        panels.push(Panel {
            title: format!("{title}: throughput per file"),
            x_label: "time [s]".into(),
            y_label: "Mbit/s".into(),
            x_max: Some(longest),
            y_max: Some(rate),
            lines,
            ..Panel::default()
        });
        panels.push(Panel {
            title: format!("{title}: queue at the bottleneck"),
            x_label: "time [s]".into(),
            y_label: "ms".into(),
            x_max: Some(longest),
            y_max: Some(queue_max * 1.05),
            lines: vec![Line {
                points: run.queue_ms.clone(),
                ..Line::default()
            }],
            ..Panel::default()
        });
    }
    Figure {
        title: "Five files at once over 10 Mbit/s and 400 ms, clean and with 0.3 % random loss"
            .into(),
        columns: 4,
        panels,
        ..Figure::default()
    }
}

/// Returns means over half a second, so that a curve shows rates rather than single packets.
fn smooth(series: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    series.chunks(5).map(|chunk| {
        let count = chunk.len().max(1) as f64;
        let (at, value) = chunk
            .iter()
            .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (at / count, value / count)
    })
}
