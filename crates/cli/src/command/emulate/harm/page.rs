//! The report as a chapter of `results.md`.

use std::fmt::Write as _;
use std::path::Path;

use pathmark_lab::text::wrapped;

use super::super::chapter;
use super::report::{Report, Summary};
use super::table;

/// The heading of the chapter.
pub(in super::super) const HEADING: &str = "## Harm\n";
const READING: &str = "\
    writes. A number under a figure's name says how many cells are beyond its bound; `worst` is \
    the one farthest beyond. `excused` counts cells with less than 0.9 of `cubic`'s goodput that \
    are no harm, because the least of our flows, or of all flows without an end, has at least 1.3 \
    times what it has with `cubic`; `worst excused` is the worst of these. `auto` and XCP's laws \
    run at `xcp` ports, the others at `vcp+bise` ports: `auto` at VCP ports is not in the grid.";
/// Puts the chapter into `results.md` in this directory, in place of the one that is there.
pub(super) fn write(directory: &Path, report: &Report, laws: &str) -> anyhow::Result<()> {
    chapter::put(directory, HEADING, &text(report, laws))
}

fn text(report: &Report, laws: &str) -> String {
    let about = format!(
        "Where laws do worse than `cubic` in their place: {} scenarios drawn by a seed, each run \
         with every law and with `cubic` at the same ports. [emulate.md](emulate.md#harm) says \
         what counts as harm and how a cell's name reads. This chapter is what",
        report.cells
    );
    let mut text = format!(
        "{HEADING}\n{}\n\n```\n\
         pathmark emulate --harm --seed {} --laws '{laws}' --results docs\n\
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
         bound \
         it is:\n\n```\n{}```\n\n",
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
