//! `cargo xtask hashes`: detects changes of behaviour.
//!
//! Each job is a run whose output is the same on every machine: a variant of a built-in scenario
//! at a point of its sweeps, a cell of the harm grid, or a stream of packets through a router.
//! The file `tools/xtask/hashes.txt` has a line per job with the SHA-256 of its output, its number
//! of packets, and its name. The output excludes wall times.

mod job;
mod record;
mod stream;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use job::Job;
use record::Record;

use crate::cores::on_all_cores;

/// Maximum numbers of packets with `--quick`, in total and per job.
const QUICK_TOTAL: u64 = 20_000_000;
const QUICK_JOB: u64 = 1_000_000;

/// Arguments of `hashes`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only jobs of at most 2 million packets, of each scenario the shortest first, 40 million in
    /// all: about 90 s on two cores
    #[arg(long, conflicts_with = "record")]
    quick: bool,
    /// Write the hashes of this run to the file, replacing the previous ones
    #[arg(long)]
    record: bool,
    /// Only jobs whose name begins with one of these: xcp-i-fig8, `harm`, `router`
    names: Vec<String>,
}

impl Args {
    fn wants(&self, job: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| job.starts_with(name.as_str()))
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hashes.txt")
}

/// Returns true if every job has its recorded hash.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut record = Record::read(&file())?;
    let mut jobs = job::all()?;
    for name in &args.names {
        if !jobs.iter().any(|job| job.name.starts_with(name.as_str())) {
            bail!("no job has a name that begins with `{name}`");
        }
    }
    jobs.retain(|job| args.wants(&job.name));
    if record.is_empty() && !args.record {
        bail!("{} has no hashes", file().display());
    }
    if args.quick {
        jobs = record.quick(jobs, QUICK_TOTAL, QUICK_JOB);
    }
    // Start with the longest, so that all cores finish at about the same time.
    jobs.sort_by_key(|job| std::cmp::Reverse(record.packets(&job.name)));
    let run = |job: &Job| job.run().with_context(|| job.name.clone());
    let outcomes = on_all_cores(&jobs, run)?;
    if args.record {
        if args.names.is_empty() {
            record = Record::default();
        }
        for (job, outcome) in jobs.iter().zip(outcomes) {
            record.set(&job.name, outcome);
        }
        record.write(&file())?;
        println!("{} hashes recorded", jobs.len());
        return Ok(true);
    }
    let mut different = 0;
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        let known = record.hash(&job.name);
        if known != Some(outcome.hash.as_str()) {
            different += 1;
            let known = known.unwrap_or("none");
            println!("{}: recorded {known}, now {}", job.name, outcome.hash);
        }
    }
    if args.names.is_empty() && !args.quick {
        for name in record.unknown(&jobs) {
            different += 1;
            println!("{name}: recorded, but there is no such job");
        }
    }
    println!("{} of {} hashes differ", different, jobs.len());
    if different > 0 {
        println!(
            "A change of behaviour is recorded with `cargo xtask hashes --record NAME`; its commit \
             says which hashes, and why."
        );
    }
    Ok(different == 0)
}
