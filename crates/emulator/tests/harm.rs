//! A small part of the harm grid: in the first cheap cells that a seed draws in a group, neither
//! the defaults nor XCP do harm.
//!
//! `pathmark emulate --harm` has all of it. The seed is the number of the chapter that asks for the
//! grid, and was not picked for its figures.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::harm::{Cell, Group, Roles, draw, judge};
use pathmark_emulator::result::RunResult;

const SEED: u64 = 12;
/// Packets that enter links in a run, so that all runs together take seconds.
const CHEAP: f64 = 180_000.0;
/// Cells of each group.
const CELLS: usize = 2;

/// Laws, their ports, and the guests there.
const LAWS: [Roles<'_>; 2] = [
    Roles {
        law: "vcp+bise+wlte",
        port: "vcp+bise",
        guest: "xcp",
    },
    Roles {
        law: "xcp",
        port: "xcp",
        guest: "vcp+bise+wlte",
    },
];

fn run(cell: Cell, roles: Roles<'_>) -> RunResult {
    let text = cell.scenario(SEED, roles);
    let scenario = Scenario::parse(Path::new("cell.toml"), &text).unwrap();
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// What is harmed in the first cheap cells of a group, a line for each figure.
fn harm(group: Group) -> String {
    let cheap = |cell: &Cell| cell.packets() < CHEAP;
    let cells: Vec<Cell> = draw(group, SEED, 100).into_iter().filter(cheap).collect();
    assert!(cells.len() >= CELLS);
    let mut harmed = String::new();
    for cell in cells.into_iter().take(CELLS) {
        for roles in LAWS {
            let baseline = Roles {
                law: "cubic",
                ..roles
            };
            let figures = judge(&run(cell, roles), &run(cell, baseline));
            assert!(figures.len() >= 3, "{cell}: {figures:?}");
            for figure in figures.iter().filter(|figure| figure.harm) {
                let _ = writeln!(
                    harmed,
                    "{cell} {}: {} {:.4} (cubic {:.4}), {:.2} times the bound",
                    roles.law, figure.condition, figure.law, figure.cubic, figure.beyond
                );
            }
        }
    }
    harmed
}

#[test]
fn outages_and_low_rates() {
    assert_eq!(harm(Group::Outage), "");
}

#[test]
fn several_bottlenecks() {
    assert_eq!(harm(Group::Hops), "");
}

#[test]
fn jitter_and_short_paths() {
    assert_eq!(harm(Group::Jitter), "");
}
