//! `pathmark compare`: compares laws over a grid of paths.

mod page;
mod run;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use pathmark_lab::compare::{Grid, GridFile, Report, Values, overview, pictures, too_large};
use pathmark_lab::sweep::{BadSweep, Sweep};

use super::{Failure, Outcome, emulate, output};
use run::{Job, Store, jobs, run_all};

/// Arguments.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Args {
    /// Laws to compare, each with @ and its routers' law if that is not its own: xcp,cubic@codel
    #[arg(long, value_name = "A,B,…")]
    algorithms: Option<String>,
    /// A file (TOML) with any of: algorithms, seeds, rate, rtt, buffer, loss, flows, routers
    #[arg(long, value_name = "FILE")]
    grid: Option<PathBuf>,
    /// How many seeds each cell is run with [default: 3]
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// The bottleneck's rate: 10Mbit,1Gbit
    #[arg(long, value_name = "R1,R2,…", help_heading = "Axes")]
    rate: Option<String>,
    /// Propagation round trip: 20ms,500ms
    #[arg(long, value_name = "T1,T2,…", help_heading = "Axes")]
    rtt: Option<String>,
    /// Room of the bottleneck's queue: 0.1bdp,100p,64KiB
    #[arg(long, value_name = "Q1,Q2,…", help_heading = "Axes")]
    buffer: Option<String>,
    /// Share of data packets that are lost at random: 0,0.1%,1e-2
    #[arg(long, value_name = "P1,P2,…", help_heading = "Axes")]
    loss: Option<String>,
    /// Files that share the bottleneck: 1..4,32
    #[arg(long, value_name = "N1,N2,…", help_heading = "Axes")]
    flows: Option<String>,
    /// Routers that answer: none, hidden (one, and the bottleneck behind it does not), or 1 to 8
    #[arg(long, value_name = "A,B,…", help_heading = "Axes")]
    routers: Option<String>,
    /// Say how long it will take, and no more
    #[arg(long)]
    estimate: bool,
    /// Where results and pictures go; there a run that was stopped goes on where it was
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write comparison.md and its pictures into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    results: Option<PathBuf>,
    /// Print one JSON object at the end
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn compare(args: &Args) -> Outcome {
    let grid = grid(args).map_err(Failure::Usage)?;
    let jobs = jobs(&grid);
    let store = args.out.as_deref().map(Store::open).transpose();
    let store = store.map_err(Failure::Usage)?;
    let (known, summary) = match &store {
        Some(store) => store.load(&jobs)?,
        None => (vec![None; jobs.len()], String::new()),
    };
    let left = jobs.iter().zip(&known).filter(|(_, known)| known.is_none());
    let left: Vec<&Job> = left.map(|(job, _)| job).collect();
    output::note!("{}{summary}", length(&grid, &left));
    if args.estimate {
        return Ok(());
    }
    emulate::watch_for_interrupts()?;
    let done = run_all(&jobs, known, store.as_ref())?;
    let report = Report::new(&grid, |cell, law| {
        let name = run::job_name(&grid, cell, law)?;
        let job = jobs.iter().position(|job| job.name == name)?;
        done.get(job)?.clone()
    });
    show(args, &report)?;
    if report.cells.len() < report.wanted {
        let on = match &args.out {
            Some(_) => "the same command goes on where this one was",
            None => "with --out DIR, the same command would go on where this one was",
        };
        return Err(anyhow!(
            "interrupted: {} of {} cells are complete; {on}",
            report.cells.len(),
            report.wanted
        )
        .into());
    }
    if let Some(directory) = &args.results {
        page::write(directory, &report, args)?;
    }
    Ok(())
}

/// Returns the file's grid, with values replaced by options.
fn grid(args: &Args) -> anyhow::Result<Grid> {
    let file = match &args.grid {
        None => GridFile::default(),
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            GridFile::parse(path, &text)?
        }
    };
    let options = GridFile {
        algorithms: values("algorithms", args.algorithms.as_ref())?,
        seeds: args.seeds,
        rate: values("rate", args.rate.as_ref())?,
        rtt: values("rtt", args.rtt.as_ref())?,
        buffer: values("buffer", args.buffer.as_ref())?,
        loss: values("loss", args.loss.as_ref())?,
        flows: values("flows", args.flows.as_ref())?,
        routers: values("routers", args.routers.as_ref())?,
    };
    Ok(file.changed_by(options).grid()?)
}

/// Parses a list like `--sweep`: commas in brackets belong to a value, and ranges are expanded.
fn values(name: &str, given: Option<&String>) -> anyhow::Result<Option<Values>> {
    let Some(text) = given else { return Ok(None) };
    let list = format!("{name}={text}").parse::<Sweep>();
    let list = list.map_err(|error| match error {
        BadSweep::Range(_) | BadSweep::Long => anyhow!("--{name}: {error}"),
        _ => anyhow!("--{name} `{text}` lists no values: write them with commas between them"),
    })?;
    Ok(Some(Values(list.values)))
}

/// Describes the expected duration.
fn length(grid: &Grid, left: &[&Job]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // An empty sum is -0.0, which would be printed with its sign.
    let packets = left.iter().fold(0.0, |sum, job| sum + job.packets);
    let minutes = Grid::core_seconds(packets) / cores as f64 / 60.0;
    let time = match minutes {
        minutes if minutes >= 90.0 => format!("{:.1} hours", minutes / 60.0),
        minutes if minutes >= 1.0 => format!("{minutes:.0} minutes"),
        minutes => format!("{:.0} seconds", (60.0 * minutes).ceil()),
    };
    format!(
        "{} cells, {} laws, {} seeds: {} runs to do, {:.0} million packets, about {time} on \
         {cores} idle cores",
        grid.cells().len(),
        grid.laws.len(),
        grid.seeds,
        left.len() * grid.seeds as usize,
        packets / 1e6,
    )
}

fn show(args: &Args, report: &Report) -> Outcome {
    if let Some(directory) = &args.out {
        let path = directory.join("compare.json");
        let mut text = serde_json::to_vec_pretty(report)?;
        text.push(b'\n');
        run::replace(&path, &text)?;
        run::replace(
            &directory.join("compare.txt"),
            page::table(report).as_bytes(),
        )?;
        draw(directory, report)?;
    }
    if args.json {
        output::json(report)?;
    } else {
        output::text(format_args!("{}", page::table(report)))?;
    }
    if let (Some(directory), false) = (&args.out, args.json) {
        output::line(format_args!("in {}", directory.display()))?;
    }
    Ok(())
}

/// Writes the pictures and returns their names.
fn draw(directory: &Path, report: &Report) -> anyhow::Result<Vec<String>> {
    if too_large(report) {
        output::note!(
            "note: the grid has too many rows or columns for pictures; compare.json has them all"
        );
    }
    let mut names = Vec::new();
    if !report.cells.is_empty() {
        overview(report).write_svg(&directory.join("compare.svg"))?;
        names.push("compare".to_owned());
    }
    for (name, map) in pictures(report) {
        map.write_svg(&directory.join(format!("{name}.svg")))?;
        names.push(name);
    }
    Ok(names)
}
