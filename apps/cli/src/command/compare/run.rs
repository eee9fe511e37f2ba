//! Runs a grid on all cores.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use indicatif::ProgressBar;
use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::compare::{Measured, measure};

use super::super::{emulate, output};
use super::job::{Done, Job};
use super::store::Store;

/// A run ends when this multiple of its estimated packets has entered links. By then, a law that
/// floods the path has shown its effect.
const FLOOD: f64 = 20.0;
const LEAST_FLOOD: u64 = 2_000_000;

/// Runs all jobs that aren't known yet, and stores each result immediately. The longest jobs are
/// first, so that all cores finish together.
pub(super) fn run_all(jobs: &[Job], known: Done, store: Option<&Store>) -> anyhow::Result<Done> {
    let mut left: Vec<(usize, &Job)> = jobs
        .iter()
        .enumerate()
        .filter(|(index, _)| known.get(*index).is_none_or(Option::is_none))
        .collect();
    left.sort_by(|(_, a), (_, b)| b.packets.total_cmp(&a.packets));
    let bar = bar(&left);
    let done = emulate::on_all_cores(&left, |(index, job)| Ok((*index, run(job, &bar, store)?)));
    bar.finish_and_clear();
    let mut all = known;
    for (index, result) in done? {
        if let Some(place) = all.get_mut(index) {
            *place = result;
        }
    }
    Ok(all)
}

/// Runs a job for each seed. Returns `None` if it was interrupted.
fn run(
    job: &Job,
    bar: &ProgressBar,
    store: Option<&Store>,
) -> anyhow::Result<Option<Vec<Measured>>> {
    let each = job.packets / f64::from(job.seeds.max(1));
    let most = LEAST_FLOOD.max((each * FLOOD) as u64);
    let mut results = Vec::new();
    for seed in 1..=job.seeds {
        let text = job.scenario(seed);
        let scenario = Scenario::parse(Path::new(&job.name), &text)?;
        let shown = AtomicU64::new(0);
        let mut broken = false;
        let progress = |now: &Progress| {
            let part = now.packets.min(each as u64);
            bar.inc(part.saturating_sub(shown.swap(part, Ordering::Relaxed)));
            broken = emulate::interrupted();
            if broken || now.packets >= most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let result = scenario
            .run(progress)
            .with_context(|| format!("{}, seed {seed}", job.name))?;
        if broken {
            return Ok(None);
        }
        bar.inc((each as u64).saturating_sub(shown.load(Ordering::Relaxed)));
        results.push(measure(&job.cell, &result));
    }
    if let Some(store) = store {
        store.keep(job, &results)?;
    }
    Ok(Some(results))
}

fn bar(left: &[(usize, &Job)]) -> ProgressBar {
    let template = "{prefix} {wide_bar:.cyan/blue} {percent:>3} %  {elapsed}, {eta} to go";
    let packets: f64 = left.iter().map(|(_, job)| job.packets).sum();
    let (bars, bar) = (output::bars(false), ProgressBar::new(packets as u64));
    output::styled(&bars, bar, template, &format!("{} jobs", left.len()))
}
