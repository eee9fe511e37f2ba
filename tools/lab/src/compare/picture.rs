//! Draws a grid's report as an overview and heat maps.

use super::axis::Axis;
use super::figure::Figure;
use super::report::{CellReport, Report};
use crate::plot::{self, HeatCell, HeatMap, HeatPanel, Line, Panel};
use crate::text::capitalized;

/// Number of panels side by side that are readable on a page.
const PANELS: usize = 2;
/// Width and height of a panel of the overview in pixels.
const OVERVIEW: (u32, u32) = (760, 230);

/// Axes of the columns, and axes of the rows.
const ACROSS: [Axis; 2] = [Axis::Rate, Axis::Rtt];
const DOWN: [Axis; 4] = [Axis::Routers, Axis::Flows, Axis::Loss, Axis::Buffer];
/// Maximum numbers of rows and columns of a readable picture.
const MOST_ROWS: usize = 200;
const MOST_COLUMNS: usize = 40;

/// True if a picture of all cells would be too large to look at.
pub fn too_large(report: &Report) -> bool {
    points(report, &DOWN).len() > MOST_ROWS || points(report, &ACROSS).len() > MOST_COLUMNS
}

/// Draws the pictures of all cells, one per figure, each with the name of its file without the
/// extension.
pub fn pictures(report: &Report) -> Vec<(String, HeatMap)> {
    if report.cells.is_empty() || too_large(report) {
        return Vec::new();
    }
    let shown = Figure::ALL.into_iter();
    let shown = shown.filter(|figure| report.cells.iter().any(|c| c.best.contains_key(figure)));
    let named = shown.map(|figure| (format!("compare-{figure}"), values(report, figure)));
    named.collect()
}

/// Draws the most important figure: the time that each law takes for the large files, with and
/// without routers.
pub fn overview(report: &Report) -> plot::Figure {
    let routers = report.values(Axis::Routers).iter();
    plot::Figure {
        title: capitalized(Figure::Completion.title()),
        columns: 1,
        panels: routers.map(|value| spans(report, value)).collect(),
        panel_size: Some(OVERVIEW),
        footer: Some(format!(
            "Bars: medians of the cells' means over {} seeds. Strokes: least and greatest. \
             Unfinished files count until the end.",
            report.seeds
        )),
    }
}

/// Draws each law's median, least and greatest completion time over the floor in cells with these
/// routers.
fn spans(report: &Report, routers: &str) -> Panel {
    let is_shown = |cell: &&CellReport| cell.value(Axis::Routers) == routers;
    let cells = report.cells.iter().filter(is_shown);
    let lines = report.laws.iter().enumerate().map(|(place, law)| {
        let means = cells.clone().filter_map(|cell| cell.law(law));
        let means = means.filter_map(|law| law.mean(Figure::Completion));
        let mut means: Vec<f64> = means.collect();
        means.sort_by(f64::total_cmp);
        let x = place as f64;
        let span = means.first().zip(means.last());
        Line {
            label: Some(law.clone()),
            points: (means.get(means.len().saturating_sub(1) / 2).iter())
                .map(|median| (x, **median))
                .collect(),
            bars: (span.map(|(least, most)| (x, *least, *most)).into_iter()).collect(),
            marked: true,
            ..Line::default()
        }
    });
    Panel {
        title: format!(
            "{}, {} cells",
            words(Axis::Routers, routers),
            cells.clone().count()
        ),
        y_label: "completion / floor".to_owned(),
        categories: report.laws.clone(),
        without_legend: true,
        lines: lines.collect(),
        ..Panel::default()
    }
}

/// Returns all combinations of values of some axes. The last axis varies fastest.
fn points(report: &Report, axes: &[Axis]) -> Vec<Vec<(Axis, String)>> {
    let mut all: Vec<Vec<(Axis, String)>> = vec![Vec::new()];
    for axis in axes {
        let longer = |point: &Vec<(Axis, String)>| {
            let (point, axis) = (point.clone(), *axis);
            let each = report.values(axis).iter();
            each.map(move |value| [point.clone(), vec![(axis, value.clone())]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
        // A large grid has many more rows than a picture can show.
        all.truncate(MOST_ROWS + 1);
    }
    all
}

fn is_at(cell: &CellReport, point: &[(Axis, String)]) -> bool {
    point.iter().all(|(axis, value)| cell.value(*axis) == value)
}

/// Returns a row's name: the values of the axes that have several values.
fn row_name(report: &Report, point: &[(Axis, String)]) -> String {
    let named = point
        .iter()
        .filter(|(axis, _)| report.values(*axis).len() > 1);
    let words: Vec<String> = named.map(|(axis, value)| words(*axis, value)).collect();
    words.join(", ")
}

fn words(axis: Axis, value: &str) -> String {
    match (axis, value) {
        (Axis::Routers, "none") => "no router".to_owned(),
        (Axis::Routers, "hidden") => "hidden hop".to_owned(),
        (Axis::Routers, "1") => "router answers".to_owned(),
        (Axis::Routers, number) => format!("{number} routers answer"),
        (Axis::Flows, "1") => "1 flow".to_owned(),
        (Axis::Flows, number) => format!("{number} flows"),
        (Axis::Loss, share) => format!("loss {share}"),
        (_, value) => value.to_owned(),
    }
}

/// Axes with a single value are shown below the headline.
fn fixed(report: &Report) -> String {
    let one = |axis: Axis| match report.values(axis) {
        [only] => Some(words(axis, only)),
        _ => None,
    };
    let all: Vec<String> = Axis::ALL.into_iter().filter_map(one).collect();
    all.join(", ")
}

/// Draws a table of all cells.
fn table(report: &Report, cell: impl Fn(&CellReport) -> HeatCell) -> Vec<Vec<HeatCell>> {
    let across = points(report, &ACROSS);
    let row = |down: &Vec<(Axis, String)>| {
        let each = across.iter().map(|across| {
            let mut cells = report.cells.iter();
            let found = cells.find(|cell| is_at(cell, down) && is_at(cell, across));
            found.map_or_else(HeatCell::default, &cell)
        });
        each.collect()
    };
    points(report, &DOWN).iter().map(row).collect()
}

/// Draws one figure, with a panel for each law.
fn values(report: &Report, figure: Figure) -> HeatMap {
    let (good, bad) = figure.ends();
    let fixed = fixed(report);
    let dot = if fixed.is_empty() { "" } else { ". All: " };
    let panel = |law: &String| HeatPanel {
        title: law.clone(),
        cells: table(report, |cell| value_cell(cell, law, figure)),
    };
    let down = points(report, &DOWN);
    let values = |point: Vec<(Axis, String)>| point.into_iter().map(|(_, value)| value).collect();
    HeatMap {
        title: capitalized(figure.title()),
        subtitle: format!(
            "Means over {} seeds; >: at least, since files had not arrived{dot}{fixed}",
            report.seeds
        ),
        legend: [(good, 1.0), ("half way", 0.5), (bad, 0.0)]
            .map(|(name, good)| (name.to_owned(), good))
            .into(),
        columns: report.laws.len().clamp(1, PANELS),
        rows: down.iter().map(|point| row_name(report, point)).collect(),
        heads: points(report, &ACROSS).into_iter().map(values).collect(),
        panels: report.laws.iter().map(panel).collect(),
    }
}

fn value_cell(cell: &CellReport, law: &str, figure: Figure) -> HeatCell {
    let Some(law) = cell.law(law) else {
        return HeatCell::default();
    };
    let Some(tally) = law.figures.get(&figure) else {
        return HeatCell::default();
    };
    let more = if law.is_bound(figure) { ">" } else { "" };
    HeatCell {
        good: Some(figure.goodness(tally.mean)),
        text: format!("{more}{}", figure.shown(tally.mean)),
    }
}
