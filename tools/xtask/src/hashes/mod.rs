//! `cargo xtask hashes`: detects changes of behaviour.
//!
//! Each job is a run whose output is the same on every machine: a variant of a built-in scenario
//! at a point of its sweeps, a cell of the harm grid, or a stream of packets through a router.
//! The file `tools/xtask/hashes.txt` has a line per job with the SHA-256 of its output, its number
//! of packets, and its name. The output excludes wall times.

mod stream;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::{BUILT_IN, Change};
use pathmark_lab::harm::{Roles, draw, split};
use pathmark_lab::sweep::{Case, cases};
use sha2::{Digest, Sha256};

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
    let mut jobs = all()?;
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

/// The seed for scenarios and cells.
const SEED: u64 = 1;
/// Cells of the harm grid.
const CELLS: usize = 30;
/// Maximum number of packets in a cell. Without it, a law that floods a hop could run endlessly.
const MOST_PACKETS: u64 = 5_000_000;
/// The laws of cells in turn, with their port's law and the guests' law.
const LAWS: [(&str, &str, &str); 3] = [
    ("auto", "vcp+bise", "xcp"),
    ("vcp+bise+wlte", "vcp+bise", "xcp"),
    ("xcp", "xcp", "vcp+bise+wlte"),
];

/// A run with a name.
#[derive(Debug)]
struct Job {
    name: String,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Emulate { scenario: Box<Scenario>, most: u64 },
    Router { law: &'static str },
}

/// The result of a job.
#[derive(Clone, Debug)]
struct Outcome {
    /// The SHA-256 of its output in hexadecimal.
    hash: String,
    packets: u64,
}

impl Outcome {
    fn new(output: &[u8], packets: u64) -> Self {
        let mut hash = String::new();
        for byte in Sha256::digest(output) {
            let _ = write!(hash, "{byte:02x}");
        }
        Self { hash, packets }
    }
}

impl Job {
    /// Returns the first part of its name: the scenario, `harm` or `router`.
    fn group(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    fn run(&self) -> Result<Outcome> {
        match &self.work {
            Work::Emulate { scenario, most } => {
                let mut result = scenario.run(|progress| match progress.packets >= *most {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                })?;
                // The accounting of laws is derived from the run and not hashed.
                for flow in &mut result.flows {
                    flow.controllers = None;
                }
                // The caller sets the duration of a run.
                debug_assert!(result.wall_s == 0.0);
                Ok(Outcome::new(&serde_json::to_vec(&result)?, result.packets))
            }
            Work::Router { law } => stream::run(law),
        }
    }
}

fn all() -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for known in BUILT_IN {
        built_in(known.name, &mut jobs)?;
    }
    let mut laws = LAWS.iter().cycle();
    for (group, count) in split(CELLS) {
        for cell in draw(group, SEED, count) {
            let (law, port, guest) = *laws.next().unwrap_or(&LAWS[0]);
            let name = format!("harm {law} {cell}");
            let text = cell.scenario(SEED, Roles { law, port, guest });
            let scenario = Box::new(Scenario::parse(Path::new(&name), &text)?);
            let most = MOST_PACKETS;
            jobs.push(Job {
                name,
                work: Work::Emulate { scenario, most },
            });
        }
    }
    for law in stream::LAWS {
        jobs.push(Job {
            name: format!("router {law}"),
            work: Work::Router { law },
        });
    }
    Ok(jobs)
}

/// Adds each variant of a built-in scenario at each point of its sweeps.
fn built_in(name: &str, jobs: &mut Vec<Job>) -> Result<()> {
    let seed = Change {
        key: "seed".to_owned(),
        value: SEED.to_string(),
    };
    for (case, scenario) in cases(&Scenario::load(name)?, &[seed], &[])? {
        let work = Work::Emulate {
            scenario: Box::new(scenario),
            most: u64::MAX,
        };
        jobs.push(Job {
            name: label(name, &case),
            work,
        });
    }
    Ok(())
}

fn label(name: &str, case: &Case) -> String {
    let mut label = name.to_owned();
    if let Some(variant) = &case.variant {
        let _ = write!(label, " [{variant}]");
    }
    for (key, value) in &case.set {
        let _ = write!(label, " {key}={value}");
    }
    label
}

/// Hashes and numbers of packets by job.
#[derive(Debug, Default)]
struct Record(BTreeMap<String, Outcome>);

impl Record {
    /// Reads the file. The record is empty if the file doesn't exist.
    fn read(path: &Path) -> Result<Self> {
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

    fn write(&self, path: &Path) -> Result<()> {
        let lines = self.0.iter().map(|(name, outcome)| {
            let Outcome { hash, packets } = outcome;
            format!("{hash} {packets} {name}\n")
        });
        fs::write(path, lines.collect::<String>()).with_context(|| format!("{}", path.display()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn hash(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|outcome| outcome.hash.as_str())
    }

    /// Returns a job's number of packets, or the maximum for an unrecorded job.
    fn packets(&self, name: &str) -> u64 {
        self.0.get(name).map_or(u64::MAX, |outcome| outcome.packets)
    }

    fn set(&mut self, name: &str, outcome: Outcome) {
        self.0.insert(name.to_owned(), outcome);
    }

    /// Returns recorded names that have no job.
    fn unknown(&self, jobs: &[Job]) -> Vec<&str> {
        let known = |name: &&String| !jobs.iter().any(|job| job.name == **name);
        self.0.keys().filter(known).map(String::as_str).collect()
    }

    /// Selects jobs with at most `total` packets together, and at most `most` packets each. It
    /// begins with the shortest of each group (the first part of its name), then continues with
    /// the second shortest, and so on. Unrecorded jobs are treated as short.
    fn quick(&self, jobs: Vec<Job>, total: u64, most: u64) -> Vec<Job> {
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
