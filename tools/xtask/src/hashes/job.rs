//! The jobs whose output is hashed.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::{BUILT_IN, Change};
use pathmark_lab::harm::{Roles, draw, split};
use pathmark_lab::sweep::{Case, cases};
use sha2::{Digest, Sha256};

use super::stream;

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
pub(super) struct Job {
    pub(super) name: String,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Emulate { scenario: Box<Scenario>, most: u64 },
    Router { law: &'static str },
}

/// The result of a job.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The SHA-256 of its output in hexadecimal.
    pub(super) hash: String,
    pub(super) packets: u64,
}

impl Outcome {
    pub(super) fn new(output: &[u8], packets: u64) -> Self {
        let mut hash = String::new();
        for byte in Sha256::digest(output) {
            let _ = write!(hash, "{byte:02x}");
        }
        Self { hash, packets }
    }
}

impl Job {
    /// Returns the first part of its name: the scenario, `harm` or `router`.
    pub(super) fn group(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    pub(super) fn run(&self) -> Result<Outcome> {
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

pub(super) fn all() -> Result<Vec<Job>> {
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
