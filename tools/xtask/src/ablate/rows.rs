//! Compares the figures of scenarios' variants with and without mechanisms.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use pathmark_cc::{Mechanism, asked, remove};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::Change;
use pathmark_lab::sweep::cases;

use crate::cores::on_all_cores;

/// Minimum relative change of a figure to be listed.
const LEAST: f64 = 0.03;

/// A figure's name and a function that returns it, or `None` if the run doesn't have it.
type Figure = (&'static str, fn(&RunResult) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("goodput, Mbit/s", |run| {
        let endless = run
            .flows
            .iter()
            .filter(|flow| flow.bytes_requested.is_none());
        let sum: f64 = endless.map(|flow| flow.goodput_bps / 1e6).sum();
        (sum > 0.0).then_some(sum)
    }),
    ("mean completion, s", |run| {
        mean(run.flows.iter().filter_map(|flow| flow.completion_s))
    }),
    ("mean of flows' RTT p99, ms", |run| {
        mean(run.flows.iter().filter_map(|flow| Some(flow.rtt_ms?.p99)))
    }),
    ("drops of queues, %", |run| {
        let sent: u64 = run.flows.iter().filter_map(|flow| flow.packets_sent).sum();
        let drops: u64 = run.links.iter().map(|link| link.drops).sum();
        (drops > 0).then_some(100.0 * drops as f64 / sent as f64)
    }),
];

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A case of a scenario with all seeds.
struct Row {
    name: String,
    runs: Vec<Scenario>,
}

type Measured = [Option<f64>; FIGURES.len()];

/// Runs every case of the scenarios under each seed, with all mechanisms and without each group.
/// Returns a table of all figures, in which changes below 3 % are shown as `=`.
pub(super) fn run(scenarios: &[String], seeds: &[u64], groups: &[&[Mechanism]]) -> Result<String> {
    let mut rows: Vec<Row> = Vec::new();
    for name in scenarios {
        let base = Scenario::load(name)?;
        for seed in seeds {
            let key = "seed".to_owned();
            let value = seed.to_string();
            for (case, scenario) in cases(&base, &[Change { key, value }], &[])? {
                let sets: Vec<&str> = case.set.values().map(String::as_str).collect();
                let variant = case.variant.unwrap_or_default();
                let name = format!("{} {variant} {}", case.scenario, sets.join(" "));
                match rows.iter_mut().find(|row| row.name == name) {
                    Some(row) => row.runs.push(scenario),
                    None => rows.push(Row {
                        name,
                        runs: vec![scenario],
                    }),
                }
            }
        }
    }
    let mut text = String::from("| case | figure | all mechanisms |");
    for group in groups {
        let names: Vec<&str> = group.iter().map(|each| each.name()).collect();
        let _ = write!(text, " without `{}` |", names.join("+"));
    }
    let _ = write!(text, "\n|---|---|---|{}\n", "---|".repeat(groups.len()));
    for row in &rows {
        let with = on_all_cores(&row.runs, |scenario| {
            let (result, asked) = asked(|| scenario.run(|_| std::ops::ControlFlow::Continue(())));
            Ok((figures(&result?), asked))
        })?;
        let before = middle(with.iter().map(|(figures, _)| *figures));
        let mut without = Vec::new();
        for group in groups {
            let pairs: Vec<_> = row.runs.iter().zip(&with).collect();
            remove(group);
            let runs = on_all_cores(&pairs, |(scenario, (figures_before, asked))| {
                if !group.iter().any(|each| asked.contains(each)) {
                    return Ok(*figures_before);
                }
                let result = scenario.run(|_| std::ops::ControlFlow::Continue(()));
                Ok(figures(&result.with_context(|| row.name.clone())?))
            });
            remove(&[]);
            without.push(middle(runs?.into_iter()));
        }
        for (index, (figure, _)) in FIGURES.iter().enumerate() {
            let of = |all: &Measured| all.get(index).copied().flatten();
            let Some(with) = of(&before) else { continue };
            let _ = write!(text, "| {} | {figure} | {with:.3} |", row.name);
            for all in &without {
                match of(all) {
                    Some(without) if (without - with).abs() < LEAST * with => text.push_str(" = |"),
                    Some(without) => {
                        let percent = 100.0 * (without / with - 1.0);
                        let _ = write!(text, " {without:.3} ({percent:+.0} %) |");
                    }
                    None => text.push_str(" none |"),
                }
            }
            text.push('\n');
        }
    }
    Ok(text)
}

fn figures(run: &RunResult) -> Measured {
    FIGURES.map(|(_, figure)| figure(run))
}

/// Returns the mean of each figure over seeds.
fn middle(runs: impl Iterator<Item = Measured>) -> Measured {
    let runs: Vec<Measured> = runs.collect();
    std::array::from_fn(|index| mean(runs.iter().filter_map(|run| *run.get(index)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_a_row_per_figure_and_a_column_per_trial() {
        let _alone = super::super::REMOVING.lock().unwrap();
        let keep: &[Mechanism] = &[Mechanism::Keep];
        let twice: &[Mechanism] = &[Mechanism::Twice];
        let text = run(&["auto-files".to_owned()], &[1], &[keep, twice]).unwrap();
        let mut lines = text.lines();
        let head = lines.next().unwrap();
        assert!(
            head.ends_with("without `keep` | without `twice` |"),
            "{text}"
        );
        let rows: Vec<&str> = lines.skip(1).collect();
        assert!(rows.iter().any(|row| row.contains("completion")), "{text}");
        let columns = |row: &&str| row.matches('|').count() == 6;
        assert!(rows.iter().all(columns), "{text}");
    }
}
