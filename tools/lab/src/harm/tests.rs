//! Cells, their names, and their scenarios.

use std::path::Path;

use super::*;
use pathmark_emulator::Scenario;

const ROLES: Roles<'_> = Roles {
    law: "vcp+bise+wlte",
    port: "vcp+bise",
    guest: "xcp",
};

fn read(text: &str) -> Scenario {
    let scenario = Scenario::parse(Path::new("cell.toml"), text);
    scenario.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_cell_drawn_is_a_scenario_and_reads_back() {
    for group in Group::ALL {
        for seed in 0..20 {
            let cells = draw(group, seed, 60);
            assert_eq!(cells, draw(group, seed, 60));
            assert_eq!(cells[..20], draw(group, seed, 20));
            for cell in cells {
                let name = cell.to_string();
                assert_eq!(name.parse(), Ok(cell.clone()), "{name}");
                assert_eq!(cell.group(), group);
                let text = cell.scenario(seed, ROLES);
                assert_eq!(read(&text).name, name);
                assert!(cell.packets() <= 1.6e6, "{name}: {}", cell.packets());
                assert!(cell.seconds() >= 3.9, "{name}: {}", cell.seconds());
            }
        }
    }
}

#[test]
fn laws_differ_in_our_flows_alone() {
    let cell: Cell = "flows/ports-10M-2+1-x1-20ms".parse().unwrap();
    let laws = |law| {
        let flows = read(&cell.scenario(7, Roles { law, ..ROLES }))
            .flows
            .into_iter();
        let shown = flows.map(|flow| (flow.name.clone(), flow.algorithm_name(), flow.start));
        shown.collect::<Vec<_>>()
    };
    let (ours, cubic) = (laws("vcp"), laws("cubic"));
    let names: Vec<_> = ours.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["ours0", "ours1", "tcp0", "guest0"]);
    for ((name, law, start), (_, baseline, same)) in ours.iter().zip(&cubic) {
        assert_eq!(start, same);
        if name.starts_with("ours") {
            assert_eq!((law.as_str(), baseline.as_str()), ("vcp", "cubic"));
        } else {
            assert_eq!(law, baseline);
        }
    }
}

#[test]
fn guests_of_every_kind_join_our_flows() {
    let flows = |name: &str| {
        let cell: Cell = name.parse().unwrap();
        let scenario = read(&cell.scenario(7, ROLES));
        let flows = scenario.flows.iter();
        let shown = flows.map(|flow| format!("{} {}", flow.name, flow.algorithm_name()));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        flows("flows/mixed-10M-1+1-x1-20ms"),
        [
            "ours0 vcp+bise+wlte",
            "tcp0 cubic",
            "guest-xcp-0 xcp",
            "guest-newreno-0 newreno",
            "guest-cubiq-0 cubiq",
        ]
    );
    let tiny = flows("flows/tiny-2M-1+0-30%-20ms");
    assert_eq!(tiny, ["ours0 vcp+bise+wlte", "guest0 udp"]);
}

#[test]
fn groups_share_any_number_of_cells() {
    assert_eq!(split(CELLS).iter().map(|(_, n)| n).sum::<usize>(), CELLS);
    for cells in 0..400 {
        let parts = split(cells);
        assert_eq!(parts.iter().map(|(_, n)| n).sum::<usize>(), cells);
    }
}

#[test]
fn names_have_one_spelling() {
    for wrong in [
        "",
        "hidden",
        "hidden/after",
        "hidden/after-100M-5M-8p-2+2",
        "hidden/after-100M-5M-8p-2+2-80ms-80ms",
        "hidden/after-0100M-5M-8p-2+2-80ms",
        "hidden/after-1000M-5M-8p-2+2-80ms",
        "hidden/after-100M-5M-0p-2+2-80ms",
        "hidden/after-100M-5M-8p-0+2-80ms",
        "hidden/after-100M-5M-1.0bdp-2+2-80ms",
        "loss/join-10M-5.0%-1+1-20ms",
        "loss/join-10M-0%-1+1-20ms",
        "loss/join-99999999999999999999G-5%-1+1-20ms",
        "nowhere/after-100M-5M-8p-2+2-80ms",
    ] {
        let error = wrong.parse::<Cell>().unwrap_err();
        assert!(!error.to_string().is_empty(), "{wrong}");
    }
}

/// Half of the cells have downloads over HTTP, and half have VCP's ports for `auto`; the halves
/// differ.
#[test]
fn coins_of_cells_are_fair() {
    let cells: Vec<Cell> = Group::ALL
        .into_iter()
        .flat_map(|group| draw(group, 5, 60))
        .collect();
    let http = |cell: &&Cell| cell.scenario(1, ROLES).contains("app = \"http\"");
    let vcp = |cell: &&Cell| cell.port_for_any() == "vcp+bise";
    let count = |wanted: &dyn Fn(&&Cell) -> bool| cells.iter().filter(wanted).count() as f64;
    let all = cells.len() as f64;
    for (share, expected) in [
        (count(&http), 0.5),
        (count(&vcp), 0.5),
        (count(&|cell| http(cell) && vcp(cell)), 0.25),
    ] {
        assert!((share / all - expected).abs() < 0.1, "{share} of {all}");
    }
}
