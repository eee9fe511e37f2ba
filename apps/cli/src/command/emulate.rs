//! `pathmark emulate`: runs scenarios under a virtual clock.

mod harm;
mod merge;
mod pool;
mod results;
mod table;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow};
use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::{Axis, BUILT_IN, Change};
use pathmark_lab::results::{Chapter, figure};
use pathmark_lab::sweep::{Case, CaseResult, Shard, Sweep, cases};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Failure, Outcome, output};

pub(super) use merge::{Args as MergeArgs, merge};
pub(super) use pool::on_all_cores;
pub(super) use table::{aligned, one as table};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file, or the name of a built-in scenario
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
    /// Use this seed for everything random instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a key: duration=30s, link.bottleneck.rate=100Mbit, flow.*.algorithm=cubic
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Run once for each value: seed=1..100, link.bottleneck.rate=10Mbit,1Gbit; several make all
    /// combinations
    #[arg(long, value_name = "KEY=V1,V2,…")]
    sweep: Vec<Sweep>,
    /// Run only this variant of the scenario; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with_all = ["harm", "results"])]
    variant: Vec<String>,
    /// Run only every Nth run of a sweep, from the Ith (counted from 0); `merge` joins the parts
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
    /// Write results, time series and plots to this directory; a sweep makes a directory per run
    /// and one plot of up to 100 runs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write a log of each end of each flow to this directory (qlog), for `explain` and qvis:
    /// at most 256 MiB each, and of at most 256 ends
    #[arg(long, requires = "out", conflicts_with_all = ["harm", "results"])]
    qlog: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
    /// Run every built-in scenario (or SCENARIO) and write a page and a picture of each into DIR:
    /// more than an hour; with --harm, write harm.md
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "sweep", "shard", "out", "json"])]
    results: Option<PathBuf>,
    /// Use more seeds, in some scenarios as many as the papers did: takes hours
    #[arg(long, requires = "results")]
    paper_scale: bool,
    /// List the built-in scenarios; with --harm, its cells
    #[arg(long, conflicts_with_all = ["set", "sweep", "shard", "out", "json", "results"])]
    list: bool,
    /// Print the scenario's file, with the changes of --set and --seed, and run nothing
    #[arg(
        long,
        requires = "scenario",
        conflicts_with_all = ["sweep", "shard", "out", "json", "results", "harm", "list", "variant"]
    )]
    show: bool,
    #[command(flatten)]
    harm: harm::Args,
}

/// The JSON of several runs.
#[derive(Debug, Serialize)]
struct Runs<'a> {
    runs: &'a [CaseResult],
}

/// Set by Ctrl-C. Runs then end, keeping their measurements so far.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub(super) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

pub(super) fn emulate(args: &Args) -> Outcome {
    if args.harm.harm {
        return harm::harm(args);
    }
    if let Some(option) = args.harm.without_harm() {
        let why = anyhow!("{option} is about the harm grid: add --harm");
        return Err(Failure::Usage(why));
    }
    if let Some(directory) = &args.results {
        if args.seed.is_some() {
            let why = anyhow!(
                "--results takes the scenarios' own seeds: leave --seed out, or add --harm"
            );
            return Err(Failure::Usage(why));
        }
        watch_for_interrupts()?;
        return results::write(directory, args.scenario.as_deref(), args.paper_scale);
    }
    if args.list {
        return list();
    }
    let name = args.scenario.as_ref().ok_or_else(|| {
        let why = "name a SCENARIO: a file, or one that `pathmark emulate --list` shows";
        Failure::Usage(anyhow!(why))
    })?;
    let mut scenario = Scenario::load(name).map_err(Failure::usage)?;
    only_variants(&mut scenario, &args.variant).map_err(Failure::Usage)?;
    let mut changes = args.set.clone();
    changes.extend(args.seed.map(|seed| Change {
        key: "seed".to_owned(),
        value: seed.to_string(),
    }));
    if args.show {
        for change in &changes {
            let changed = scenario.set(&change.key, &change.value);
            changed.map_err(Failure::usage)?;
        }
        output::text(format_args!("{}", scenario.text()))?;
        return Ok(());
    }
    let mut runs = cases(&scenario, &changes, &args.sweep).map_err(Failure::usage)?;
    let origin = origin(&runs);
    for (case, _) in &mut runs {
        case.origin.clone_from(&origin);
    }
    let single = args.sweep.is_empty() && runs.len() == 1;
    if let Some(shard) = args.shard {
        runs.retain(|(case, _)| shard.holds(case));
    }
    if let Some(directory) = &args.out {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))
            .map_err(Failure::usage)?;
    }
    let captures = |scenario: &Scenario| scenario.links.iter().any(|link| link.capture);
    if args.out.is_none() && runs.iter().any(|(_, scenario)| captures(scenario)) {
        output::note!(
            "note: `capture = true` writes packets next to the other results: add --out DIR"
        );
    }
    watch_for_interrupts()?;
    let layout = pool::Layout {
        out: args.out.as_deref(),
        per_run: !single || args.shard.is_some(),
        qlog: args.qlog,
    };
    let wanted = runs.len();
    let (results, curves): (Vec<_>, Vec<_>) = pool::run_all(&runs, layout)?.into_iter().unzip();
    if let (Some(directory), true, None) = (&args.out, layout.per_run, args.shard)
        && results.len() <= pool::MOST_DRAWN
    {
        let done = results.iter().zip(curves);
        let done = done.map(|(run, curves)| (run.case.clone(), run.result.clone(), curves));
        let mut drawn = scenario.clone();
        let sweeps = args.sweep.iter().filter(|sweep| sweep.key != "seed");
        drawn.sweeps.splice(..0, sweeps.map(Axis::from));
        let picture = figure(&Chapter::new(drawn, done.collect()));
        picture.write_svg(&directory.join("plot.svg"))?;
    }
    show(args, &results, single, &scenario)?;
    if interrupted() {
        let whole = results.iter().filter(|run| !run.case.interrupted).count();
        return Err(anyhow!(
            "interrupted: {whole} of {wanted} runs went to their end; the others have figures \
             until then"
        )
        .into());
    }
    Ok(())
}

/// Removes all other variants, if any are given.
pub(super) fn only_variants(scenario: &mut Scenario, wanted: &[String]) -> anyhow::Result<()> {
    let known: Vec<&str> = scenario.variants.iter().map(|v| v.name.as_str()).collect();
    if let Some(name) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        let names = match known.as_slice() {
            [] => "leave --variant out, as it has none".to_owned(),
            names => format!("it has `{}`", names.join("`, `")),
        };
        let id = scenario.id();
        return Err(anyhow!("{id} has no variant `{name}`: {names}"));
    }
    if !wanted.is_empty() {
        scenario
            .variants
            .retain(|variant| wanted.contains(&variant.name));
    }
    Ok(())
}

fn show(args: &Args, results: &[CaseResult], single: bool, scenario: &Scenario) -> Outcome {
    match results {
        [only] if single => {
            if args.json {
                output::json(&only.result)?;
            } else {
                output::text(format_args!("{}", table::one(&only.result)))?;
            }
        }
        _ => {
            if let (Some(directory), None) = (&args.out, args.shard) {
                merge::write(directory, results)?;
            }
            if args.json {
                output::json(&Runs { runs: results })?;
            } else {
                output::text(format_args!("{}", table::many(results)))?;
            }
        }
    }
    let mut keys =
        (args.set.iter().map(|set| &set.key)).chain(args.sweep.iter().map(|axis| &axis.key));
    let is_same = |key: &str| ["duration", "seed"].contains(&key) || key.ends_with(".capture");
    if !keys.all(|key| is_same(key)) {
        if !args.json && !scenario.paper.is_empty() {
            output::note!("note: the experiment was changed: the paper's figures do not apply");
        }
    } else if !args.json {
        if !scenario.paper.is_empty() {
            output::text(format_args!("\n{}", table::paper(results, &scenario.paper)))?;
        }
        if let Some(note) = &scenario.note {
            output::line(format_args!("\n{}", note.trim()))?;
        }
    }
    if let (Some(directory), false) = (&args.out, args.json) {
        output::line(format_args!("in {}", directory.display()))?;
    }
    Ok(())
}

fn list() -> Outcome {
    for known in BUILT_IN {
        let scenario = Scenario::load(known.name)?;
        output::line(format_args!("{:18} {}", known.name, scenario.name))?;
    }
    Ok(())
}

/// Handles Ctrl-C: the first ends the runs, and the second ends the program.
pub(super) fn watch_for_interrupts() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot start the runtime")?;
    std::thread::Builder::new()
        .name("ctrl-c".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if INTERRUPTED.swap(true, Ordering::Relaxed) {
                        std::process::exit(1);
                    }
                }
            });
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// Returns a checksum of all runs in a list and of the program's version. If it is the same for
/// two lists, runs with the same number are equal.
fn origin(runs: &[(Case, Scenario)]) -> String {
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    for (_, scenario) in runs {
        digest.update(scenario.text());
        digest.update([0]);
    }
    let bytes = digest.finalize();
    bytes.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

/// Returns a run's name within its list.
fn label(case: &Case) -> String {
    let pairs = case.set.iter().map(|(key, value)| format!("{key}={value}"));
    let parts: Vec<String> = case.variant.iter().cloned().chain(pairs).collect();
    parts.join(" ")
}
