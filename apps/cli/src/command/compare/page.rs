//! Writes a comparison as a page, and as a table for the terminal.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use pathmark_lab::compare::{Axis, Figure, Report};
use pathmark_lab::text::{dash, wrapped};

use super::super::emulate::aligned;
use super::super::output;
use super::{Args, draw};

const ABOUT: &str = "\
    Control laws compared over a grid of paths, all in the same code: large files that share a \
    bottleneck with short files. [Comparison](../../compare.md) says what is measured, and how. \
    This command writes the page and its pictures:";

const READING: &str = "\
    A law is best in a cell, or as good, if its mean is close to the best. Close is within 5 % for \
    times, 0.02 for utilization and Jain's index, 10 % and 1 ms for the queue, 10 % for the 95th \
    percentile. It is as good as well if the 95 % intervals of both means overlap and it is at \
    most five times as far off. With three seeds that scatter by 5 %, intervals of means that are \
    25 % apart overlap. Times that an unfinished file may have changed are bounds, and do not \
    compete. In queues only laws compete that use the bottleneck at least 0.9 times as \
    well as the best of the cell: an idle link has no queue. Each sentence ends with the cells in \
    which a law gains or loses most.";

/// Writes `comparison.md` and its pictures to this directory.
pub(super) fn write(directory: &Path, report: &Report, args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let names = draw(directory, report)?;
    output::page(
        &directory.join("comparison.md"),
        &text(report, args, &names),
    )
}

fn text(report: &Report, args: &Args, pictures: &[String]) -> String {
    let mut text = format!(
        "# Comparison\n\n{}\n\n```sh\n{}\n```\n\n{}\n\n",
        wrapped(ABOUT),
        command(args),
        wrapped(READING)
    );
    let axes = Axis::ALL.into_iter();
    let axes = axes.map(|axis| format!("{axis} {}", report.values(axis).join(", ")));
    let axes: Vec<String> = axes.collect();
    let all = format!(
        "{} cells, {} seeds: {}.",
        report.cells.len(),
        report.seeds,
        axes.join("; ")
    );
    let _ = write!(text, "{}\n\n", wrapped(&all));
    for sentence in &report.sentences {
        let _ = write!(text, "{}\n\n", wrapped(sentence));
    }
    let (header, rows) = count_rows(report);
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for row in rows {
        let [law, counts @ ..] = row.as_slice() else {
            continue;
        };
        let _ = writeln!(text, "| `{law}` | {} |", counts.join(" | "));
    }
    for name in pictures {
        let _ = write!(text, "\n![{name}]({name}.svg)\n");
    }
    text
}

/// Formats the command as typed, without its output directory.
fn command(args: &Args) -> String {
    let mut words = Vec::new();
    if let Some(grid) = &args.grid {
        words.push(format!("--grid {}", grid.display()));
    }
    let options = [
        ("algorithms", &args.algorithms),
        ("rate", &args.rate),
        ("rtt", &args.rtt),
        ("buffer", &args.buffer),
        ("loss", &args.loss),
        ("flows", &args.flows),
        ("routers", &args.routers),
    ];
    for (option, value) in options {
        words.extend(value.as_ref().map(|value| format!("--{option} '{value}'")));
    }
    words.extend(args.seeds.map(|seeds| format!("--seeds {seeds}")));
    words.push("--results docs/evidence/figures".to_owned());
    let (mut command, mut column) = ("pathmark compare".to_owned(), 16);
    for word in words {
        let length = word.chars().count();
        // Leave room for the backslash.
        if column + 1 + length > 98 {
            command += " \\\n ";
            column = 1;
        }
        let _ = write!(command, " {word}");
        column += 1 + length;
    }
    command
}

/// Maximum number of rows of a table in a terminal.
const MOST_ROWS: usize = 60;

pub(super) fn table(report: &Report) -> String {
    let mut text = counts(report);
    if report.cells.len() * report.laws.len() <= MOST_ROWS {
        text = format!("{}\n{text}", cells(report));
    }
    if !report.sentences.is_empty() {
        text.push('\n');
    }
    for sentence in &report.sentences {
        text += sentence;
        text.push('\n');
    }
    text
}

/// Counts the cells in which each law is best or as good, for each figure.
fn counts(report: &Report) -> String {
    let (header, rows) = count_rows(report);
    aligned(&header, &rows)
}

/// Returns the header and the rows of [`counts`].
fn count_rows(report: &Report) -> (Vec<String>, Vec<Vec<String>>) {
    let figures = Figure::ALL.iter().map(|figure| figure.name().to_owned());
    let header = std::iter::once("best or as good in".to_owned()).chain(figures);
    let rows = report.laws.iter().map(|law| {
        let count = |figure: &Figure| {
            let cells = report.cells.iter();
            let having = cells
                .clone()
                .filter(|c| c.best.contains_key(figure))
                .count();
            match having {
                0 => dash(),
                _ => {
                    let best = cells.filter(|cell| cell.is_best(*figure, law)).count();
                    format!("{best} of {having}")
                }
            }
        };
        let counts = Figure::ALL.iter().map(count);
        std::iter::once(law.clone()).chain(counts).collect()
    });
    (header.collect(), rows.collect())
}

/// Formats a row for each cell and law: means, and half intervals after `±`.
fn cells(report: &Report) -> String {
    let several = |axis: &Axis| report.values(*axis).len() > 1;
    let axes: Vec<Axis> = Axis::ALL.into_iter().filter(several).collect();
    let names = axes.iter().map(|axis| axis.name().to_owned());
    let figures = Figure::ALL.iter().map(|figure| figure.name().to_owned());
    let last = ["drops", "unfinished"].map(str::to_owned);
    let header: Vec<String> = std::iter::once("law".to_owned())
        .chain(names)
        .chain(figures)
        .chain(last)
        .collect();
    let mut rows = Vec::new();
    for cell in &report.cells {
        for law in &cell.laws {
            let mut row = vec![law.law.clone()];
            row.extend(axes.iter().map(|axis| cell.value(*axis).to_owned()));
            row.extend(Figure::ALL.map(|figure| {
                law.figures.get(&figure).map_or_else(dash, |tally| {
                    let mark = if cell.is_best(figure, &law.law) {
                        "*"
                    } else {
                        ""
                    };
                    let more = if law.is_bound(figure) { ">" } else { "" };
                    let mean = figure.shown(tally.mean);
                    // A single seed doesn't show the spread.
                    let interval = match tally.n {
                        0 | 1 => String::new(),
                        _ => format!(" ±{}", figure.shown(tally.ci95)),
                    };
                    format!("{mark}{more}{mean}{interval}")
                })
            }));
            row.extend([law.drops.to_string(), law.unfinished.to_string()]);
            rows.push(row);
        }
    }
    format!(
        "{}* best, or as good; > a lower bound, since files had not arrived\n",
        aligned(&header, &rows)
    )
}
