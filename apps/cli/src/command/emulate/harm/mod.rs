//! `pathmark emulate --harm`: draws cells by a seed, and runs each with the laws and with
//! `cubic` instead.

pub(super) mod page;
mod report;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, anyhow};
use pathmark_cc::Algorithm;
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{CELLS, Cell, Group, Roles, draw, split};
use pathmark_lab::sweep::Sweep;

use super::super::{Failure, Outcome, output};
use super::pool;
use report::Report;

/// The law to which all others are compared.
const BASELINE: &str = "cubic";
/// Laws that are guests at another law's ports.
const GUESTS: [&str; 2] = ["xcp", "vcp+bise+wlte"];
const DEFAULT_LAWS: &str = "auto,vcp+bise+wlte,xcp";
const DEFAULT_SEED: u64 = 1;
/// Approximate number of packets that enter links per second on one core, in an optimized build.
const SPEED: f64 = 0.8e6;
/// Maximum number of packets that enter links in a run. Without it, a law that floods a hop
/// could run endlessly.
const MOST_PACKETS: u64 = 5_000_000;
/// Maximum number of cells in a grid.
const MOST_CELLS: usize = 100_000;

/// Arguments.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Compare laws with cubic on scenarios drawn at random (by --seed), and list those in which a
    /// law is worse
    #[arg(long, conflicts_with_all = ["scenario", "set", "sweep", "shard", "paper_scale"])]
    pub(super) harm: bool,
    /// How many cells [default: 150, or the group's part of 150]
    #[arg(long, value_name = "N", value_parser = count)]
    cells: Option<usize>,
    /// One group only: hidden, loss, outage, hops, jitter, flows
    #[arg(long, value_name = "NAME")]
    group: Option<Group>,
    /// Laws to judge
    #[arg(long, value_name = "A,B", default_value = DEFAULT_LAWS)]
    laws: Laws,
    /// This cell only, by its name; --out then has its scenarios and all about its runs
    #[arg(long, value_name = "CELL", conflicts_with_all = ["cells", "group"])]
    cell: Vec<Cell>,
    /// Exit with 1 if a law harms more than this share of a group's cells: 0.02
    #[arg(long, value_name = "SHARE", value_parser = share)]
    at_most: Option<f64>,
}

/// Parses a number of cells.
fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    count
        .filter(|count| (1..=MOST_CELLS).contains(count))
        .ok_or_else(|| format!("write a whole number from 1 to {MOST_CELLS}"))
}

/// Parses a share of cells.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| "write a share such as 0.02, which is 2 %".to_owned())?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("a share is from 0 to 1: write 0.02 for 2 %".to_owned())
    }
}

impl Args {
    /// Returns a given option that has no effect without `--harm`.
    pub(super) fn without_harm(&self) -> Option<&'static str> {
        let given = [
            ("--cells", self.cells.is_some()),
            ("--group", self.group.is_some()),
            ("--cell", !self.cell.is_empty()),
            ("--at-most", self.at_most.is_some()),
        ];
        let first = given.into_iter().find(|(_, given)| *given && !self.harm);
        first.map(|(option, _)| option)
    }
}

/// `A,B`: a list of control laws.
#[derive(Clone, Debug)]
struct Laws(Vec<Algorithm>);

impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Laws {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list: Sweep = format!("laws={text}")
            .parse()
            .map_err(|_| "list laws as in vcp+bise+wlte,xcp".to_owned())?;
        let laws = list.values.iter().map(|law| law.parse());
        let laws: Result<Vec<Algorithm>, _> = laws.collect();
        laws.map(Self)
            .map_err(|error: pathmark_cc::ParseError| error.to_string())
    }
}

/// A law, with its port's law and its guests' law.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Law {
    name: String,
    /// The law of marked ports.
    port: String,
    /// The law of guests at these ports.
    guest: &'static str,
}

impl Law {
    /// Creates a law for a cell. For `auto`, the cell chooses the protocol of the ports.
    fn new(law: &Algorithm, cell: &Cell) -> Self {
        let port = match law.port() {
            Some(_) if law.to_string().starts_with(Algorithm::DEFAULT) => {
                cell.port_for_any().to_owned()
            }
            Some(port) => port.to_string(),
            None => "vcp+bise".to_owned(),
        };
        let elsewhere = |guest: &&str| {
            let guest = guest.parse().ok().and_then(|law: Algorithm| law.port());
            guest.is_some_and(|home| home.to_string() != port)
        };
        let guest = GUESTS.into_iter().find(elsewhere).unwrap_or(BASELINE);
        Self {
            name: law.to_string(),
            port,
            guest,
        }
    }

    /// Returns `cubic` at the same ports.
    fn baseline(&self) -> Self {
        Self {
            name: BASELINE.to_owned(),
            ..self.clone()
        }
    }

    fn roles(&self) -> Roles<'_> {
        Roles {
            law: &self.name,
            port: &self.port,
            guest: self.guest,
        }
    }

    /// Returns a directory name.
    fn directory(&self) -> String {
        plain(&format!("{}-at-{}", self.name, self.port))
    }
}

/// Replaces characters that are special to file systems and shells.
fn plain(name: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    name.chars()
        .map(|c| if fine(c) { c } else { '_' })
        .collect()
}

pub(super) fn harm(args: &super::Args) -> Outcome {
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let harm = &args.harm;
    let (cells, wanted) = cells(harm, seed);
    if cells.len() < wanted {
        output::note!(
            "note: {} different cells were drawn, not the {wanted} asked for: seed {seed} brings \
             hardly any others",
            cells.len()
        );
    }
    if args.list {
        for cell in &cells {
            output::line(format_args!("{cell}"))?;
        }
        return Ok(());
    }
    let laws: Vec<Vec<Law>> = cells
        .iter()
        .map(|cell| harm.laws.0.iter().map(|law| Law::new(law, cell)).collect())
        .collect();
    let jobs = jobs(&laws);
    let named = !harm.cell.is_empty();
    let out = args.out.as_deref();
    let runs = runs(&cells, &jobs, seed, out.filter(|_| named)).map_err(Failure::usage)?;
    tell_length(&cells, &jobs);
    super::watch_for_interrupts()?;
    let results = run(&runs)?;
    let report = Report::new(seed, &cells, &laws, |cell, law| {
        let job = jobs.iter().position(|job| (job.0, &job.1) == (cell, law))?;
        results.get(job)?.as_ref()
    });
    show(args, &report)?;
    if super::interrupted() {
        return Err(anyhow!("interrupted: {}", report.progress()).into());
    }
    if let Some(directory) = &args.results {
        page::write(directory, &report, &harm.laws.to_string())?;
    }
    match harm.at_most.and_then(|most| report.above(most)) {
        Some(message) => Err(anyhow!(message).into()),
        None => Ok(()),
    }
}

/// Returns the cells, and the requested number, which is larger if not enough distinct cells exist.
fn cells(args: &Args, seed: u64) -> (Vec<Cell>, usize) {
    if !args.cell.is_empty() {
        return (args.cell.clone(), args.cell.len());
    }
    let parts = match args.group {
        None => split(args.cells.unwrap_or(CELLS)),
        Some(group) => {
            let usual = split(CELLS).into_iter().find(|(known, _)| *known == group);
            let usual = usual.map_or(0, |(_, count)| count);
            vec![(group, args.cells.unwrap_or(usual))]
        }
    };
    let wanted = parts.iter().map(|(_, count)| count).sum();
    let drawn = parts
        .into_iter()
        .map(|(group, count)| draw(group, seed, count));
    (drawn.flatten().collect(), wanted)
}

/// Returns all pairs of a cell's number and a law, with `cubic` once for each kind of port.
fn jobs(laws: &[Vec<Law>]) -> Vec<(usize, Law)> {
    let mut all: Vec<(usize, Law)> = Vec::new();
    for (cell, laws) in laws.iter().enumerate() {
        for law in laws.iter().flat_map(|law| [law.clone(), law.baseline()]) {
            let job = (cell, law);
            if !all.contains(&job) {
                all.push(job);
            }
        }
    }
    all
}

/// A run and the directory for its files, if any.
struct Run {
    /// The number of its job.
    job: usize,
    /// The law of our flows.
    law: String,
    scenario: Scenario,
    directory: Option<PathBuf>,
}

fn runs(
    cells: &[Cell],
    jobs: &[(usize, Law)],
    seed: u64,
    out: Option<&Path>,
) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::with_capacity(jobs.len());
    for (job, (cell, law)) in jobs.iter().enumerate() {
        let Some(cell) = cells.get(*cell) else {
            continue;
        };
        let text = cell.scenario(seed, law.roles());
        let directory = out.map(|out| out.join(plain(&cell.to_string())).join(law.directory()));
        if let Some(directory) = &directory {
            let path = directory.join("scenario.toml");
            fs::create_dir_all(directory)
                .and_then(|()| fs::write(&path, &text))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let path = PathBuf::from(cell.to_string());
        let scenario = Scenario::parse(&path, &text)?;
        runs.push(Run {
            job,
            law: law.name.clone(),
            scenario,
            directory,
        });
    }
    Ok(runs)
}

/// Returns results in the order of the jobs, with `None` for interrupted runs.
fn run(runs: &[Run]) -> anyhow::Result<Vec<Option<RunResult>>> {
    let name = |run: &Run| format!("{} {}", run.scenario.name, run.law);
    let done = pool::each_watched(runs, name, |run, watch| {
        let directory = run.directory.as_deref();
        let (result, _) = pool::one(&run.scenario, directory, &run.law, MOST_PACKETS, watch)?;
        Ok((run.job, (!watch.broken).then_some(result)))
    })?;
    let mut results = vec![None; runs.len()];
    for (job, result) in done {
        if let Some(place) = results.get_mut(job) {
            *place = result;
        }
    }
    Ok(results)
}

/// Announces the expected duration.
fn tell_length(cells: &[Cell], jobs: &[(usize, Law)]) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let packets = jobs.iter().filter_map(|(cell, _)| cells.get(*cell));
    let packets: f64 = packets.map(Cell::packets).sum();
    output::note!(
        "{} cells, {} runs, {:.0} million packets: about {:.1} minutes on {cores} cores",
        cells.len(),
        jobs.len(),
        packets / 1e6,
        packets / SPEED / cores as f64 / 60.0
    );
}

fn show(args: &super::Args, report: &Report) -> Outcome {
    if let Some(directory) = &args.out {
        let save = |name: &str, text: &[u8]| {
            let path = directory.join(name);
            fs::create_dir_all(directory)
                .and_then(|()| fs::write(&path, text))
                .with_context(|| format!("cannot write {}", path.display()))
        };
        save("harm.json", &serde_json::to_vec_pretty(report)?)?;
        save("harm.txt", page::table(report).as_bytes())?;
    }
    if args.json {
        output::json(report)?;
    } else {
        output::text(format_args!("{}", page::table(report)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cells_have_bounds() {
        assert_eq!(count("1"), Ok(1));
        assert_eq!(count("100000"), Ok(MOST_CELLS));
        for wrong in ["0", "100001", "1000000000", "-1", "all", ""] {
            let said = count(wrong).unwrap_err();
            assert!(said.contains("from 1 to 100000"), "{wrong}: {said}");
        }
    }

    #[test]
    fn shares_are_from_0_to_1() {
        assert_eq!(share("0"), Ok(0.0));
        assert_eq!(share("0.02"), Ok(0.02));
        assert_eq!(share("1"), Ok(1.0));
        for wrong in ["2", "-0.1", "NaN", "inf"] {
            let said = share(wrong).unwrap_err();
            assert!(said.contains("from 0 to 1"), "{wrong}: {said}");
        }
        for wrong in ["abc", "2%", ""] {
            let said = share(wrong).unwrap_err();
            assert!(said.contains("a share such as 0.02"), "{wrong}: {said}");
        }
    }
}
