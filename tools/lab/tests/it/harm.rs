//! A small part of the harm grid: in the first cheap cells that a seed draws in a group, `auto`,
//! `vcp+bise+wlte` and `xcp` do no harm. Each law has one of the two cells, and both in the whole
//! sweep.
//!
//! `pathmark emulate --harm` runs the whole grid. The seed is the number of the chapter that
//! requires the grid, and was not selected for its figures.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_lab::harm::{Cell, Compared, Condition, Group, Roles, draw, judge};
use pathmark_testbed::sampled;

const SEED: u64 = 12;
/// Packets that enter links in a run, so that all runs together take seconds.
const CHEAP: f64 = 180_000.0;
/// Cells of each group.
const CELLS: usize = 2;

/// Laws, their ports, and the guests there.
const LAWS: [Roles<'_>; 3] = [
    roles("auto", "xcp", "vcp+bise+wlte"),
    roles("vcp+bise+wlte", "vcp+bise", "xcp"),
    roles("xcp", "xcp", "vcp+bise+wlte"),
];

const fn roles<'a>(law: &'a str, port: &'a str, guest: &'a str) -> Roles<'a> {
    Roles { law, port, guest }
}

fn run(cell: &Cell, roles: Roles<'_>) -> RunResult {
    run_seed(cell, SEED, roles)
}

fn run_seed(cell: &Cell, seed: u64, roles: Roles<'_>) -> RunResult {
    let text = cell.scenario(seed, roles);
    let scenario = Scenario::parse(Path::new("cell.toml"), &text).unwrap();
    scenario.run(|_| ControlFlow::Continue(())).unwrap()
}

/// A cell's figures with a law, compared with those with `cubic`.
fn compare(cell: &Cell, roles: Roles<'_>) -> Vec<Compared> {
    let baseline = Roles {
        law: "cubic",
        ..roles
    };
    let figures = judge(&run(cell, roles), &run(cell, baseline));
    assert!(figures.len() >= 3, "{cell}: {figures:?}");
    figures
}

/// Returns the harmed figures of a law in a cell, one per line.
fn harm_in(cell: &Cell, roles: Roles<'_>) -> String {
    let mut harmed = String::new();
    for figure in compare(cell, roles).iter().filter(|figure| figure.harm) {
        let _ = writeln!(
            harmed,
            "{cell} {}: {} {:.4} (cubic {:.4}), {:.2} times the bound",
            roles.law, figure.condition, figure.law, figure.cubic, figure.beyond
        );
    }
    harmed
}

/// Returns the harmed figures in the first cheap cells of a group.
fn harm(group: Group) -> String {
    let cheap = |cell: &Cell| cell.packets() < CHEAP;
    let cells: Vec<Cell> = draw(group, SEED, 100).into_iter().filter(cheap).collect();
    assert!(cells.len() >= CELLS);
    let cells = cells.into_iter().take(CELLS);
    sampled(
        2,
        cells.flat_map(|cell| LAWS.map(|roles| (cell.clone(), roles))),
    )
    .into_iter()
    .map(|(cell, roles)| harm_in(&cell, roles))
    .collect()
}

#[test]
fn outages_and_low_rates() {
    assert_eq!(harm(Group::Outage), "");
}

#[test]
fn several_bottlenecks() {
    // The slowest of VCP's four flows over five ports has less than half of the others' rate, so
    // goodput lost to fairness is not excused there. However, all four flows together get more than
    // with CUBIC.
    let cell: Cell = "hops/lot-5M-x5-x3-4+0-50p-240ms".parse().unwrap();
    let vcp = LAWS[1];
    let uneven = format!("{cell} {}: goodput", vcp.law);
    let harmed = harm(Group::Hops);
    let harmed: Vec<_> = harmed.lines().filter(|l| !l.starts_with(&uneven)).collect();
    assert_eq!(harmed, Vec::<&str>::new());
    let long = |law| {
        let result = run(&cell, Roles { law, ..vcp });
        let flows = result.flows.iter().filter(|f| f.name.starts_with("long"));
        flows.map(|f| f.goodput_bps).sum::<f64>()
    };
    let (own, cubic) = (long(vcp.law), long("cubic"));
    assert!(own > 1.3 * cubic, "{own} and {cubic} with CUBIC");
}

#[test]
fn jitter_and_short_paths() {
    assert_eq!(harm(Group::Jitter), "");
}

/// XCP's TTL shows that the hop behind the port has no XCP router, so losses there are congestion.
#[test]
fn hops_that_show_in_the_ttl() {
    let [_, _, xcp] = LAWS;
    let harmed: String = [
        "hidden/after-20M-10M-100p-20+0-80ms",
        "loss/forged-20M-10M-20p-5%-5+0-80ms",
    ]
    .map(|cell| harm_in(&cell.parse().unwrap(), xcp))
    .concat();
    assert_eq!(harmed, "");
}

/// Flows with one or two packets in flight lose a large share, whatever their law. Their class
/// keeps its share of the rate all the same.
#[test]
fn many_small_flows_keep_their_share() {
    let cell: Cell = "flows/many-10M-20+2-20ms".parse().unwrap();
    for roles in LAWS {
        let figures = compare(&cell, roles);
        let goodput = figures.iter().find(|c| c.condition == Condition::Goodput);
        let (law, cubic) = goodput.map(|c| (c.law, c.cubic)).unwrap();
        assert!(law >= 0.85 * cubic, "{}: {law} of {cubic}", roles.law);
    }
}

/// At a short queue a start's losses can look like a hidden hop's. The sender then has CUBIC's
/// window, and must give it back although the marked port continues to drop. Otherwise, it keeps
/// three times the others' rate until the end of the run.
#[test]
fn no_flow_keeps_cubics_window_at_a_marked_port_with_a_short_queue() {
    let cell: Cell = "flows/ports-10M-2+4-x3-20ms".parse().unwrap();
    let [_, vcp, _] = LAWS;
    for seed in 1..=4 {
        let result = run_seed(&cell, seed, vcp);
        let heard = result.flows.iter().filter(|f| !f.name.starts_with("tcp"));
        let rates: Vec<f64> = heard.map(|flow| flow.goodput_bps / 1e6).collect();
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        assert_eq!(rates.len(), 5);
        assert!(most <= 1.5 * least, "seed {seed}: {rates:?}");
    }
}
