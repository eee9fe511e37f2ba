//! Runs a grid on all cores, and stores results on disk, with a file for each cell and law, so that
//! a stopped comparison can be resumed.
//!
//! A file is only used if its checksum is valid and it belongs to the same program and
//! scenarios. Otherwise the cell is run again.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use pathmark_emulator::{Progress, Scenario};
use pathmark_lab::compare::{Cell, Contestant, Grid, Measured, measure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::{emulate, output};

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

/// The directory of the files.
const FOLDER: &str = "cells";
/// Maximum size of a file. Valid files have a few kilobytes.
const MOST_BYTES: u64 = 16 << 20;
/// Checksum letters in names and files.
const LETTERS: usize = 32;

/// A directory of results.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    /// The running program's checksum, because another program's laws may differ.
    program: String,
}

/// A file's content.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The cell and the law, as human-readable text.
    job: String,
    /// The checksum of the program that ran it.
    program: String,
    /// The checksum of the scenarios.
    scenarios: String,
    /// The results by seed.
    runs: Vec<Measured>,
    /// The checksum of all of the above.
    #[serde(default)]
    check: String,
}

impl Kept {
    /// Returns the expected checksum.
    fn sum(&self) -> anyhow::Result<String> {
        let all = (&self.job, &self.program, &self.scenarios, &self.runs);
        Ok(sum(&serde_json::to_vec(&all)?))
    }
}

/// The state of a file.
enum Found {
    Nothing,
    Good(Vec<Measured>),
    /// Belongs to another program or scenario.
    Old,
    Damaged,
}

impl Store {
    /// Opens a directory of results, creating it if necessary.
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let folder = directory.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let program = std::env::current_exe().and_then(fs::read);
        let program = program.context("cannot read this program's own file")?;
        Ok(Self {
            folder,
            program: sum(&program),
        })
    }

    /// Loads existing results in the order of the jobs, and summarizes them as text.
    pub(super) fn load(&self, jobs: &[Job]) -> anyhow::Result<(Done, String)> {
        let (mut done, mut old, mut damaged) = (Vec::with_capacity(jobs.len()), 0, 0);
        for job in jobs {
            done.push(match self.find(job)? {
                Found::Good(runs) => Some(runs),
                Found::Nothing => None,
                Found::Old => {
                    old += 1;
                    None
                }
                Found::Damaged => {
                    damaged += 1;
                    None
                }
            });
        }
        let known = done.iter().filter(|runs| runs.is_some()).count();
        let mut summary = String::new();
        for (number, what) in [
            (known, "are there already"),
            (old, "are of another program or grid and are run again"),
            (damaged, "are damaged and are run again"),
        ] {
            if number > 0 {
                summary += &format!("; {number} of {} cells and laws {what}", jobs.len());
            }
        }
        Ok((done, summary))
    }

    /// Stores a job's results.
    pub(super) fn keep(&self, job: &Job, runs: &[Measured]) -> anyhow::Result<()> {
        let mut kept = Kept {
            job: job.name.clone(),
            program: self.program.clone(),
            scenarios: scenarios(job),
            runs: runs.to_vec(),
            check: String::new(),
        };
        kept.check = kept.sum()?;
        let mut text = serde_json::to_vec_pretty(&kept)?;
        text.push(b'\n');
        replace(&self.path(job), &text)
    }

    fn find(&self, job: &Job) -> anyhow::Result<Found> {
        let path = self.path(job);
        let mut text = Vec::new();
        match fs::File::open(&path) {
            Ok(file) => file.take(MOST_BYTES).read_to_end(&mut text),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => Err(error),
        }
        .with_context(|| format!("cannot read {}", path.display()))?;
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else {
            return Ok(Found::Damaged);
        };
        if kept.sum()? != kept.check {
            return Ok(Found::Damaged);
        }
        let same = kept.program == self.program && kept.scenarios == scenarios(job);
        Ok(if same {
            Found::Good(kept.runs)
        } else {
            Found::Old
        })
    }

    /// Returns the file of a job, whose name is the job's name without special characters and a
    /// checksum.
    fn path(&self, job: &Job) -> PathBuf {
        let fine = |c: char| c.is_ascii_alphanumeric() || "+-.@".contains(c);
        let name = job.name.chars().map(|c| if fine(c) { c } else { '_' });
        let name: String = name.take(120).collect();
        let check = sum(job.name.as_bytes());
        let short = check.get(..8).unwrap_or_default();
        self.folder.join(format!("{name}-{short}.json"))
    }
}

/// Returns the checksum of a job's scenarios.
fn scenarios(job: &Job) -> String {
    let texts: Vec<String> = (1..=job.seeds).map(|seed| job.scenario(seed)).collect();
    sum(texts.concat().as_bytes())
}

fn sum(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let letters = digest.iter().map(|byte| format!("{byte:02x}"));
    letters.collect::<String>().chars().take(LETTERS).collect()
}

/// Writes a file atomically, so that readers see either the old or the new content.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let Some(folder) = path.parent() else {
        bail!("{} is no place for a file", path.display());
    };
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A cell and a law to run with each seed.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The names of the cell and the law.
    pub(super) name: String,
    pub(super) cell: Cell,
    law: Contestant,
    pub(super) seeds: u32,
    /// Approximate number of packets that enter links in all runs.
    pub(super) packets: f64,
}

impl Job {
    pub(super) fn scenario(&self, seed: u32) -> String {
        self.cell.scenario(&self.law, u64::from(seed))
    }
}

/// Returns the name of the job for a law in a cell.
pub(super) fn job_name(grid: &Grid, cell: &Cell, law: usize) -> Option<String> {
    let law = grid.laws.get(law)?;
    Some(format!("{} {law}", cell.as_run_by(law)))
}

/// Returns a job for every law in every cell, without duplicate scenarios.
pub(super) fn jobs(grid: &Grid) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut known = BTreeSet::new();
    for cell in grid.cells() {
        for law in &grid.laws {
            let cell = cell.as_run_by(law);
            let name = format!("{cell} {law}");
            if known.insert(name.clone()) {
                jobs.push(Job {
                    name,
                    packets: cell.packets() * f64::from(grid.seeds),
                    cell,
                    law: law.clone(),
                    seeds: grid.seeds,
                });
            }
        }
    }
    jobs
}

/// Results by job, with `None` for jobs that aren't complete.
pub(super) type Done = Vec<Option<Vec<Measured>>>;
