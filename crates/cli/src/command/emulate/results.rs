//! `pathmark emulate --results DIR`: every built-in scenario run, and a page with tables and
//! pictures made of it.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::{BUILT_IN, Shown};
use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::results::{Chapter, figure, page};
use pathmark_lab::series::{Recorder, Series};
use pathmark_lab::sweep::{Sweep, cases};

use super::super::{Failure, Outcome, output};
use super::chapter::{self, COMPARISON};
use super::harm::page::HEADING as HARM;
use super::pool::{self, Watch};

/// Runs all built-in scenarios, or this one, and writes `results.md` and pictures under `results/`.
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
    let pictures = directory.join("results");
    fs::create_dir_all(&pictures)
        .with_context(|| format!("cannot make {}", pictures.display()))
        .map_err(Failure::usage)?;
    let (mut chapters, mut figures) = (Vec::new(), Vec::new());
    for known in BUILT_IN {
        if only.is_some_and(|name| name != known.name) {
            continue;
        }
        let mut chapter = run(&Scenario::load(known.name)?, paper_scale)?;
        if super::interrupted() {
            return Err(anyhow!("interrupted: nothing was written").into());
        }
        let figure = figure(&chapter);
        chapter.picture = !figure.panels.is_empty();
        if chapter.picture {
            figures.push((pictures.join(format!("{}.svg", known.name)), figure));
        }
        output::note!("{}: {} runs", known.name, chapter.runs());
        chapters.push(chapter);
    }
    for (path, figure) in &figures {
        figure.write_svg(path)?;
    }
    let text = page(&chapters, paper_scale);
    match only {
        // A page with one chapter would take the place of the whole.
        Some(_) => output::text(format_args!("{text}"))?,
        None => {
            let path = directory.join("results.md");
            // These have commands of their own; what they found stays.
            let before = fs::read_to_string(&path).unwrap_or_default();
            let mut text = text;
            for heading in [HARM, COMPARISON] {
                if let Some(chapter) = chapter::find(&before, heading) {
                    text = chapter::spliced(&text, heading, chapter);
                }
            }
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            output::line(format_args!("{}", path.display()))?;
        }
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
    Ok(Chapter::new(scenario.clone(), seeds, done))
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
