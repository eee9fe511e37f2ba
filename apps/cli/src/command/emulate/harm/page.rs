//! Writes the report as a page, and as a table for the terminal.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use pathmark_lab::harm::{Compared, Condition};
use pathmark_lab::text::{dash, rate, wrapped};

use super::super::super::output;
use super::super::table::aligned;
use super::report::{Report, Summary};

const READING: &str = "\
    A number under the name of a figure is the count of cells beyond its bound; `worst` is the \
    cell farthest beyond. `excused` counts cells with less than 0.9 of `cubic`'s goodput that are \
    no harm. In these the least of our flows, or of all flows without an end, has at least 1.3 \
    times its goodput with `cubic`. `worst excused` is the worst of these. The laws of XCP run at \
    `xcp` ports, `auto` in half of the cells at these and in the others at `vcp+bise` ports, all \
    others at `vcp+bise` ports.";

/// Writes `harm.md` to this directory.
pub(super) fn write(directory: &Path, report: &Report, laws: &str) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    output::page(&directory.join("harm.md"), &text(report, laws))
}

fn text(report: &Report, laws: &str) -> String {
    let about = format!(
        "Where laws do worse than `cubic` in their place: {} scenarios drawn by a seed, each run \
         with every law and with `cubic` at the same ports. [Regressions](../../harm.md) defines \
         harm and the names of cells. This command writes the page:",
        report.cells
    );
    let mut text = format!(
        "# Harm\n\n{}\n\n```sh\n\
         pathmark emulate --harm --seed {} --laws '{laws}' --results docs/evidence/figures\n\
         ```\n\n{}\n\n",
        wrapped(&about),
        report.seed,
        wrapped(READING)
    );
    let header = header();
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for summary in &report.summary {
        let _ = writeln!(text, "| {} |", marked_row(summary).join(" | "));
    }
    let _ = write!(
        text,
        "\nEvery harmed cell, with the law's figure, `cubic`'s, and how many times beyond its \
         bound it is:\n\n```text\n{}```\n",
        harmed(report)
    );
    text
}

fn marked_row(summary: &Summary) -> Vec<String> {
    let mut row = row(summary);
    if let Some(law) = row.get_mut(1) {
        *law = format!("`{law}`");
    }
    row
}

pub(super) fn table(report: &Report) -> String {
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
fn harmed(report: &Report) -> String {
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
fn header() -> Vec<String> {
    let conditions = Condition::ALL.map(Condition::name);
    let first = ["group", "law", "cells", "harmed", "excused"];
    let all = first.into_iter().chain(conditions);
    all.chain(["worst", "worst excused"])
        .map(str::to_owned)
        .collect()
}

/// Formats a group and law.
fn row(summary: &Summary) -> Vec<String> {
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
