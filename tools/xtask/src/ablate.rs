//! `cargo xtask ablate`: runs the harm grid without some mechanisms.
//!
//! Each seed draws the cells of `pathmark emulate --harm`. Each cell runs with three laws and
//! with `cubic` instead, once with all mechanisms and once without each named mechanism. Counts
//! are paired by seed: a mechanism saves the cells that a law only harms without it.

mod grid;
mod rows;

use anyhow::{Result, bail};
use pathmark_cc::Mechanism;

use grid::{Grid, Report, Trial};

/// Arguments of `ablate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mechanisms to run without, each by itself; `a+b` together
    #[arg(required_unless_present = "list")]
    names: Vec<Group>,
    /// Seeds that draw the cells: five that no trial has used
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        required_unless_present = "list"
    )]
    seeds: Vec<u64>,
    /// Cells of each seed
    #[arg(long, value_name = "N", default_value_t = 150)]
    cells: usize,
    /// Run only the drawn cells whose names begin with one of these: `hidden,loss/both`
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    only: Vec<String>,
    /// Run a scenario, by name or file, instead of the harm grid; can be repeated
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Print one JSON object at the end
    #[arg(long, conflicts_with = "scenario")]
    json: bool,
    /// List the mechanisms
    #[arg(long)]
    list: bool,
}

/// The mechanisms of one trial.
#[derive(Clone, Debug)]
struct Group(Vec<Mechanism>);

impl std::str::FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split('+')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Runs the trials. Returns true unless there was an error.
pub(crate) fn run(args: &Args) -> Result<bool> {
    if args.list {
        for mechanism in Mechanism::ALL {
            println!("{:12} {}", mechanism.name(), mechanism.what());
        }
        return Ok(true);
    }
    if args.cells == 0 {
        bail!("--cells is at least 1");
    }
    if !args.scenario.is_empty() {
        let groups: Vec<&[Mechanism]> = args.names.iter().map(|group| &group.0[..]).collect();
        print!("{}", rows::run(&args.scenario, &args.seeds, &groups)?);
        return Ok(true);
    }
    let mut report = Report::new(args.cells, &args.seeds);
    for Group(removed) in &args.names {
        let names: Vec<&str> = removed.iter().map(|each| each.name()).collect();
        report.trials.push(Trial::new(names.join("+")));
    }
    for &seed in &args.seeds {
        let grid = Grid::draw(seed, args.cells, &args.only)?;
        let with = grid.run()?;
        let harmed = grid.judge(&with);
        let count = grid.cells.len();
        eprintln!("seed {seed}, {count} cells, all mechanisms: {harmed}");
        report.with.push(harmed);
        for (Group(removed), trial) in args.names.iter().zip(&mut report.trials) {
            let harmed = grid.judge(&grid.run_without(removed, &with)?);
            eprintln!("seed {seed}, without {}: {harmed}", trial.name);
            trial.without.push(harmed);
        }
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&report.json())?),
        false => print!("{}", report.table()),
    }
    Ok(true)
}

/// Held by tests that remove mechanisms, because this affects the whole process.
#[cfg(test)]
static REMOVING: std::sync::Mutex<()> = std::sync::Mutex::new(());
