//! Tables and plots of single flows, for scenarios whose flows have `milestones`.

use std::fmt::Write as _;

use pathmark_emulator::result::{FlowResult, Milestone};
use pathmark_emulator::scenario::{Plot, Quantity};

use super::label;
use super::{Chapter, Group};
use crate::metric::UDP;
use crate::plot::{Line, Panel};
use crate::text::{dash, rate};

/// Writes a row for each connection of each run: its goodput, its losses, and the times of its
/// milestones. Without milestones, there is no table. Of several seeds, only the first counts.
pub(super) fn table(text: &mut String, chapter: &Chapter) {
    let bytes: Vec<u64> = milestones(chapter);
    if bytes.is_empty() {
        return;
    }
    let windows = &chapter.scenario.measure;
    let mut header: Vec<String> = ["run", "flow", "goodput", "lost [packets]"]
        .map(str::to_owned)
        .into();
    header.extend(windows.iter().map(|(from, to)| {
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
        format!("lost, {from} to {to} s")
    }));
    let until = bytes.iter().map(|bytes| amount(*bytes));
    header.extend(until.map(|amount| format!("until {amount}")));
    let _ = write!(text, "\n| {} |\n", header.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(header.len()));
    for group in &chapter.groups {
        let Some(result) = group.results.first() else {
            continue;
        };
        for (index, flow) in result.flows.iter().enumerate() {
            if flow.algorithm == UDP {
                continue;
            }
            let mut row = vec![
                run(group),
                flow.name.clone(),
                rate(flow.goodput_bps),
                number(flow.packets_lost),
            ];
            let within = result.windows.iter().map(|window| window.flows.get(index));
            row.extend(within.map(|flow| number(flow.and_then(|flow| flow.lost))));
            row.extend(bytes.iter().map(|bytes| after(flow, *bytes)));
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
    }
}

/// Draws a line for each run: the time until a number of bytes had arrived, over this number.
pub(super) fn panel(chapter: &Chapter, plot: &Plot, shown: &[&Group]) -> Option<Panel> {
    let mut lines = Vec::new();
    for group in shown {
        let flows = group.results.first()?.flows.iter();
        let named = |flow: &&FlowResult| {
            let wanted = plot.flow.as_ref().is_none_or(|name| *name == flow.name);
            wanted && !flow.milestones.is_empty()
        };
        for flow in flows.filter(named) {
            let point = |milestone: &Milestone| Some((milestone.bytes as f64, milestone.after_s?));
            let label = match (&plot.flow, label(chapter, group, plot, None)) {
                (Some(_), label) if !label.is_empty() => label,
                (_, label) if label.is_empty() => flow.name.clone(),
                (_, label) => format!("{label}: {}", flow.name),
            };
            let points: Vec<_> = flow.milestones.iter().filter_map(point).collect();
            lines.push(Line {
                marked: true,
                ..Line::named(label, points)
            });
        }
    }
    let what = Quantity::Milestones;
    let axes = ["bytes", what.unit()];
    (!lines.is_empty()).then(|| super::panel(plot, what.title(), axes, lines))
}

/// Returns the numbers of bytes of all milestones.
fn milestones(chapter: &Chapter) -> Vec<u64> {
    let flows = chapter.scenario.flows.iter();
    let mut all: Vec<u64> = flows.flat_map(|flow| &flow.milestones).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn run(group: &Group) -> String {
    let variant = group.variant.iter().cloned();
    let all: Vec<String> = variant.chain(group.set.values().cloned()).collect();
    all.join(", ")
}

fn after(flow: &FlowResult, bytes: u64) -> String {
    let own = flow.milestones.iter().find(|own| own.bytes == bytes);
    let after = own.and_then(|own| own.after_s);
    after.map_or_else(dash, |seconds| format!("{seconds:.2} s"))
}

/// Formats a number of bytes.
fn amount(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000.. => (1e9, "GB"),
        1_000_000.. => (1e6, "MB"),
        1_000.. => (1e3, "kB"),
        _ => (1.0, "B"),
    };
    format!("{} {name}", bytes as f64 / unit)
}

fn number(count: Option<u64>) -> String {
    count.map_or_else(dash, |count| count.to_string())
}
