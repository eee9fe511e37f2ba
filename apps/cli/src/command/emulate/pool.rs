//! Runs scenarios on all cores.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::outputs::PlottedOutputs;
use pathmark_lab::series::Series;
use pathmark_lab::sweep::{Case, CaseResult};
use pathmark_qlog::{Directory, Limits};

use super::super::{output, session};

/// Steps of a run in progress bars.
const STEPS: u64 = 1000;
/// Runs that one picture can show.
pub(super) const MOST_DRAWN: usize = 100;

/// Where results are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    /// The directory, if results are written.
    pub(super) out: Option<&'a Path>,
    /// Whether each run gets a subdirectory.
    pub(super) per_run: bool,
    /// Whether connections have logs there.
    pub(super) qlog: bool,
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

/// Runs everything and returns the results in the order of the list, omitting runs that an
/// interrupt prevented from starting.
pub(super) fn run_all(
    runs: &[(Case, Scenario)],
    layout: Layout<'_>,
) -> anyhow::Result<Vec<(CaseResult, Series)>> {
    each(runs, |case, scenario, watch| {
        run(case, scenario, layout, watch)
    })
}

/// Does `work` for every run on all cores, and returns its results in the order of the list,
/// omitting runs that an interrupt prevented from starting.
pub(super) fn each<T: Send>(
    runs: &[(Case, Scenario)],
    work: impl Fn(&Case, &Scenario, &mut Watch<'_>) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let name = |(case, _): &(Case, Scenario)| format!("{} {}", case.scenario, super::label(case));
    each_watched(runs, name, |(case, scenario), watch| {
        work(case, scenario, watch)
    })
}

/// Does the same for any kind of runs, whose names are part of errors.
pub(super) fn each_watched<R: Sync, T: Send>(
    runs: &[R],
    name: impl Fn(&R) -> String + Sync,
    work: impl Fn(&R, &mut Watch<'_>) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let bar = bar(runs.len() as u64);
    let done = on_all_cores(runs, |run| {
        let mut watch = Watch::new(&bar);
        let outcome = work(run, &mut watch).with_context(|| name(run));
        watch.end();
        outcome
    });
    bar.finish_and_clear();
    done
}

/// Does the same without a bar.
pub(in super::super) fn on_all_cores<R: Sync, T: Send>(
    runs: &[R],
    work: impl Fn(&R) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(runs.len()));
    let turn = || {
        let take = || next.fetch_add(1, Ordering::Relaxed);
        while let index = take()
            && let Some(run) = runs.get(index)
            && !super::interrupted()
        {
            let outcome = work(run);
            if outcome.is_err() {
                // An error of one run usually affects all runs.
                next.store(runs.len(), Ordering::Relaxed);
            }
            if let Ok(mut done) = done.lock() {
                done.push((index, outcome));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(runs.len()) {
            scope.spawn(turn);
        }
        turn();
    });
    let mut done = done
        .into_inner()
        .map_err(|_| anyhow!("a run ended in a panic"))?;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Advances the bar during a run, ends the run when the user interrupts, and measures its time.
pub(super) struct Watch<'a> {
    bar: &'a ProgressBar,
    begun: std::time::Instant,
    shown: u64,
    /// Whether the run was ended early.
    pub(super) broken: bool,
}

impl<'a> Watch<'a> {
    fn new(bar: &'a ProgressBar) -> Self {
        Self {
            bar,
            begun: session::now(),
            shown: 0,
            broken: false,
        }
    }

    /// Handles the progress of [`Scenario::run`].
    pub(super) fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        let part = share(progress);
        self.bar.inc(part.saturating_sub(self.shown));
        self.shown = self.shown.max(part);
        if super::interrupted() {
            self.broken = true;
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn end(&self) {
        self.bar.inc(STEPS.saturating_sub(self.shown));
    }
}

/// Adds the elapsed time to a result.
fn timed(begun: std::time::Instant, mut result: RunResult) -> RunResult {
    result.wall_s = begun.elapsed().as_secs_f64();
    result
}

fn run(
    case: &Case,
    scenario: &Scenario,
    layout: Layout<'_>,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(CaseResult, Series)> {
    let directory = layout.directory(case);
    let name = super::label(case);
    let (result, series) = match directory.as_deref() {
        Some(directory) if layout.qlog => logged(scenario, directory, &name, watch)?,
        directory => one(scenario, directory, &name, u64::MAX, watch)?,
    };
    // Curves of many runs would fill the memory, and no picture could show them.
    let series = if case.of > MOST_DRAWN {
        Series::default()
    } else {
        series
    };
    let case = Case {
        interrupted: watch.broken,
        ..case.clone()
    };
    if let (Some(directory), true) = (&directory, layout.per_run) {
        super::merge::write_case(directory, &case)?;
    }
    Ok((CaseResult { case, result }, series))
}

/// Runs one scenario until `most` packets have entered links. With a directory, all files of the
/// run are written there; its plot's title has this name.
pub(super) fn one(
    scenario: &Scenario,
    directory: Option<&Path>,
    name: &str,
    most: u64,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(RunResult, Series)> {
    let begun = watch.begun;
    let mut progress = |now: &Progress| match watch.progress(now) {
        ControlFlow::Continue(()) if now.packets >= most => ControlFlow::Break(()),
        flow => flow,
    };
    let Some(directory) = directory else {
        return Ok((timed(begun, scenario.run(progress)?), Series::default()));
    };
    let mut outputs = PlottedOutputs::create(directory, &mut progress)?;
    let result = timed(begun, scenario.run_with(&mut outputs)?);
    let series = outputs.finish(&result, name)?;
    Ok((result, series))
}

/// Runs one scenario like [`one`], with a log of each end of its connections.
fn logged(
    scenario: &Scenario,
    directory: &Path,
    name: &str,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(RunResult, Series)> {
    let begun = watch.begun;
    // Files aren't open in between, so that any number of flows can have logs.
    let limits = Limits {
        connections: usize::MAX,
        ..Limits::default()
    };
    let logs = Directory::with_limits(directory, limits)?;
    let factory = logs.clone();
    let outputs = PlottedOutputs::create(directory, |now: &Progress| watch.progress(now))?;
    let mut outputs = outputs.with_trace(move |flow| factory.factory_of(flow));
    let result = timed(begun, scenario.run_with(&mut outputs)?);
    let series = outputs.finish(&result, name)?;
    logs.flush();
    let missing = logs.missing();
    if missing > 0 {
        output::note!("note: {missing} events are missing, because a log would be too long");
    }
    match logs.error() {
        Some(error) => Err(anyhow!("{error}")),
        None => Ok((result, series)),
    }
}

fn share(progress: &Progress) -> u64 {
    let all = progress.duration.as_nanos().max(1);
    let part = progress.simulated.as_nanos() * u128::from(STEPS) / all;
    u64::try_from(part).unwrap_or(STEPS).min(STEPS)
}

fn bar(runs: u64) -> ProgressBar {
    let template = "{prefix} {wide_bar:.cyan/blue} {percent:>3} %  {elapsed} of {duration}";
    let what = match runs {
        1 => "simulated time".to_owned(),
        _ => format!("{runs} runs"),
    };
    let bar = ProgressBar::new(runs * STEPS);
    output::styled(&output::bars(false), bar, template, &what)
}
