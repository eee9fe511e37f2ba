//! The runs of scenarios with variants and sweeps.

use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::BUILT_IN;
use pathmark_lab::sweep::{Case, cases};

const PATH: &str = r#"
duration = "60s"
[[link]]
name = "access"
from = "S"
to = "R"
duplex = true
delay = "1ms"
[[link]]
name = "bottleneck"
from = "R"
to = "D"
duplex = true
rate = "10Mbit"
delay = "199ms"
controller = "vcp"
[[flow]]
name = "ftp"
from = "S"
to = "D"
algorithm = "vcp"
count = 3
start = "1s"
"#;

/// The path with more keys.
fn scenario(more: &str) -> Scenario {
    Scenario::parse(Path::new("test.toml"), &format!("{PATH}{more}")).unwrap()
}

fn runs(scenario: &Scenario, changes: &[&str], sweeps: &[&str]) -> Vec<(Case, Scenario)> {
    let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
    let sweeps: Vec<_> = sweeps.iter().map(|text| text.parse().unwrap()).collect();
    cases(scenario, &changes, &sweeps).unwrap()
}

#[test]
fn variants_and_sweeps_of_a_scenario_give_way_to_what_is_asked_for() {
    let scenario = scenario(
        r#"
[sweep]
"flow.ftp.count" = [1, 2]
"seed" = [3, 4]
[[variant]]
name = "a"
set = { "flow.ftp.start" = 0, "flow.ftp.algorithm" = "cubic" }
[[variant]]
name = "b"
set = { "flow.ftp.start" = 0, "link.bottleneck.queue" = { kind = "codel", limit = "100p" } }
"#,
    );
    let runs = |changes: &[&str], sweeps: &[&str]| runs(&scenario, changes, sweeps);
    let all = runs(&[], &[]);
    assert_eq!(all.len(), 8);
    let of = |index: usize| {
        let (case, scenario) = &all[index];
        let variant = case.variant.as_deref().unwrap();
        (variant, scenario.flows.len(), scenario.seed)
    };
    assert_eq!([0, 3, 7].map(of), [("a", 1, 3), ("a", 2, 4), ("b", 2, 4)]);
    assert_eq!(all[0].1.flows[0].algorithm_name(), "cubic");
    assert_eq!(runs(&["seed=9"], &[]).len(), 4);
    assert!(runs(&["seed=9"], &[]).iter().all(|(_, run)| run.seed == 9));
    assert_eq!(runs(&[], &["seed=1..5"]).len(), 20);
}

#[test]
fn built_in_scenarios_have_a_run_for_each_variant() {
    for known in BUILT_IN {
        let scenario = Scenario::load(known.name).unwrap();
        let runs = cases(&scenario, &[], &[]).unwrap();
        assert!(runs.len() >= scenario.variants.len(), "{}", known.name);
    }
}

#[test]
fn a_sweep_may_run_over_named_sets_of_keys() {
    let scenario = scenario(
        r#"
[sweep]
antennas = [
  { name = "2x2", set = { "link.bottleneck.delay" = "1ms", "link.access.delay" = "2ms" } },
  { name = "1x1", set = { "link.bottleneck.delay" = "3ms", "link.access.delay" = "4ms" } },
]
"#,
    );
    let all = runs(&scenario, &[], &[]);
    let of = |index: usize| {
        let (case, scenario) = &all[index];
        let delay = |link: &str| {
            let found = scenario.links.iter().find(|l| l.name == link).unwrap();
            found.spec.delay.0.as_millis()
        };
        let name = case.set["antennas"].as_str();
        (name, delay("bottleneck"), delay("access"))
    };
    assert_eq!([0, 1].map(of), [("2x2", 1, 2), ("1x1", 3, 4)]);
    let named = |changes: &[&str], sweeps: &[&str]| -> Vec<String> {
        let runs = runs(&scenario, changes, sweeps);
        let names = runs.iter().map(|(case, _)| case.set["antennas"].clone());
        names.collect()
    };
    assert_eq!(named(&["antennas=1x1"], &[]), ["1x1"]);
    assert_eq!(named(&["seed=3"], &["antennas=1x1,2x2"]), ["1x1", "2x2"]);
    let unknown = cases(&scenario, &["antennas=4x4".parse().unwrap()], &[]);
    assert!(unknown.is_err(), "neither a point nor a key");
}
