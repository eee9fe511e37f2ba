//! Sentences that summarize the figures.

use std::collections::BTreeMap;

use super::axis::Axis;
use super::figure::Figure;
use super::report::CellReport;

/// A sentence mentions a value of an axis if the law is best in a share of this value's cells that
/// differs by at least this from its share of all cells.
const REMARKABLE: f64 = 0.2;

/// Values of each axis by its name.
type Axes = BTreeMap<String, Vec<String>>;

/// Returns a sentence for each figure that has cells.
pub(super) fn sentences(laws: &[String], axes: &Axes, cells: &[CellReport]) -> Vec<String> {
    let figures = Figure::ALL.into_iter();
    figures
        .filter_map(|figure| sentence(laws, axes, cells, figure))
        .collect()
}

fn sentence(laws: &[String], axes: &Axes, cells: &[CellReport], figure: Figure) -> Option<String> {
    let cells: Vec<&CellReport> = cells
        .iter()
        .filter(|cell| cell.best.contains_key(&figure))
        .collect();
    if cells.is_empty() || laws.len() < 2 {
        return None;
    }
    let mut shares: Vec<(&String, usize)> = laws
        .iter()
        .map(|law| (law, count(&cells, figure, law)))
        .collect();
    // The order of the laws breaks ties.
    shares.sort_by_key(|share| std::cmp::Reverse(share.1));
    let parts = shares.iter().map(|(law, best)| {
        let mut part = format!("`{law}` in {best}");
        if let Some(words) = where_best(axes, &cells, figure, law, *best) {
            part += &format!(" ({words})");
        }
        part
    });
    let parts: Vec<String> = parts.collect();
    Some(format!(
        "{}: of {} cells, best or as good are {}.",
        capitalized(figure.title()),
        cells.len(),
        listed(&parts)
    ))
}

fn count(cells: &[&CellReport], figure: Figure, law: &str) -> usize {
    cells
        .iter()
        .filter(|cell| cell.is_best(figure, law))
        .count()
}

/// `all 72 with routers 1, 0 of 48 with loss 1%`: the cells in which the law stands out or falls
/// behind.
fn where_best(
    axes: &Axes,
    cells: &[&CellReport],
    figure: Figure,
    law: &str,
    best: usize,
) -> Option<String> {
    let share = best as f64 / cells.len() as f64;
    let mut most: Option<(f64, String)> = None;
    let mut least: Option<(f64, String)> = None;
    for axis in Axis::ALL {
        let values = axes.get(axis.name()).map_or(&[][..], Vec::as_slice);
        if values.len() < 2 {
            continue;
        }
        for value in values {
            let here: Vec<&CellReport> = cells
                .iter()
                .copied()
                .filter(|cell| cell.value(axis) == value)
                .collect();
            if here.is_empty() {
                continue;
            }
            let number = count(&here, figure, law);
            let own = number as f64 / here.len() as f64;
            let words = format!("{} with {axis} {value}", of(number, here.len()));
            if own >= share + REMARKABLE && most.as_ref().is_none_or(|(known, _)| own > *known) {
                most = Some((own, words));
            } else if own <= share - REMARKABLE
                && least.as_ref().is_none_or(|(known, _)| own < *known)
            {
                least = Some((own, words));
            }
        }
    }
    let words: Vec<String> = most
        .into_iter()
        .chain(least)
        .map(|(_, words)| words)
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn of(number: usize, all: usize) -> String {
    if number == all {
        format!("all {all}")
    } else if number == 0 {
        format!("none of {all}")
    } else {
        format!("{number} of {all}")
    }
}

pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
