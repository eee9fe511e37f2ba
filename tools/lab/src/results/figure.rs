//! Pictures of a scenario's runs.

use pathmark_emulator::scenario::{Metric, Plot, Quantity, Shown};

use super::{Chapter, Group};
use super::{label, milestones, number, panel, x_label};
use crate::metric;
use crate::plot::{Figure, Line, Panel};

/// Draws the picture of a chapter: its scenario's plots, or default plots.
pub fn figure(chapter: &Chapter) -> Figure {
    let own = &chapter.scenario.plots;
    let fitting = own.is_empty().then(|| fitting(chapter));
    let plots = fitting.as_ref().unwrap_or(own).iter().enumerate();
    let panels = plots.flat_map(|(index, plot)| panels(chapter, plot, index == 0));
    let panels: Vec<Panel> = panels.collect();
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    let barred = lines().any(|line| !line.bars.is_empty());
    let over_time = lines().any(|line| !line.marked);
    let name = &chapter.scenario.name;
    Figure {
        title: match (chapter.seeds, barred, over_time) {
            (0 | 1, ..) => name.clone(),
            (seeds, true, _) => format!("{name} (means, least and most of {seeds} seeds)"),
            (_, false, true) => format!("{name} (seed 1)"),
            (seeds, false, false) => format!("{name} (means of {seeds} seeds)"),
        },
        columns: match panels.iter().any(has_long_names) {
            true => 1,
            false => panels.len().clamp(1, 2),
        },
        panels,
        ..Figure::default()
    }
}

/// True if the names of categories do not fit side by side in half of a page.
fn has_long_names(panel: &Panel) -> bool {
    let letters = panel.categories.iter().map(|name| name.chars().count() + 1);
    letters.sum::<usize>() > 48
}

/// Default plots: each metric of the paper over the first sweep, or goodput and queue over time.
fn fitting(chapter: &Chapter) -> Vec<Plot> {
    let plot = |show| Plot {
        title: None,
        show,
        over: None,
        flow: None,
        only: Default::default(),
        variants: None,
        x_max: None,
        y_max: None,
    };
    let scenario = &chapter.scenario;
    if scenario.sweeps.is_empty() {
        return [Quantity::Goodputs, Quantity::Queues]
            .map(|what| plot(Shown::Quantity(what)))
            .into();
    }
    let mut metrics: Vec<Metric> = Vec::new();
    for metric in scenario.paper.iter().filter_map(|says| says.metric) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    if metrics.is_empty() {
        metrics.push(Metric::Goodput);
    }
    let plots = metrics.into_iter().map(|m| plot(Shown::Metric(m)));
    plots.collect()
}

fn panels(chapter: &Chapter, plot: &Plot, first: bool) -> Vec<Panel> {
    let mut shown: Vec<&Group> = chapter.groups.iter().filter(|g| wanted(g, plot)).collect();
    if let Some(order) = &plot.variants {
        let place = |group: &&Group| {
            let mut names = order.iter();
            names.position(|name| group.variant.as_ref() == Some(name))
        };
        shown.sort_by_key(place);
    }
    match plot.show {
        Shown::Metric(metric) => Vec::from_iter(over_sweep(chapter, plot, metric, &shown)),
        Shown::Quantity(Quantity::Milestones) => {
            Vec::from_iter(milestones::panel(chapter, plot, &shown))
        }
        Shown::Quantity(what) => over_time(chapter, plot, what, &shown, first),
    }
}

fn wanted(group: &Group, plot: &Plot) -> bool {
    let known = |names: &Vec<String>| (group.variant.as_ref()).is_some_and(|v| names.contains(v));
    let mut only = plot.only.iter();
    plot.variants.as_ref().is_none_or(known)
        && only.all(|(key, value)| group.set.get(key) == Some(value))
}

/// Draws a line for each group of runs that only differ in the swept key.
fn over_sweep(chapter: &Chapter, plot: &Plot, metric: Metric, shown: &[&Group]) -> Option<Panel> {
    let axis = match &plot.over {
        Some(key) => chapter.scenario.sweeps.iter().find(|axis| axis.key == *key),
        None => chapter.scenario.sweeps.first(),
    }?;
    let names = axis.points.iter().map(|point| point.name.as_str());
    let names: Vec<&str> = names.collect();
    // A line through one or two points would suggest values between them, so they are bars.
    let numbers: Option<Vec<f64>> = names.iter().map(|name| number(name)).collect();
    let numbers = numbers.filter(|_| names.len() > 2);
    let unit_of = if numbers.is_some() { &names[..] } else { &[] };
    let mut lines: Vec<Line> = Vec::new();
    let (mut points, mut missing) = (0, 0);
    for group in shown {
        let Some(at) = group.set.get(&axis.key) else {
            continue;
        };
        let Some(index) = names.iter().position(|name| name == at) else {
            continue;
        };
        let x = numbers.as_ref().and_then(|n| n.get(index).copied());
        let x = x.unwrap_or(index as f64);
        points += 1;
        let Some((least, y, most)) = metric::spread(&group.results(), metric, None) else {
            missing += 1;
            continue;
        };
        let unit = match metric {
            Metric::Goodput | Metric::LateGoodput => 1e6,
            _ => 1.0,
        };
        let (bar, y) = ((x, least / unit, most / unit), y / unit);
        let bars = if bar.1 < bar.2 { vec![bar] } else { Vec::new() };
        let label = label(chapter, group, plot, Some(&axis.key));
        match lines
            .iter_mut()
            .find(|line| line.label.as_ref() == Some(&label))
        {
            Some(line) => {
                line.points.push((x, y));
                line.bars.extend(bars);
            }
            None => lines.push(Line {
                bars,
                marked: true,
                ..Line::named(label, [(x, y)])
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let (_, y_label) = metric::names(metric);
    let mut x_label = x_label(&axis.key, unit_of);
    if missing > 0 {
        x_label += &format!("; {missing} of {points} points have no value: see the table");
    }
    Some(Panel {
        categories: match numbers {
            Some(_) => Vec::new(),
            None => names.iter().map(|name| (*name).to_owned()).collect(),
        },
        ..panel(plot, &metric::title(metric), [&x_label, y_label], lines)
    })
}

/// Draws one panel with a line per run for links or if each run has one flow, and otherwise a panel
/// per run.
fn over_time(
    chapter: &Chapter,
    plot: &Plot,
    what: Quantity,
    shown: &[&Group],
    first: bool,
) -> Vec<Panel> {
    let together = what.is_of_links() || shown.iter().all(|g| own(g, plot, what).count() <= 1);
    let panel = |lines| panel(plot, what.title(), ["time [s]", what.unit()], lines);
    if together {
        let mut lines = Vec::new();
        let mut expected = Vec::new();
        for group in shown {
            let Some((_, points)) = busiest(group, plot, what) else {
                continue;
            };
            expected.extend(curves(chapter, group, what, first, lines.len()));
            lines.push(Line::named(label(chapter, group, plot, None), points));
        }
        lines.extend(expected);
        return vec![Panel {
            y_max: plot.y_max.or(what.most()),
            ..panel(lines)
        }];
    }
    let curves = || shown.iter().flat_map(|group| own(group, plot, what));
    let points = || curves().flat_map(|(_, points)| points);
    let highest = points().map(|p| p.1).fold(0.0, f64::max);
    let y_max = plot.y_max.or(Some(1.05 * highest));
    let last = points().map(|p| p.0).fold(0.0, f64::max);
    let x_max = plot.x_max.or(Some(last));
    let each = shown.iter().map(|group| {
        let lines = own(group, plot, what).map(|(name, points)| Line::named(name, points));
        let mut panel = panel(lines.collect());
        (panel.x_max, panel.y_max) = (x_max, y_max);
        let label = label(chapter, group, plot, None);
        if !label.is_empty() {
            panel.title = format!("{label}: {}", panel.title);
        }
        let left_out = group.series.left_out(what);
        if left_out > 0 {
            panel.x_label += &format!("; {left_out} more flows are not drawn");
        }
        panel
    });
    each.collect()
}

/// Returns the curves of a quantity, or only those of the flow that the plot names.
fn own<'a>(
    group: &'a Group,
    plot: &'a Plot,
    what: Quantity,
) -> impl Iterator<Item = (&'a str, &'a [(f64, f64)])> {
    let curves = group.series.curves(what);
    curves.filter(move |(name, _)| plot.flow.as_ref().is_none_or(|flow| flow == name))
}

/// Returns the curve of the busiest link, or of the first flow.
fn busiest<'a>(
    group: &'a Group,
    plot: &'a Plot,
    what: Quantity,
) -> Option<(&'a str, &'a [(f64, f64)])> {
    let result = group.results.first()?;
    let link = metric::Summary::new(result).link?;
    let mut curves = own(group, plot, what);
    if what.is_of_links() {
        curves.find(|(name, _)| *name == link.name)
    } else {
        curves.next()
    }
}

/// Returns the curves of the paper's equations that belong to this group.
fn curves(chapter: &Chapter, group: &Group, what: Quantity, first: bool, line: usize) -> Vec<Line> {
    let about = chapter.scenario.paper.iter().filter(|says| {
        says.show.map_or(first, |show| show == what) && says.variant == group.variant
    });
    let lines = about
        .filter_map(|says| says.curve.as_ref())
        .map(|points| Line {
            points: points.clone(),
            expected_of: Some(line),
            ..Line::default()
        });
    lines.collect()
}
