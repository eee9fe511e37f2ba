//! `pathmark demo`: shows how it works.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::future::join_all;
use indicatif::ProgressBar;
use pathmark_cc::Algorithm;
use serde::Serialize;

use super::{Failure, Outcome, output, values};
use crate::demo::bed::RouterProgram;
use crate::demo::run::{Measured, Mode, Run};
use crate::demo::scenario::{Scenario, Stack};
use crate::demo::{kernel, picture, report, rounds};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of 1 MB instead of 5 MB: under half a minute
    #[arg(long)]
    quick: bool,
    /// Without namespaces and TUN interfaces: routers inside this process under the emulator's
    /// virtual clock, this library's stacks only
    #[arg(long)]
    in_process: bool,
    /// Only this path
    #[arg(long, value_name = "NAME", value_parser = ["clean", "wireless"])]
    scenario: Option<String>,
    /// Congestion controller to show
    #[arg(
        long,
        value_name = "NAME",
        value_parser = values::algorithm,
        default_value = Algorithm::DEFAULT
    )]
    cc: Algorithm,
    /// Write demo.svg, demo.png and result.json there; without it nothing is written
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run all stacks N times, one round after the other, and print medians and ranges
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    rounds: u32,
    /// Write one picture with the time to the last file and the queue; the ending is .svg or .png
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

/// Time limit for each stack.
const LIMIT: Duration = Duration::from_secs(110);
const QUICK_LIMIT: Duration = Duration::from_secs(25);

/// The JSON output.
#[derive(Debug, Serialize)]
struct Figures<'a> {
    runs: Vec<RunFigures<'a>>,
    /// A summary of the runs in one sentence.
    verdict: Option<String>,
    /// The reason why the command failed, if it did.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct RunFigures<'a> {
    stack: &'a str,
    mode: &'a str,
    #[serde(flatten)]
    result: &'a pathmark_emulator::result::RunResult,
}

pub(super) async fn demo(args: Args) -> Outcome {
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make {}", out.display()))
            .map_err(Failure::usage)?;
    }
    if let Some(figure) = &args.figure {
        picture::check(figure).map_err(Failure::usage)?;
    }
    let mode = mode(args.in_process)?;
    let bytes = if args.quick { 1_000_000 } else { 5_000_000 };
    let limit = if args.quick { QUICK_LIMIT } else { LIMIT };
    let scenarios: Vec<Scenario> = Scenario::all(bytes)
        .into_iter()
        .filter(|scenario| {
            args.scenario
                .as_deref()
                .is_none_or(|name| name == scenario.name)
        })
        .collect();
    let mut stacks = vec![Stack::Pathmark(args.cc.clone())];
    if args.cc.name() != "cubic" {
        stacks.push(Stack::Pathmark(Algorithm::parse("cubic")?));
    }
    if matches!(mode, Mode::Tun(_)) {
        let known = kernel::available();
        let kernels = ["cubic", "bbr"].into_iter();
        stacks.extend(
            kernels
                .filter(|name| known.iter().any(|k| k == name))
                .map(Stack::Kernel),
        );
    }
    output::note!(
        "five files of {} MB at once over 10 Mbit/s and 400 ms round trip; `wireless` loses 0.3 % \
         of the packets at random; all stacks run side by side, {} s at most",
        bytes / 1_000_000,
        limit.as_secs()
    );
    let mut measured = Vec::new();
    for round in 1..=args.rounds {
        let runs = scenarios.iter().flat_map(|scenario| {
            let new = |stack: &Stack| Run {
                round,
                ..Run::new(scenario.clone(), stack.clone())
            };
            stacks.iter().map(new)
        });
        let runs: Vec<Run> = runs.collect();
        let measuring = join_all(runs.iter().map(|run| run.measure(&mode, limit)));
        let of_round = tokio::select! {
            measured = measuring => measured,
            () = show(&runs) => Vec::new(),
        };
        for run in of_round {
            measured.push(run?);
        }
    }
    let [path, _] = Scenario::all(bytes);
    say(&args, &path, &measured)
}

/// Returns the mode with namespaces and TUN interfaces, if the machine allows them. Otherwise
/// prints a note and returns the emulator's mode.
fn mode(in_process: bool) -> Result<Mode, Failure> {
    if in_process {
        return Ok(Mode::InProcess);
    }
    let probe = pathmark_testbed::Testbed::new()
        .and_then(|bed| bed.node("probe"))
        .and_then(|node| node.tun("tun0", 1500));
    match probe {
        Ok(_) => Ok(Mode::Tun(RouterProgram {
            program: std::env::current_exe().context("cannot find this program")?,
            prefix: vec![super::ROUTER.to_owned()],
        })),
        Err(error) if error.is_forbidden() => {
            output::note!(
                "{error}; emulating this library alone, under a virtual clock. For real hosts next \
                 to the kernel's TCP, allow user namespaces and /dev/net/tun"
            );
            Ok(Mode::InProcess)
        }
        Err(error) => Err(Failure::from(error)),
    }
}

/// Shows a bar per run until the runs have ended.
async fn show(runs: &[Run]) {
    let bars = output::bars(false);
    let template = "{prefix:34!} {wide_bar:.cyan/blue} {msg:>22}";
    let drawn: Vec<ProgressBar> = runs
        .iter()
        .map(|run| {
            let total = run.meters.iter().map(|meter| meter.wanted()).sum();
            let name = format!("{} {}", run.scenario.name, run.stack.name());
            output::styled(&bars, ProgressBar::new(total), template, &name)
        })
        .collect();
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        ticks.tick().await;
        for (run, bar) in runs.iter().zip(&drawn) {
            bar.set_position(run.meters.iter().map(|meter| meter.delivered()).sum());
            let done = run
                .meters
                .iter()
                .filter(|m| m.completion().is_some())
                .count();
            let last = run.meters.iter().filter_map(|m| m.completion()).max();
            bar.set_message(match last {
                Some(last) if done == run.meters.len() => {
                    format!("done in {:.1} s", last.as_secs_f64())
                }
                _ => format!("{done} of {} files", run.meters.len()),
            });
        }
    }
}

impl Figures<'_> {
    fn write(&self, out: &Path) -> anyhow::Result<()> {
        let json = out.join("result.json");
        std::fs::write(&json, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", json.display()))
    }
}

fn say(args: &Args, path: &Scenario, measured: &[Measured]) -> Outcome {
    let mut flows = measured.iter().flat_map(|run| &run.result.flows);
    let error = (!flows.any(|flow| flow.completed)).then(|| "no file arrived".to_owned());
    let runs = measured.iter().map(|run| RunFigures {
        stack: &run.stack,
        mode: run.mode,
        result: &run.result,
    });
    let figures = Figures {
        runs: runs.collect(),
        verdict: rounds::verdict(measured),
        error: error.clone(),
    };
    if let Some(file) = &args.figure {
        picture::write(measured, path, args.rounds, file)?;
    }
    if let Some(out) = &args.out {
        let first = measured.iter().filter(|run| run.result.seed == 1);
        let picture = report::figure(&first.cloned().collect::<Vec<_>>());
        picture.write_svg(&out.join("demo.svg"))?;
        picture.write_png(&out.join("demo.png"))?;
        figures.write(out)?;
    }
    if args.json {
        output::json(&figures)?;
    } else {
        output::text(format_args!("{}", report::table(measured)))?;
        if args.rounds > 1 {
            output::text(format_args!("\n{}", rounds::table(measured)))?;
        }
        if let Some(verdict) = &figures.verdict {
            output::line(format_args!("\n{verdict}"))?;
        }
        match &args.out {
            Some(out) => {
                output::line(format_args!("picture: {}", out.join("demo.png").display()))?;
            }
            None => output::note!("--out DIR writes a picture and the figures"),
        }
    }
    error.map_or(Ok(()), |error| Err(anyhow!(error).into()))
}
