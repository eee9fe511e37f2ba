//! `cargo xtask soak`: random runs that find more the longer they take.
//!
//! The seeds differ from day to day, so that even a minute in each CI run covers more over time. A
//! failure reports its seed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

/// Seeds per part.
const PART: u64 = 200;
/// Distance between the first seeds of consecutive days.
const OF_A_DAY: u64 = 1_000_000;

/// Arguments of `soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The first seed, instead of that of the day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Returns true if all runs succeed: transfers over randomly drawn faults until the time has
/// passed, then rounds of connections that are opened, used and closed at random.
#[expect(clippy::disallowed_methods, reason = "it runs for a time")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let day = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let mut seed = args.seed.unwrap_or(day * OF_A_DAY);
    let faults = example("faults")?;
    let rounds = example("soak")?;
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let first = seed;
    while Instant::now() < end {
        let (from, seeds) = (seed.to_string(), PART.to_string());
        if !succeeds(&faults, &["--from", &from, "--seeds", &seeds])? {
            return Ok(false);
        }
        seed += PART;
    }
    println!(
        "transfers over faults: seeds {first} to {} went well",
        seed - 1
    );
    succeeds(&rounds, &["--rounds", "2"])
}

/// Builds an example in the same profile as this program, and returns its path.
fn example(name: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--example",
        name,
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !cargo.current_dir(root).status()?.success() {
        bail!("the example `{name}` does not build");
    }
    let own = std::env::current_exe()?;
    let place = own.parent().context("a program has a folder")?;
    Ok(place.join("examples").join(name))
}

/// Runs a program, and shows its output if it fails.
fn succeeds(program: &Path, arguments: &[&str]) -> Result<bool> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        print!("{}", String::from_utf8_lossy(&output.stderr));
        println!("{} {arguments:?} failed", program.display());
    }
    Ok(output.status.success())
}
