//! A page of a scenario: the papers' statements, and the results here.

use std::fmt::Write as _;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::{Metric, Reference, Shown};

use super::milestones;
use super::{Chapter, Group};
use crate::metric::{ended, here, is_completion, names, ranged, ruled_by, spread};
use crate::text::{dash, wrapped};
use crate::window::during;

/// Columns of a scenario's table, unless they are empty or meaningless.
const COLUMNS: [Metric; 14] = [
    Metric::Completion,
    Metric::CompletionMedian,
    Metric::CompletionP95,
    Metric::Goodput,
    Metric::LateGoodput,
    Metric::Jain,
    Metric::Utilization,
    Metric::LateUtilization,
    Metric::TimeTo80,
    Metric::Queue,
    Metric::QueueMax,
    Metric::Drops,
    Metric::OverTransmission,
    Metric::Lost,
];

/// Columns only for scenarios that request them.
const ON_REQUEST: [Metric; 4] = [
    Metric::LateGoodput,
    Metric::OverTransmission,
    Metric::CompletionMedian,
    Metric::CompletionP95,
];

/// The introduction of the list of pages, of which the first paragraph precedes the command.
const INTRODUCTION: &str = include_str!("index.md");

/// Returns the list of pages: a common introduction, and a row for each scenario.
pub fn index(scenarios: &[Scenario], paper_scale: bool) -> String {
    let mut paragraphs = INTRODUCTION.split("\n\n").map(wrapped);
    let about = paragraphs.next().unwrap_or_default();
    let mut text = format!("# Figures\n\n{about}\n\n{}", command(None, paper_scale));
    for paragraph in paragraphs {
        let _ = write!(text, "{paragraph}\n\n");
    }
    text += "| page | scenario |\n|---|---|\n";
    for scenario in scenarios {
        let id = scenario.id();
        let _ = writeln!(text, "| [{id}]({id}.md) | {} |", scenario.name);
    }
    text
}

/// Returns the page of a scenario.
pub fn page(chapter: &Chapter, paper_scale: bool) -> String {
    let id = chapter.scenario.id();
    let mut about = format!("{}.", chapter.scenario.name);
    if chapter.seeds > 1 {
        let _ = write!(about, " Means over {} seeds.", chapter.seeds);
    }
    about += " [Terms of the tables](index.md).";
    let mut text = format!(
        "# {id}\n\n{}\n\n{}",
        wrapped(&about),
        command(Some(id), paper_scale)
    );
    if !chapter.scenario.paper.is_empty() {
        text += "| the paper says | paper | here |\n|---|---|---|\n";
        for says in &chapter.scenario.paper {
            summary_row(&mut text, chapter, says);
        }
        text.push('\n');
    }
    table(&mut text, chapter);
    milestones::table(&mut text, chapter);
    if chapter.picture {
        let _ = write!(text, "\n![{}]({id}.svg)\n", chapter.scenario.name);
    }
    if let Some(note) = &chapter.scenario.note {
        for paragraph in note.trim().split("\n\n") {
            let _ = write!(text, "\n{}\n", wrapped(paragraph));
        }
    }
    text
}

/// Returns the command that writes the page of a scenario, or all pages.
fn command(scenario: Option<&str>, paper_scale: bool) -> String {
    let scenario = scenario.map_or_else(String::new, |id| format!(" {id}"));
    let scale = if paper_scale { " --paper-scale" } else { "" };
    format!("```sh\npathmark emulate --results docs/evidence/figures{scale}{scenario}\n```\n\n")
}

fn about<'a>(chapter: &'a Chapter, says: &'a Reference) -> impl Iterator<Item = &'a Group> {
    let groups = chapter.groups.iter();
    groups.filter(|group| {
        let variant = says.variant.is_none() || says.variant == group.variant;
        let mut only = says.only.iter();
        variant && only.all(|(key, value)| group.set.get(key) == Some(value))
    })
}

/// A group's value, by which groups are ordered.
struct Cell {
    /// The mean, or infinity without one.
    value: f64,
    /// Number of flows that ended although others did not.
    ended: usize,
    /// The value as text.
    shown: String,
}

/// Returns the span from the least to the greatest value. If flows did not end, the group in which
/// the fewest ended is the worst.
fn span(cells: &mut [Cell]) -> String {
    let order = |a: &Cell, b: &Cell| a.value.total_cmp(&b.value).then(b.ended.cmp(&a.ended));
    cells.sort_by(order);
    match cells {
        [least, .., most] if least.shown != most.shown => {
            format!("{} … {}", least.shown, most.shown)
        }
        [least, ..] => least.shown.clone(),
        [] => String::new(),
    }
}

/// Returns the part of a run that a paper measures, in its unit, or `None` if the run ended
/// earlier.
fn as_the_paper_counts(run: &RunResult, says: &Reference) -> Option<RunResult> {
    let mut run = match says.during {
        Some(window) => during(run, window.map(|at| at.0.as_secs_f64()))?,
        None => run.clone(),
    };
    if let Some(share) = says.payload_share {
        for flow in &mut run.flows {
            flow.goodput_bps /= share;
            flow.bytes_delivered = (flow.bytes_delivered as f64 / share).round() as u64;
        }
    }
    Some(run)
}

/// Groups that differ in a sweep share a cell: the span from the least to the greatest value.
fn summary_row(text: &mut String, chapter: &Chapter, says: &Reference) {
    let paper = says.value.as_deref().unwrap_or("*plot only*");
    let mut cells: Vec<(Option<&String>, Vec<Cell>)> = Vec::new();
    if let Some(metric) = says.metric {
        for group in about(chapter, says) {
            let runs = group.results.iter();
            let runs: Vec<RunResult> = runs
                .filter_map(|run| as_the_paper_counts(run, says))
                .collect();
            let results: Vec<&RunResult> = runs.iter().collect();
            let flow = says.flow.as_deref();
            let mean = spread(&results, metric, flow).map(|(_, mean, _)| mean);
            let cell = Cell {
                value: mean.unwrap_or(f64::INFINITY),
                ended: mean.map_or_else(|| ended(&results, flow).0, |_| 0),
                shown: here(&results, metric, flow),
            };
            match cells
                .iter_mut()
                .find(|(variant, _)| *variant == group.variant.as_ref())
            {
                Some((_, known)) => known.push(cell),
                None => cells.push((group.variant.as_ref(), vec![cell])),
            }
        }
    }
    let named = cells.len() > 1;
    let shown: Vec<String> = cells
        .iter_mut()
        .map(|(variant, values)| {
            let values = span(values);
            match variant {
                Some(name) if named => format!("{name}: {values}"),
                _ => values,
            }
        })
        .collect();
    let shown = if shown.is_empty() {
        "see below".to_owned()
    } else {
        shown.join("<br>")
    };
    let unit = says.payload_share.map_or("", |_| ", in IP bytes");
    let about = says.variant.iter().map(|name| format!(" ({name})"));
    let about: String = about.collect();
    let _ = writeln!(text, "| {}{unit}{about} | {paper} | {shown} |", says.says);
}

fn table(text: &mut String, chapter: &Chapter) {
    let groups = &chapter.groups;
    let keys: Vec<&String> = groups.iter().take(1).flat_map(|g| g.set.keys()).collect();
    let varied = groups.iter().any(|group| group.variant.is_some());
    let shown: Vec<Metric> = COLUMNS
        .into_iter()
        .filter(|metric| !ON_REQUEST.contains(metric) || asks_for(chapter, *metric))
        .filter(|metric| groups.iter().any(|group| says_something(group, *metric)))
        .collect();
    let mut header: Vec<String> = varied.then(|| "run".to_owned()).into_iter().collect();
    header.extend(keys.iter().map(|key| format!("`{key}`")));
    header.extend(shown.iter().map(|metric| names(*metric).0.to_owned()));
    header.push("ruled by".to_owned());
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for group in groups {
        let mut row: Vec<String> = group.variant.iter().cloned().collect();
        let values = keys.iter().map(|key| group.set.get(*key).cloned());
        row.extend(values.map(Option::unwrap_or_default));
        row.extend(shown.iter().map(|metric| ranged(&group.results(), *metric)));
        row.push(ruled_by(&group.results()));
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

/// True if the paper or a picture uses this metric.
fn asks_for(chapter: &Chapter, metric: Metric) -> bool {
    let scenario = &chapter.scenario;
    let mut rows = scenario.paper.iter();
    let mut plots = scenario.plots.iter();
    rows.any(|row| row.metric == Some(metric))
        || plots.any(|plot| plot.show == Shown::Metric(metric))
}

/// False for a column of dashes, the completion of flows without an end, or the fairness of a
/// single flow.
fn says_something(group: &Group, metric: Metric) -> bool {
    let Some(result) = group.results.first() else {
        return false;
    };
    match metric {
        metric if is_completion(metric) => {
            let mut flows = result.flows.iter();
            flows.any(|flow| flow.bytes_requested.is_some())
        }
        Metric::Jain => result.flows.len() > 1,
        _ => here(&group.results(), metric, None) != dash(),
    }
}

#[cfg(test)]
mod tests {
    use pathmark_emulator::result::FlowResult;
    use pathmark_emulator::scenario::Settings;

    use super::*;

    /// In any order, the row in which the fewest flows ended is the worst.
    #[test]
    fn a_span_ends_where_the_fewest_flows_ended() {
        let cell = |seconds: Option<f64>, ended| Cell {
            value: seconds.unwrap_or(f64::INFINITY),
            ended,
            shown: match seconds {
                Some(seconds) => format!("{seconds:.2} s"),
                None => format!("{ended} of 5 ended"),
            },
        };
        let rows = || [cell(None, 0), cell(Some(31.66), 0), cell(None, 2)];
        assert_eq!(span(&mut rows()), "31.66 s … 0 of 5 ended");
        let mut turned = rows();
        turned.reverse();
        assert_eq!(span(&mut turned), "31.66 s … 0 of 5 ended");
        assert_eq!(span(&mut rows()[..1]), "0 of 5 ended");
        assert_eq!(span(&mut [cell(None, 3), cell(None, 3)]), "3 of 5 ended");
        assert_eq!(
            span(&mut [cell(None, 1), cell(None, 4)]),
            "4 of 5 ended … 1 of 5 ended"
        );
        assert_eq!(span(&mut []), "");
    }

    /// 9 Mbit/s of payload are 10 Mbit/s of IP packets of which 0.9 are payload.
    #[test]
    fn a_paper_that_counts_ip_bytes_is_compared_in_ip_bytes() {
        let flow = |bytes_delivered| FlowResult {
            bytes_delivered,
            goodput_bps: 9e6,
            completion_s: Some(8.0),
            ..FlowResult::default()
        };
        let run = RunResult {
            flows: vec![flow(9_000_000)],
            simulated_s: 8.0,
            ..RunResult::default()
        };
        let says = Reference {
            says: "rate".to_owned(),
            metric: Some(Metric::Goodput),
            value: None,
            variant: None,
            flow: None,
            during: None,
            payload_share: Some(0.9),
            only: Settings::default(),
            curve: None,
            show: None,
        };
        let run = as_the_paper_counts(&run, &says).unwrap();
        assert_eq!(here(&[&run], Metric::Goodput, None), "10.00 Mbit/s");
    }
}
