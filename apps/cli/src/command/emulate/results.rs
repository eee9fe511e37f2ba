//! `pathmark emulate --results DIR`: runs every built-in scenario, and writes a page with tables
//! and a picture for each.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::{BUILT_IN, Shown};
use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::results::{Chapter, figure, index, page};
use pathmark_lab::series::{Recorder, Series};
use pathmark_lab::sweep::{Sweep, cases};

use super::super::{Failure, Outcome, output};
use super::pool::{self, Watch};

/// Runs all built-in scenarios or only this one, and writes their pages, pictures and list.
pub(super) fn write(directory: &Path, only: Option<&str>, paper_scale: bool) -> Outcome {
    if let Some(name) = only
        && !BUILT_IN.iter().any(|known| known.name == name)
    {
        let names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
        let why = anyhow!(
            "--results knows the built-in scenarios, and `{name}` is none of them: {}. For a \
             scenario of your own use --out DIR",
            names.join(", ")
        );
        return Err(Failure::Usage(why));
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
        .map_err(Failure::usage)?;
    let scenarios = BUILT_IN.iter().map(|known| Scenario::load(known.name));
    let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
    output::page(&directory.join("index.md"), &index(&scenarios, paper_scale))?;
    let asked = |scenario: &&Scenario| only.is_none_or(|name| name == scenario.id());
    let wanted: Vec<&Scenario> = scenarios.iter().filter(asked).collect();
    for (place, scenario) in wanted.iter().enumerate() {
        let id = scenario.id();
        let mut chapter = run(scenario, paper_scale)?;
        if super::interrupted() {
            return Err(anyhow!("interrupted: {id} and what follows it is not written").into());
        }
        let figure = figure(&chapter);
        chapter.picture = !figure.panels.is_empty();
        if chapter.picture {
            figure.write_svg(&directory.join(format!("{id}.svg")))?;
        }
        let of = wanted.len();
        output::note!("{} of {of}: {id}, {} runs", place + 1, chapter.runs());
        output::page(
            &directory.join(format!("{id}.md")),
            &page(&chapter, paper_scale),
        )?;
    }
    Ok(())
}

fn run(scenario: &Scenario, paper_scale: bool) -> Result<Chapter, Failure> {
    let repeat = scenario.repeat;
    let seeds = if paper_scale {
        repeat.paper
    } else {
        repeat.seeds
    };
    let sweeps: Vec<Sweep> = (seeds > 1)
        .then(|| format!("seed=1..{seeds}").parse())
        .transpose()?
        .into_iter()
        .collect();
    let runs = cases(scenario, &[], &sweeps)?;
    let over_time = scenario.sweeps.is_empty() && scenario.plots.is_empty()
        || scenario
            .plots
            .iter()
            .any(|plot| matches!(plot.show, Shown::Quantity(_)));
    let done = pool::each(&runs, |case, scenario, watch| {
        let first = case.set.get("seed").is_none_or(|seed| seed == "1");
        one(scenario, over_time && first, watch)
            .map(|(result, series)| (case.clone(), result, series))
    })?;
    Ok(Chapter::new(scenario.clone(), done))
}

fn one(
    scenario: &Scenario,
    over_time: bool,
    watch: &mut Watch<'_>,
) -> anyhow::Result<(RunResult, Series)> {
    let progress = |now: &Progress| watch.progress(now);
    if over_time {
        let mut recorder = Recorder::new(progress);
        let result = scenario.run_with(&mut recorder)?;
        Ok((result, recorder.series))
    } else {
        Ok((scenario.run(progress)?, Series::default()))
    }
}
