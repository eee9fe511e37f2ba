//! `cargo xtask ablate`: the harm grid without a mechanism.
//!
//! Each seed draws the cells of `pathmark emulate --harm`. Each cell runs with three laws and with
//! `cubic` in their place, once with all mechanisms and once without each of those named. Counts
//! are paired by seed: a mechanism saves the cells that a law harms without it and not with it.

mod grid;
mod report;

use anyhow::{Result, bail};
use pathmark_cc::{Mechanism, remove};

use grid::Grid;
use report::{Report, Trial};

/// Arguments of `ablate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mechanisms to run without, each by itself
    #[arg(required_unless_present = "list")]
    names: Vec<Mechanism>,
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
    /// Run without all named mechanisms at once
    #[arg(long)]
    together: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    /// List the mechanisms
    #[arg(long)]
    list: bool,
}

/// Runs the trials. True: they ran.
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
    let trials: Vec<&[Mechanism]> = match args.together {
        true => vec![&args.names],
        false => args.names.chunks(1).collect(),
    };
    let mut report = Report::new(args.cells, &args.seeds);
    for removed in &trials {
        let names: Vec<&str> = removed.iter().map(|each| each.name()).collect();
        report.trials.push(Trial::new(names.join("+")));
    }
    for &seed in &args.seeds {
        let grid = Grid::draw(seed, args.cells)?;
        let with = grid.run()?;
        eprintln!("seed {seed}, all mechanisms: {with}");
        report.with.push(with);
        for (removed, trial) in trials.iter().zip(&mut report.trials) {
            remove(removed);
            let without = grid.run();
            remove(&[]);
            let without = without?;
            eprintln!("seed {seed}, without {}: {without}", trial.name);
            trial.without.push(without);
        }
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&report.json())?),
        false => print!("{}", report.table()),
    }
    Ok(true)
}
