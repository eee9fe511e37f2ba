//! Commands of this repository, run as `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

mod ablate;
mod check;
mod cores;
mod hashes;
mod soak;

use std::process::ExitCode;

use clap::Parser;

/// Commands of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
enum Command {
    /// Run the harm grid without mechanisms that are from no paper and no RFC
    Ablate(ablate::Args),
    /// Check what compilers and tests don't: ceilings, links, citations
    Check(check::Args),
    /// Compare results of the laws, the emulator and the router with the recorded hashes
    Hashes(hashes::Args),
    /// Run transfers over randomly drawn faults for a while, with seeds that differ from day to day
    Soak(soak::Args),
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Ablate(args) => ablate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Hashes(args) => hashes::run(&args),
        Command::Soak(args) => soak::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
