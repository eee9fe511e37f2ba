//! `cargo xtask soak`: random runs that find more the longer they take.
//!
//! The seeds differ from day to day, so that even a minute in each CI run covers more over time. A
//! failure reports its seed. Tests that take minutes are here as well, by name.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

/// Seeds per part.
const PART: u64 = 200;
/// Distance between the first seeds of consecutive days.
const OF_A_DAY: u64 = 1_000_000;

/// Tests that take minutes: their names, packages, and arguments for cargo and the tests. The first
/// two run each cell of sweeps of which `cargo test` runs a part. The others are `#[ignore]`d, and
/// name themselves as the reason.
const LONG: [(&str, &str, &str); 8] = [
    ("emulator-sweeps", "pathmark-emulator", "--test it --"),
    ("lab-sweeps", "pathmark-lab", "--test it --"),
    (
        "flood-tables",
        "pathmark-emulator",
        "--test it floods -- --ignored",
    ),
    (
        "attackers",
        "pathmark-driver",
        "--lib attackers -- --ignored",
    ),
    ("floods", "pathmark-cli", "--test it hostile -- --ignored"),
    ("link-down", "pathmark-cli", "--test it matrix -- --ignored"),
    (
        "beside-cubic",
        "pathmark-cli",
        "--test it beside_cubic -- --ignored",
    ),
    (
        "card-rates",
        "pathmark-router",
        "--test it card_rates -- --ignored",
    ),
];

/// Arguments of `soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tests that take minutes, with optimizations and one by one, instead of the random runs
    #[arg(value_parser = LONG.map(|long| long.0))]
    name: Option<String>,
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The first seed, instead of that of the day
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Returns true if these tests pass.
fn run_long(name: &str) -> Result<bool> {
    let long = LONG.iter().find(|long| long.0 == name);
    let (_, package, arguments) = long.context("no such run")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--release", "--locked", "--package", package]);
    cargo.args(arguments.split(' '));
    cargo.args(["--nocapture", "--test-threads", "1"]);
    cargo.env("PATHMARK_SWEEPS", "whole");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    Ok(cargo.status().context("cannot run cargo")?.success())
}

/// Returns true if all runs succeed: transfers over randomly drawn faults until the time has
/// passed, then rounds of connections that are opened, used and closed at random.
#[expect(clippy::disallowed_methods, reason = "it runs for a time")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    if let Some(name) = &args.name {
        return run_long(name);
    }
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

#[cfg(test)]
mod tests {
    use super::LONG;

    /// Each ignored test that isn't a part of another one has a name here, and each name has tests.
    #[test]
    fn ignored_tests_name_their_run() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut named = std::collections::BTreeSet::new();
        let mut wrong = Vec::new();
        let rust = |path: &std::path::Path| path.extension().is_some_and(|end| end == "rs");
        for path in crate::check::tracked(&root).unwrap() {
            if !rust(&path) || path.ends_with("xtask/src/soak.rs") {
                continue;
            }
            let text = std::fs::read_to_string(root.join(&path)).unwrap();
            for line in text.lines() {
                let Some(reason) = line.trim().strip_prefix("#[ignore") else {
                    continue;
                };
                match reason.strip_prefix(" = \"cargo xtask soak ") {
                    Some(name) => named.extend(name.strip_suffix("\"]").map(str::to_owned)),
                    None if reason.contains("as a process of its own") => {}
                    None => wrong.push(format!("{}: {reason}", path.display())),
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
        let known = LONG.iter().map(|long| long.0.to_owned());
        let known = known.filter(|name| !name.ends_with("sweeps"));
        assert_eq!(named, known.collect());
    }
}
