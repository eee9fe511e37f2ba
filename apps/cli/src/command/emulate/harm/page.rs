//! Writes the report as a page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use pathmark_lab::text::wrapped;

use super::super::super::output;
use super::report::{Report, Summary};
use super::table;

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
    let header = table::header();
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for summary in &report.summary {
        let _ = writeln!(text, "| {} |", row(summary).join(" | "));
    }
    let _ = write!(
        text,
        "\nEvery harmed cell, with the law's figure, `cubic`'s, and how many times beyond its \
         bound it is:\n\n```text\n{}```\n",
        table::harmed(report)
    );
    text
}

fn row(summary: &Summary) -> Vec<String> {
    let mut row = table::row(summary);
    if let Some(law) = row.get_mut(1) {
        *law = format!("`{law}`");
    }
    row
}
