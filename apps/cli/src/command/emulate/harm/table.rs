//! Formats the report as human-readable text.

use std::fmt::Write as _;

use pathmark_lab::harm::{Compared, Condition};
use pathmark_lab::text::{dash, rate};

use super::super::table::aligned;
use super::report::{Report, Summary};

pub(super) fn text(report: &Report) -> String {
    let mut text = format!("seed {}, {} cells\n\n", report.seed, report.cells);
    let header = header();
    let rows: Vec<_> = report.summary.iter().map(row).collect();
    text += &aligned(&header, &rows);
    let harmed = harmed(report);
    if !harmed.is_empty() {
        text.push('\n');
    }
    text + &harmed
}

/// Lists each harmed cell with its law.
pub(super) fn harmed(report: &Report) -> String {
    let mut text = String::new();
    let harmed: Vec<_> = report.results.iter().filter(|judged| judged.harm).collect();
    let width = |of: &dyn Fn(usize) -> usize| (0..harmed.len()).map(of).max().unwrap_or(0);
    let cell = width(&|index| harmed.get(index).map_or(0, |judged| judged.cell.len()));
    let law = width(&|index| harmed.get(index).map_or(0, |judged| judged.law.len()));
    for judged in harmed {
        let mut figures: Vec<String> = judged.harmful().map(figure).collect();
        figures.extend(judged.cut.then(|| "cut short".to_owned()));
        let _ = writeln!(
            text,
            "{:cell$}  {:law$}  {}",
            judged.cell,
            judged.law,
            figures.join("; ")
        );
    }
    text
}

/// Returns the column names of [`row`].
pub(super) fn header() -> Vec<String> {
    let conditions = Condition::ALL.map(Condition::name);
    let first = ["group", "law", "cells", "harmed", "excused"];
    let all = first.into_iter().chain(conditions);
    all.chain(["worst", "worst excused"])
        .map(str::to_owned)
        .collect()
}

/// Formats a group and law.
pub(super) fn row(summary: &Summary) -> Vec<String> {
    let mut row = vec![
        summary.group.unwrap_or("all").to_owned(),
        summary.law.clone(),
        summary.cells.to_string(),
        summary.harmed.to_string(),
        summary.excused.to_string(),
    ];
    row.extend(Condition::ALL.map(|condition| {
        let count = summary.conditions.get(&condition);
        count.map_or_else(dash, ToString::to_string)
    }));
    for worst in [&summary.worst, &summary.worst_excused] {
        row.push(worst.as_ref().map_or_else(dash, |worst| {
            format!(
                "{} {} in {}",
                worst.figure.condition,
                times(&worst.figure),
                worst.cell
            )
        }));
    }
    row
}

/// Formats a figure: `loss 93.10 % (cubic 0.10 %, 42.1 x the bound)`.
fn figure(figure: &Compared) -> String {
    format!(
        "{} {} (cubic {}, {} the bound)",
        figure.condition,
        value(figure.condition, figure.law),
        value(figure.condition, figure.cubic),
        times(figure)
    )
}

fn times(figure: &Compared) -> String {
    match figure.beyond {
        beyond if beyond < 100.0 => format!("{beyond:.2} x"),
        beyond => format!("{beyond:.0} x"),
    }
}

fn value(condition: Condition, value: f64) -> String {
    match condition {
        Condition::Loss => format!("{:.2} %", value * 100.0),
        Condition::Completion => format!("{value:.2} s"),
        Condition::Rtt => format!("{value:.1} ms"),
        _ => rate(value),
    }
}
