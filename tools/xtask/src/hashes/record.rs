//! The file of recorded hashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::job::{Job, Outcome};

/// Hashes and numbers of packets by job.
#[derive(Debug, Default)]
pub(super) struct Record(BTreeMap<String, Outcome>);

impl Record {
    /// Reads the file. The record is empty if the file doesn't exist.
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let lines = text.lines().enumerate().map(|(at, line)| {
            parse(line)
                .with_context(|| format!("{}:{}: not HASH PACKETS NAME", path.display(), at + 1))
        });
        let mut record = Self::default();
        for line in lines {
            let (name, outcome) = line?;
            if record.0.insert(name.clone(), outcome).is_some() {
                bail!("{}: `{name}` stands there twice", path.display());
            }
        }
        Ok(record)
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let lines = self.0.iter().map(|(name, outcome)| {
            let Outcome { hash, packets } = outcome;
            format!("{hash} {packets} {name}\n")
        });
        fs::write(path, lines.collect::<String>()).with_context(|| format!("{}", path.display()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn hash(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|outcome| outcome.hash.as_str())
    }

    /// Returns a job's number of packets, or the maximum for an unrecorded job.
    pub(super) fn packets(&self, name: &str) -> u64 {
        self.0.get(name).map_or(u64::MAX, |outcome| outcome.packets)
    }

    pub(super) fn set(&mut self, name: &str, outcome: Outcome) {
        self.0.insert(name.to_owned(), outcome);
    }

    /// Returns recorded names that have no job.
    pub(super) fn unknown(&self, jobs: &[Job]) -> Vec<&str> {
        let known = |name: &&String| !jobs.iter().any(|job| job.name == **name);
        self.0.keys().filter(known).map(String::as_str).collect()
    }

    /// Selects jobs with at most `total` packets together, and at most `most` packets each. It
    /// begins with the shortest of each group (the first part of its name), then continues with
    /// the second shortest, and so on. Unrecorded jobs are treated as short.
    pub(super) fn quick(&self, jobs: Vec<Job>, total: u64, most: u64) -> Vec<Job> {
        let packets = |job: &Job| self.0.get(&job.name).map_or(0, |outcome| outcome.packets);
        let mut groups: BTreeMap<String, Vec<Job>> = BTreeMap::new();
        for job in jobs {
            groups.entry(job.group().to_owned()).or_default().push(job);
        }
        let mut ranked: Vec<(usize, u64, Job)> = Vec::new();
        for mut group in groups.into_values() {
            group.sort_by_key(|job| packets(job));
            let ranks = group.into_iter().enumerate();
            ranked.extend(ranks.map(|(rank, job)| (rank, packets(&job), job)));
        }
        ranked.sort_by(|a, b| (a.0, a.1, &a.2.name).cmp(&(b.0, b.1, &b.2.name)));
        let mut sum = 0;
        ranked.retain(|(_, packets, _)| {
            let fits = *packets <= most && sum + packets <= total;
            if fits {
                sum += packets;
            }
            fits
        });
        ranked.into_iter().map(|(_, _, job)| job).collect()
    }
}

fn parse(line: &str) -> Option<(String, Outcome)> {
    let (hash, rest) = line.split_once(' ')?;
    let (packets, name) = rest.split_once(' ')?;
    let outcome = Outcome {
        hash: hash.to_owned(),
        packets: packets.parse().ok()?,
    };
    Some((name.to_owned(), outcome))
}
