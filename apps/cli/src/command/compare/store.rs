//! Stores results on disk, with a file for each cell and law, so that a stopped comparison can
//! be resumed.
//!
//! A file is only used if its checksum is valid and it belongs to the same program and
//! scenarios. Otherwise the cell is run again.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pathmark_lab::compare::Measured;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::job::{Done, Job};

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
