//! `pathmark merge`: joins the runs of a sweep into one table.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use pathmark_emulator::result::RunResult;
use pathmark_lab::metric::Summary;
use pathmark_lab::sweep::{Case, CaseResult};
use serde::de::DeserializeOwned;

use super::super::{Failure, Outcome, output};
use super::table;
use super::{Runs, label};

/// The file that identifies a directory's run. Since it is written last, a directory without it
/// has an incomplete run.
const CASE: &str = "case.json";
const RESULT: &str = "result.json";

/// Arguments.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Args {
    /// Directories that `emulate --sweep … --out DIR` wrote
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Where runs.json and runs.csv go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::command) json: bool,
}

pub(in super::super) fn merge(args: &Args) -> Outcome {
    let mut runs = BTreeMap::new();
    for directory in &args.directories {
        for run in read(directory).map_err(Failure::Usage)? {
            add(&mut runs, run).map_err(Failure::Usage)?;
        }
    }
    let runs: Vec<CaseResult> = runs.into_values().collect();
    let Some(of) = runs.first().map(|run| run.case.of) else {
        return Err(Failure::Usage(anyhow!(
            "no runs in there: merge takes what `pathmark emulate --sweep … --out DIR` wrote"
        )));
    };
    if let Some(directory) = &args.out {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))
            .map_err(Failure::usage)?;
        write(directory, &runs)?;
    }
    if args.json {
        output::json(&Runs { runs: &runs })?;
    } else {
        output::text(format_args!("{}", table::many(&runs)))?;
    }
    let whole = runs.iter().filter(|run| !run.case.interrupted).count();
    if whole < of {
        let missing: Vec<String> = (0..of)
            .filter(|index| {
                !runs
                    .iter()
                    .any(|r| r.case.index == *index && !r.case.interrupted)
            })
            .take(10)
            .map(|index| index.to_string())
            .collect();
        return Err(anyhow!(
            "{whole} of {of} runs are complete; run their shards again: missing {}{}",
            missing.join(", "),
            if of - whole > missing.len() {
                ", …"
            } else {
                ""
            }
        )
        .into());
    }
    Ok(())
}

/// Reads the runs in a directory's subdirectories, or the run in the directory itself.
fn read(directory: &Path) -> anyhow::Result<Vec<CaseResult>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .map(|entry| entry.map(|e| e.path()))
        .chain([Ok(directory.to_owned())]);
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", directory.display()))?;
        if let Some(case) = load::<Case>(&entry.join(CASE))? {
            let path = entry.join(RESULT);
            let result = load::<RunResult>(&path)?
                .with_context(|| format!("{} is missing", path.display()))?;
            found.push(CaseResult { case, result });
        }
    }
    Ok(found)
}

fn load<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let value = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no result of pathmark", path.display()))?;
    Ok(Some(value))
}

/// Adds a run. Repeated runs count once, preferring a complete one. Runs of different sweeps are
/// rejected.
fn add(runs: &mut BTreeMap<usize, CaseResult>, run: CaseResult) -> anyhow::Result<()> {
    if let Some(other) = runs.values().next()
        && (&other.case.scenario, other.case.of, keys(&other.case))
            != (&run.case.scenario, run.case.of, keys(&run.case))
    {
        bail!(
            "these are runs of different sweeps: `{}` of {} runs and `{}` of {}",
            other.case.scenario,
            other.case.of,
            run.case.scenario,
            run.case.of
        );
    }
    if let Some(other) = runs.values().next()
        && other.case.origin != run.case.origin
    {
        bail!(
            "these are runs of different experiments: run {} and run {} of `{}` have other \
             scenarios, other --set, or are of another version of this program",
            other.case.index,
            run.case.index,
            run.case.scenario
        );
    }
    if run.case.index >= run.case.of {
        bail!(
            "run {} of `{}` is none of the {} that its sweep has: its {CASE} was changed",
            run.case.index,
            run.case.scenario,
            run.case.of
        );
    }
    let index = run.case.index;
    match runs.get(&index) {
        Some(known) if label(&known.case) != label(&run.case) => bail!(
            "these are runs of different sweeps: run {index} is {} and {}",
            label(&known.case),
            label(&run.case)
        ),
        Some(known) if run.case.interrupted && !known.case.interrupted => {}
        _ => {
            runs.insert(index, run);
        }
    }
    Ok(())
}

fn keys(case: &Case) -> Vec<&String> {
    case.set.keys().collect()
}

/// Records which run `directory` has.
pub(super) fn write_case(directory: &Path, case: &Case) -> anyhow::Result<()> {
    save(&directory.join(CASE), &serde_json::to_vec_pretty(case)?)
}

pub(super) fn write(directory: &Path, runs: &[CaseResult]) -> anyhow::Result<()> {
    save(
        &directory.join("runs.json"),
        &serde_json::to_vec_pretty(&Runs { runs })?,
    )?;
    save(&directory.join("runs.csv"), csv(runs).as_bytes())
}

fn save(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Columns after the swept keys.
const FIGURES: &str = "flows,completed,completion_mean_s,goodput_bps,jain,packets_lost,\
    link,utilization,time_to_80_s,queue_mean,queue_max,drops,\
    completion_p50_s,completion_p95_s,completion_p99_s";

fn csv(runs: &[CaseResult]) -> String {
    let keys: Vec<&String> = runs.first().map_or_else(Vec::new, |run| keys(&run.case));
    let mut header = vec!["run".to_owned(), "variant".to_owned()];
    header.extend(keys.iter().map(|key| quoted(key)));
    header.push(FIGURES.to_owned());
    let mut lines = vec![header.join(",")];
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for run in runs {
        let summary = Summary::new(&run.result);
        let link = summary.link.as_ref();
        let variant = run.case.variant.as_deref().unwrap_or("");
        let mut cells = vec![run.case.index.to_string(), quoted(variant)];
        cells.extend(
            keys.iter()
                .map(|key| quoted(run.case.set.get(*key).map_or("", String::as_str))),
        );
        cells.extend([
            summary.flows.to_string(),
            summary.completed.to_string(),
            number(summary.completion_s),
            summary.goodput_bps.to_string(),
            summary.jain.to_string(),
            summary.packets_lost.to_string(),
            link.map_or_else(String::new, |l| quoted(&l.name)),
            number(link.and_then(|l| l.utilization)),
            number(link.and_then(|l| l.time_to_80_s)),
            number(link.map(|l| l.queue_packets.mean)),
            number(link.map(|l| l.queue_packets.max)),
            link.map_or_else(String::new, |l| l.drops.to_string()),
        ]);
        cells.extend([50, 95, 99].map(|percent| number(summary.percentile(percent))));
        lines.push(cells.join(","));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Quotes a cell according to RFC 4180.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
