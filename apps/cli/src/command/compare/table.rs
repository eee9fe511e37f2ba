//! Formats a comparison as human-readable text.

use pathmark_lab::compare::{Axis, Figure, Report};
use pathmark_lab::text::dash;

use super::super::emulate::aligned;

/// Maximum number of rows of a table in a terminal.
const MOST_ROWS: usize = 60;

pub(super) fn text(report: &Report) -> String {
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
pub(super) fn counts(report: &Report) -> String {
    let (header, rows) = count_rows(report);
    aligned(&header, &rows)
}

/// Returns the header and the rows of [`counts`].
pub(super) fn count_rows(report: &Report) -> (Vec<String>, Vec<Vec<String>>) {
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
