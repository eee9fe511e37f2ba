//! Simulated transfers over faults drawn by seed: `cargo run --release -p pathmark-transport
//! --example faults [-- --seeds N] [--from SEED] [--state FILE] [--trace]`, by default with the
//! seeds from 0 to 99. Prints the table of `evidence/faults.md`, and every seed that failed. The
//! exit code is 1 if any failed.
//!
//! With `--state`, the table so far is kept in a file. If you start the program again with the same
//! file, it continues from there.

#[path = "shared/arguments.rs"]
mod arguments;
#[path = "../tests/it/faults/simulation.rs"]
mod simulation;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use arguments::Arguments;
use simulation::{Crypto, KINDS, Outcome, Plan, run};

/// Rows of the table: all transfers, those with TLS, those with feedback, and those with each kind
/// of fault.
const ROWS: usize = 3 + KINDS.len();
/// Simulated, complete, noticed, timed out, failed, and how often the fault occurred (in datagrams
/// or ends; for feedback, shims into which a router wrote).
const COLUMNS: usize = 6;
const FEEDBACK: usize = 2;
const FAILED: usize = 4;
const STRUCK: usize = 5;
/// Seeds between two updates of the file.
const PART: u64 = 1000;

type Table = [[u64; COLUMNS]; ROWS];

fn name(row: usize) -> &'static str {
    match row {
        0 => "all",
        1 => "TLS 1.3",
        2 => "feedback from routers",
        kind => KINDS[kind - 3],
    }
}

const USAGE: &str = "faults [--seeds N] [--from SEED] [--state FILE] [--trace]";

fn add(table: &mut Table, crypto: &Crypto, seed: u64, trace: bool) {
    let plan = Plan::new(seed);
    let (column, marked, struck) = match run(crypto, seed, trace) {
        Ok(report) => {
            let column = match report.outcome {
                Outcome::Complete => 1,
                Outcome::Noticed => 2,
                Outcome::TimedOut => 3,
            };
            (column, report.marked, report.struck)
        }
        Err(error) => {
            println!("{error}");
            (FAILED, 0, [0; KINDS.len()])
        }
    };
    let mut has = [true, plan.tls, plan.feedback].to_vec();
    has.extend(plan.kinds());
    for (row, has) in table.iter_mut().zip(has) {
        row[0] += u64::from(has);
        row[column] += u64::from(has);
    }
    table[FEEDBACK][STRUCK] += marked;
    for (row, struck) in table[FEEDBACK + 1..].iter_mut().zip(struck) {
        row[STRUCK] += struck;
    }
}

/// Runs the seeds of one part on all processors.
fn part(seeds: std::ops::Range<u64>, trace: bool) -> Table {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let mut whole = Table::default();
    std::thread::scope(|scope| {
        let worker = || {
            let crypto = Crypto::new();
            let mut table = Table::default();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return table;
                }
                add(&mut table, &crypto, seed, trace);
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for thread in running {
            let table = thread.join().expect("a simulation's panic is caught");
            let all = whole.iter_mut().flatten().zip(table.iter().flatten());
            all.for_each(|(to, from)| *to += from);
        }
    });
    whole
}

/// Returns the first seed, the next seed to run, and the table.
fn read(file: &str) -> io::Result<Option<(u64, u64, Table)>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
    match numbers.as_deref() {
        Some([from, next, cells @ ..]) if cells.len() == ROWS * COLUMNS => {
            let mut table = Table::default();
            let all = table.iter_mut().flatten().zip(cells);
            all.for_each(|(to, cell)| *to = *cell);
            Ok(Some((*from, *next, table)))
        }
        _ => Err(io::Error::other("not a table of this command")),
    }
}

/// Writes the file atomically: under another name first, which is then renamed.
fn write(file: &str, from: u64, next: u64, table: &Table) -> io::Result<()> {
    let mut text = format!("{from} {next}\n");
    for row in table {
        for cell in row {
            let _ = write!(text, "{cell} ");
        }
        text.push('\n');
    }
    let partial = format!("{file}.new");
    fs::write(&partial, text)?;
    fs::rename(partial, file)
}

/// The requested run.
struct Asked {
    from: u64,
    seeds: u64,
    trace: bool,
    file: Option<String>,
}

impl Asked {
    fn read() -> Result<Self, ExitCode> {
        let options = ["--seeds", "--from", "--state"];
        let arguments = Arguments::read(USAGE, &options, &["--trace"])?;
        Ok(Self {
            from: arguments.number("--from", 0)?,
            seeds: arguments.number("--seeds", 100)?,
            trace: arguments.text("--trace").is_some(),
            file: arguments.text("--state").map(str::to_owned),
        })
    }
}

fn main() -> io::Result<ExitCode> {
    match Asked::read() {
        Ok(asked) => simulate(asked),
        Err(code) => Ok(code),
    }
}

fn simulate(asked: Asked) -> io::Result<ExitCode> {
    let Asked {
        mut from,
        seeds,
        trace,
        file,
    } = asked;
    let (mut next, mut table) = (from, Table::default());
    if let Some(file) = &file
        && let Some(kept) = read(file)?
    {
        (from, next, table) = kept;
        eprintln!("goes on with seed {next}");
    }
    let end = from.saturating_add(seeds);
    while next < end {
        let until = end.min(next.saturating_add(PART));
        let more = part(next..until, trace);
        let all = table.iter_mut().flatten().zip(more.iter().flatten());
        all.for_each(|(to, cell)| *to += cell);
        next = until;
        if let Some(file) = &file {
            write(file, from, next, &table)?;
        }
    }
    println!("Seeds {from} to {}:\n", next.saturating_sub(1));
    println!(
        "| plans with | simulated | complete | end gone, noticed | timed out in the dark | failed \
         | struck |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (row, [all, complete, noticed, dark, failed, struck]) in table.iter().enumerate() {
        let name = name(row);
        let struck = if row < FEEDBACK {
            String::new()
        } else {
            struck.to_string()
        };
        println!("| {name} | {all} | {complete} | {noticed} | {dark} | {failed} | {struck} |");
    }
    Ok(ExitCode::from(u8::from(table[0][FAILED] > 0)))
}
