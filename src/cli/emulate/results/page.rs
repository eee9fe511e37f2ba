//! The page: what the papers say beside what came of it, scenario by scenario.

use std::fmt::Write as _;

use pathmark_emulator::scenario::{Metric, Reference};

use super::super::metric::{here, names};
use super::{Chapter, Group};

/// What was found wrong in the papers, or left open by them.
const SLIPS: &str = include_str!("slips.md");

/// Columns of a scenario's table, where they say something.
const COLUMNS: [Metric; 10] = [
    Metric::Completion,
    Metric::Goodput,
    Metric::Jain,
    Metric::Utilization,
    Metric::LateUtilization,
    Metric::TimeTo80,
    Metric::Queue,
    Metric::QueueMax,
    Metric::Drops,
    Metric::Lost,
];

/// The whole page.
pub(super) fn page(chapters: &[Chapter], paper_scale: bool) -> String {
    let command = if paper_scale {
        "pathmark emulate --results docs --paper-scale"
    } else {
        "pathmark emulate --results docs"
    };
    let mut text = format!(
        "# Results\n\n\
         The papers' experiments, run by the code that runs in production: this library's connections and router ports under a virtual \
         clock. This page, tables and pictures included, is what\n\n```\n{command}\n```\n\n\
         writes; numbers come out the same on every machine. `--paper-scale` takes as many seeds as the papers did, and longer. What a \
         scenario pins, and why, stands in its file under `crates/emulator/scenarios`; [emulate.md](emulate.md) says how to run one alone. \
         *plot only*: the paper's text gives no number, and none was read off a plot. Queues are in packets; where a scenario is run with \
         several seeds, figures are means over them.\n\n## Paper and here\n\n"
    );
    text += "| scenario | the paper says | paper | here |\n|---|---|---|---|\n";
    for chapter in chapters {
        for says in &chapter.scenario.paper {
            summary_row(&mut text, chapter, says);
        }
    }
    for chapter in chapters {
        self::chapter(&mut text, chapter);
    }
    text.push('\n');
    text += SLIPS;
    text
}

fn about<'a>(chapter: &'a Chapter, says: &'a Reference) -> impl Iterator<Item = &'a Group> {
    let groups = chapter.groups.iter();
    groups.filter(|group| says.variant.is_none() || says.variant == group.variant)
}

/// Groups that differ in a sweep share a cell: the span from the least to the greatest value.
fn summary_row(text: &mut String, chapter: &Chapter, says: &Reference) {
    let id = chapter.scenario.id();
    let paper = says.value.as_deref().unwrap_or("*plot only*");
    let mut cells: Vec<(Option<&String>, Vec<String>)> = Vec::new();
    if let Some(metric) = says.metric {
        for group in about(chapter, says) {
            let value = here(&group.results(), metric, says.flow.as_deref());
            match cells
                .iter_mut()
                .find(|(variant, _)| *variant == group.variant.as_ref())
            {
                Some((_, values)) => values.push(value),
                None => cells.push((group.variant.as_ref(), vec![value])),
            }
        }
    }
    let named = cells.len() > 1;
    let shown: Vec<String> = cells
        .iter()
        .map(|(variant, values)| {
            let values = match values.as_slice() {
                [first, .., last] => format!("{first} … {last}"),
                _ => values.concat(),
            };
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
    let about = says
        .variant
        .as_ref()
        .map_or_else(String::new, |name| format!(" ({name})"));
    let _ = writeln!(
        text,
        "| [{id}](#{id}) | {}{about} | {paper} | {shown} |",
        says.says
    );
}

fn chapter(text: &mut String, chapter: &Chapter) {
    let id = chapter.scenario.id();
    let _ = write!(text, "\n## {id}\n\n{}.", chapter.scenario.name);
    if chapter.seeds > 1 {
        let _ = write!(text, " Means over {} seeds.", chapter.seeds);
    }
    text.push_str("\n\n");
    table(text, chapter);
    if chapter.picture {
        let _ = write!(text, "\n![{}](results/{id}.svg)\n", chapter.scenario.name);
    }
    if let Some(note) = &chapter.scenario.note {
        let _ = write!(text, "\n{}\n", note.trim());
    }
}

fn table(text: &mut String, chapter: &Chapter) {
    let groups = &chapter.groups;
    let keys: Vec<&String> = groups
        .first()
        .map_or_else(Vec::new, |g| g.set.keys().collect());
    let varied = groups.iter().any(|group| group.variant.is_some());
    let shown: Vec<Metric> = COLUMNS
        .into_iter()
        .filter(|metric| groups.iter().any(|group| says_something(group, *metric)))
        .collect();
    let mut header: Vec<String> = varied.then(|| "run".to_owned()).into_iter().collect();
    header.extend(keys.iter().map(|key| format!("`{key}`")));
    header.extend(shown.iter().map(|metric| names(*metric).0.to_owned()));
    let _ = writeln!(text, "| {} |", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for group in groups {
        let mut row: Vec<String> = group.variant.iter().cloned().collect();
        row.extend(
            keys.iter()
                .map(|key| group.set.get(*key).cloned().unwrap_or_default()),
        );
        row.extend(
            shown
                .iter()
                .map(|metric| here(&group.results(), *metric, None)),
        );
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

/// Not a column of dashes, nor the completion of flows without an end, nor the fairness of one.
fn says_something(group: &Group, metric: Metric) -> bool {
    let Some(result) = group.results.first() else {
        return false;
    };
    match metric {
        Metric::Completion => result
            .flows
            .iter()
            .any(|flow| flow.bytes_requested.is_some()),
        Metric::Jain => result.flows.len() > 1,
        _ => here(&group.results(), metric, None) != super::super::table::dash(),
    }
}
