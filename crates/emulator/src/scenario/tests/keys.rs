//! Keys that are changed, variants and sweeps.

use super::*;

#[test]
fn keys_are_changed_one_by_one() {
    let mut scenario = parse(GOOD).unwrap();
    scenario.set("duration", "5min").unwrap();
    scenario.set("flow.ftp.algorithm", "cubic[iw=4]").unwrap();
    scenario.set("link.*.delay", "10ms").unwrap();
    scenario.set("link.bottleneck.queue.limit", "100p").unwrap();
    scenario
        .set("link.access.loss", "{ kind = \"bernoulli\", per = 0.5 }")
        .unwrap();
    scenario.set("flow.ftp.bytes", "100").unwrap();
    assert_eq!(scenario.duration, Duration::from_secs(300));
    assert_eq!(scenario.flows[0].algorithm_name(), "cubic[iw=4]");
    assert_eq!(scenario.flows[2].bytes, Some(100));
    assert_eq!(scenario.links[1].spec.delay.0, Duration::from_millis(10));
    assert_eq!(scenario.links[2].spec.limit(None), Limit::Packets(100));
    let mut fails = |key: &str, value: &str, expected: &str| {
        let before = format!("{scenario:?}");
        let error = scenario.set(key, value).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{key}={value}: ")), "{error}");
        assert!(error.contains(expected), "{error}\nlacks {expected}");
        assert_eq!(format!("{scenario:?}"), before);
    };
    fails("durration", "5s", "did you mean `duration`");
    fails("link.bottlenek.rate", "5Mbit", "did you mean `bottleneck`");
    fails("link.bottleneck.rte", "5Mbit", "did you mean `rate`");
    fails("link.bottleneck.rate", "0", "at least 8bit");
    fails("link.bottleneck", "5", "link.NAME.KEY");
    fails("duration.x", "5", "`duration` is no table");
    fails("", "5", "KEY=VALUE");
}

#[test]
fn variants_and_sweeps_of_a_scenario_give_way_to_what_is_asked_for() {
    let several = r#"
[sweep]
"flow.ftp.count" = [1, 2]
"seed" = [3, 4]
[[variant]]
name = "a"
set = { "flow.ftp.start" = 0, "flow.ftp.algorithm" = "cubic" }
[[variant]]
name = "b"
set = { "flow.ftp.start" = 0, "link.bottleneck.queue" = { kind = "codel", limit = "100p" } }
"#;
    let scenario = parse(&format!("{GOOD}{several}")).unwrap();
    let runs = |changes: &[&str], sweeps: &[&str]| {
        let changes: Vec<_> = changes.iter().map(|c| c.parse().unwrap()).collect();
        let sweeps: Vec<_> = sweeps.iter().map(|s| s.parse().unwrap()).collect();
        crate::sweep::cases(&scenario, &changes, &sweeps).unwrap()
    };
    let all = runs(&[], &[]);
    assert_eq!(all.len(), 8);
    let of = |index: usize| {
        let (case, scenario) = &all[index];
        (
            case.variant.as_deref().unwrap(),
            scenario.flows.len(),
            scenario.seed,
        )
    };
    assert_eq!(
        (of(0), of(3), of(7)),
        (("a", 1, 3), ("a", 2, 4), ("b", 2, 4))
    );
    assert_eq!(all[0].1.flows[0].algorithm_name(), "cubic");
    assert_eq!(runs(&["seed=9"], &[]).len(), 4);
    assert!(runs(&["seed=9"], &[]).iter().all(|(_, run)| run.seed == 9));
    assert_eq!(runs(&[], &["seed=1..5"]).len(), 20);

    let paper = "[[paper]]\nsays = \"x\"\nvariant = \"c\"\n";
    let error = parse(&format!("{GOOD}{several}{paper}")).unwrap_err();
    assert!(error.contains("no variant"), "{error}");
    // GOOD measures from 10 to 20 s.
    let paper = |window: &str| format!("{GOOD}[[paper]]\nsays = \"x\"\nduring = {window}\n");
    parse(&paper("[\"10s\", \"20s\"]")).unwrap();
    let error = parse(&paper("[\"10s\", \"30s\"]")).unwrap_err();
    assert!(error.contains("no such window"), "{error}");
    let paper = |share: &str| format!("{GOOD}[[paper]]\nsays = \"x\"\npayload_share = {share}\n");
    parse(&paper("0.9")).unwrap();
    for wrong in ["0.0", "1.1", "nan"] {
        let error = parse(&paper(wrong)).unwrap_err();
        assert!(error.contains("payload_share: a number above 0"), "{error}");
    }
    let plot = |flow: &str| format!("{GOOD}[[plot]]\nshow = \"losses\"\nflow = \"{flow}\"\n");
    parse(&plot("ftp1")).unwrap();
    let error = parse(&plot("http")).unwrap_err();
    assert!(error.contains("no flow `http`"), "{error}");
    let error = parse(&format!("{GOOD}[sweep]\nseed = []\n")).unwrap_err();
    assert!(error.contains("list of values"), "{error}");
    let twice = several.replace("\"b\"", "\"a\"");
    assert!(
        parse(&format!("{GOOD}{twice}"))
            .unwrap_err()
            .contains("names of their own")
    );
}

#[test]
fn built_in_scenarios_are_right_and_unknown_names_are_refused() {
    for known in BUILT_IN {
        let scenario = Scenario::load(known.name).unwrap();
        assert_eq!(scenario.id(), known.name);
        let runs = crate::sweep::cases(&scenario, &[], &[]).unwrap();
        assert!(runs.len() >= scenario.variants.len());
        // A note explains the results to their readers.
        let note = scenario.note.as_deref().unwrap_or("");
        assert!(note.len() > 80, "{}: {note}", known.name);
    }
    let error = Scenario::load("five-file").unwrap_err().to_string();
    assert!(error.contains("did you mean `five-files`"), "{error}");
    let error = Scenario::load("/").unwrap_err().to_string();
    assert!(error.contains("cannot read /"), "{error}");
}

#[test]
fn a_sweep_may_run_over_named_sets_of_keys() {
    let several = r#"
[sweep]
antennas = [
  { name = "2x2", set = { "link.bottleneck.delay" = "1ms", "link.access.delay" = "2ms" } },
  { name = "1x1", set = { "link.bottleneck.delay" = "3ms", "link.access.delay" = "4ms" } },
]
[[plot]]
show = "completion"
where = { antennas = "2x2" }
[[plot]]
show = "windows"
"#;
    let top = "repeat = { seeds = 3, paper = 100 }";
    let scenario = parse(&format!("{top}\n{GOOD}{several}")).unwrap();
    assert_eq!((scenario.repeat.seeds, scenario.repeat.paper), (3, 100));
    assert_eq!(scenario.plots[0].show, Shown::Metric(Metric::Completion));
    assert_eq!(scenario.plots[1].show, Shown::Quantity(Quantity::Windows));
    let runs = crate::sweep::cases(&scenario, &[], &[]).unwrap();
    let of = |index: usize| {
        let (case, scenario): &(crate::sweep::Case, Scenario) = &runs[index];
        let delay = |link: &str| {
            let found = scenario.links.iter().find(|l| l.name == link).unwrap();
            found.spec.delay.0.as_millis()
        };
        (
            case.set["antennas"].as_str(),
            delay("bottleneck"),
            delay("access"),
        )
    };
    assert_eq!((of(0), of(1)), (("2x2", 1, 2), ("1x1", 3, 4)));
}

#[test]
fn a_where_names_a_sweep_and_one_of_its_values() {
    let sweep = "[sweep]\nseed = [3, 4]\n";
    let tried = |what: &str, only: &str| {
        let text = format!("{GOOD}{sweep}[[{what}]]\n{only}\n");
        parse(&text).map(|_| ()).unwrap_err()
    };
    let plot = "show = \"goodput\"\nwhere";
    let paper = "says = \"x\"\nmetric = \"goodput\"\nwhere";
    for (what, keys) in [("plot", plot), ("paper", paper)] {
        let error = tried(what, &format!("{keys} = {{ seeds = \"3\" }}"));
        assert!(error.contains("no sweep of `seeds`"), "{error}");
        let error = tried(what, &format!("{keys} = {{ seed = \"5\" }}"));
        assert!(error.contains("no value `5`"), "{error}");
        let good = format!("{GOOD}{sweep}[[{what}]]\n{keys} = {{ seed = \"4\" }}\n");
        parse(&good).unwrap();
    }
}
