//! Runs on all cores.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use pathmark_emulator::result::RunResult;
use pathmark_emulator::sweep::{Case, CaseResult};
use pathmark_emulator::{Outputs, Progress, Scenario};

use super::super::{output, session};

/// Parts of a run that bars count.
const STEPS: u64 = 1000;

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    /// The directory, if they go anywhere.
    pub(super) out: Option<&'a Path>,
    /// A directory in it for each run.
    pub(super) per_run: bool,
}

impl Layout<'_> {
    fn directory(self, case: &Case) -> Option<PathBuf> {
        let out = self.out?;
        Some(if self.per_run {
            out.join(format!("run-{:04}", case.index))
        } else {
            out.to_owned()
        })
    }
}

/// Runs everything and returns the results in the order of the list; runs that an interrupt kept from starting are
/// left out.
pub(super) fn run_all(
    runs: &[(Case, Scenario)],
    layout: Layout<'_>,
) -> anyhow::Result<Vec<CaseResult>> {
    let bar = bar(runs.len() as u64);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(runs.len()));
    let work = || {
        while let Some((case, scenario)) = runs.get(next.fetch_add(1, Ordering::Relaxed))
            && !super::interrupted()
        {
            let outcome = run(case, scenario, layout, &bar)
                .with_context(|| format!("{} {}", case.scenario, super::label(case)));
            let failed = outcome.is_err();
            if let Ok(mut done) = done.lock() {
                done.push((case.index, outcome));
            }
            if failed {
                // What is wrong with one run is mostly wrong with all.
                next.store(runs.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(runs.len()) {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    let mut done = done
        .into_inner()
        .map_err(|_| anyhow!("a run ended in a panic"))?;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn run(
    case: &Case,
    scenario: &Scenario,
    layout: Layout<'_>,
    bar: &ProgressBar,
) -> anyhow::Result<CaseResult> {
    let begun = session::now();
    let mut shown = 0;
    let mut broken = false;
    let progress = |progress: &Progress| {
        let part = share(progress);
        bar.inc(part.saturating_sub(shown));
        shown = shown.max(part);
        if super::interrupted() {
            broken = true;
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let timed = |mut result: RunResult| {
        result.wall_s = begun.elapsed().as_secs_f64();
        result
    };
    let directory = layout.directory(case);
    let result = match &directory {
        None => timed(scenario.run(progress)?),
        Some(directory) => {
            let mut outputs = Outputs::create(directory, progress)?;
            let result = timed(scenario.run_with(&mut outputs)?);
            outputs.finish(&result)?;
            result
        }
    };
    bar.inc(STEPS.saturating_sub(shown));
    let case = Case {
        interrupted: broken,
        ..case.clone()
    };
    if let (Some(directory), true) = (&directory, layout.per_run) {
        super::merge::write_case(directory, &case)?;
    }
    Ok(CaseResult { case, result })
}

fn share(progress: &Progress) -> u64 {
    let all = progress.duration.as_nanos().max(1);
    let part = progress.simulated.as_nanos() * u128::from(STEPS) / all;
    u64::try_from(part).unwrap_or(STEPS).min(STEPS)
}

fn bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix} {wide_bar:.cyan/blue} {percent:>3} %  {elapsed} of {duration}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = output::bars().add(ProgressBar::new(runs * STEPS).with_style(style));
    bar.set_prefix(match runs {
        1 => "simulated time".to_owned(),
        _ => format!("{runs} runs"),
    });
    bar
}
