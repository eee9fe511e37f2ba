//! Changed keys, variants and sweeps.

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
    fails("rate", "5Mbit", "link.NAME.rate");
    fails("", "5", "KEY=VALUE");
}

#[test]
fn variants_sweeps_and_what_papers_state() {
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
    let [a, b] = &scenario.variants[..] else {
        panic!("two variants")
    };
    assert_eq!((a.name.as_str(), a.set.len()), ("a", 2));
    assert_eq!(b.set[1].key, "link.bottleneck.queue");
    let sweeps = scenario.sweeps.iter();
    let sweeps: Vec<_> = sweeps.map(|s| (s.key.as_str(), s.points.len())).collect();
    assert_eq!(sweeps, [("flow.ftp.count", 2), ("seed", 2)]);

    // GOOD has a measuring window from 10 to 20 s.
    for good in [
        "[[paper]]\nsays = \"x\"\nduring = [\"10s\", \"20s\"]",
        "[[paper]]\nsays = \"x\"\npayload_share = 0.9",
        "[[plot]]\nshow = \"losses\"\nflow = \"ftp1\"",
    ] {
        parse(&and(good)).unwrap();
    }
    let rows = r#"
        [[paper]]¶says = "x"¶variant = "c" => no variant
        [[paper]]¶says = "x"¶during = ["10s", "30s"] => no such window
        [[paper]]¶says = "x"¶payload_share = 0.0 => payload_share: a number above 0
        [[paper]]¶says = "x"¶payload_share = 1.1 => payload_share: a number above 0
        [[paper]]¶says = "x"¶payload_share = nan => payload_share: a number above 0
        [[plot]]¶show = "losses"¶flow = "http" => no flow `http`
    "#;
    refused(|more| and(&format!("{several}{more}")), rows);
    refused(and, "[sweep]¶seed = [] => list of values");
    let twice = |name: &str| and(&several.replace("\"b\"", name));
    refused(twice, "\"a\" => names of their own");
}

#[test]
fn built_in_scenarios_are_right_and_unknown_names_are_refused() {
    for known in BUILT_IN {
        let scenario = Scenario::load(known.name).unwrap();
        assert_eq!(scenario.id(), known.name);
        // A note must explain the results.
        let note = scenario.note.as_deref().unwrap_or("");
        assert!(note.len() > 20, "{}: {note}", known.name);
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
    let [sweep] = &scenario.sweeps[..] else {
        panic!("one sweep")
    };
    let names: Vec<_> = sweep.points.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["2x2", "1x1"]);
    let set = |point: usize| {
        let set = sweep.points[point].set.iter();
        set.map(|change| format!("{}={}", change.key, change.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        set(0),
        ["link.access.delay=2ms", "link.bottleneck.delay=1ms"]
    );
    assert_eq!(
        set(1),
        ["link.access.delay=4ms", "link.bottleneck.delay=3ms"]
    );
}

#[test]
fn a_where_names_a_sweep_and_one_of_its_values() {
    let sweep = "[sweep]\nseed = [3, 4]\n";
    for table in [
        "[[plot]]\nshow = \"goodput\"\n",
        "[[paper]]\nsays = \"x\"\nmetric = \"goodput\"\n",
    ] {
        let only = |keys: &str| and(&format!("{sweep}{table}where = {{ {keys} }}"));
        parse(&only("seed = \"4\"")).unwrap();
        refused(only, "seeds = \"3\" => no sweep of `seeds`");
        refused(only, "seed = \"5\" => no value `5`");
    }
}
