//! Files as people write them, and the errors that they get.

use std::path::Path;

use pathmark_cc::Duration;
use pathmark_router::core::queue::Limit;

use super::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("test.toml"), text).map_err(|error| error.to_string())
}

const GOOD: &str = r#"name = "test"
duration = "60s"
packet = 1040
measure = [["10s", "20s"]]

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
queue = { kind = "droptail", limit = "1bdp" }
controller = "vcp"
loss = { kind = "bernoulli", per = 1e-3 }
at = [ { t = "30s", rate = "5Mbit" } ]
reverse = { rate = "1Mbit", loss = { kind = "bernoulli", per = 0.01 } }

[[flow]]
name = "ftp"
from = "S"
to = "D"
algorithm = "vcp"
count = 3
bytes = 5_000_000
start = ["0s", "1s", "2.5s"]
stop = "50s"
receive_window = "64KiB"
packet = 600
"#;

#[test]
fn a_whole_file() {
    let scenario = parse(GOOD).unwrap();
    assert_eq!(scenario.nodes, ["S", "R", "D"]);
    let names: Vec<_> = scenario.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "access",
            "access.reverse",
            "bottleneck",
            "bottleneck.reverse"
        ]
    );
    let [_, _, there, back] = &scenario.links[..] else {
        panic!("four directions")
    };
    assert_eq!(there.spec.rate.unwrap().bytes(), 1_250_000);
    assert_eq!(there.spec.limit(there.rtt), Limit::Bytes(500_000));
    assert_eq!(back.spec.rate.unwrap().bytes(), 125_000);
    assert_eq!(back.spec.delay, there.spec.delay);
    assert_eq!(back.spec.limit(back.rtt), Limit::Packets(100_000));
    assert!(back.spec.controller.is_none() && back.spec.at.is_empty());
    assert_ne!(back.spec.loss, there.spec.loss);
    let flows = &scenario.flows;
    let names: Vec<_> = flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["ftp0", "ftp1", "ftp2"]);
    assert_eq!(flows[2].start, Duration::from_millis(2_500));
    assert_eq!(flows[0].path, [vec![0, 2], vec![3, 1]]);
    assert_eq!(flows[0].receive_window, Some(65_536));
    assert_eq!(flows[0].packet, 600);
    assert_eq!(scenario.id(), "test");
}

/// Replaces a piece of the good file; the error must hold all of `expected`.
fn fails(from: &str, to: &str, expected: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
    assert!(error.starts_with("test.toml:"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    for part in expected {
        assert!(error.contains(part), "{error}\nlacks {part}");
    }
}

#[test]
fn unknown_names_suggest_the_nearest() {
    fails("delay = \"1ms\"", "dealy = \"1ms\"", &[":11:", "`delay`"]);
    fails("duration", "durration", &[":2:", "`duration`"]);
    fails(
        "algorithm = \"vcp\"",
        "algorithm = \"vpc\"",
        &[":30:", "algorithm", "did you mean `vcp`"],
    );
    fails(
        "controller = \"vcp\"",
        "controller = \"vcp[kapa=1]\"",
        &[":21:", "controller", "did you mean `kappa`"],
    );
    fails(
        "reverse = { rate",
        "reverse = { rat",
        &[":24:", "did you mean `rate`"],
    );
    fails("[[flow]]", "[[flwo]]", &["did you mean `flow`"]);
    let node = "name = \"ftp\"\nfrom = \"S\"";
    fails(
        node,
        "name = \"ftp\"\nfrom = \"s\"",
        &[":28:", "from:", "no link", "did you mean"],
    );
}

#[test]
fn impossible_demands() {
    fails("10Mbit", "7bit", &[":18:", "rate", "at least 8bit"]);
    fails("10Mbit", "10Mb", &[":18:", "rate", "10Mbit"]);
    fails("\"1bdp\"", "\"1000B\"", &[":20:", "cannot hold one packet"]);
    fails("\"1bdp\"", "\"0p\"", &[":20:", "room for a packet"]);
    fails("\"1bdp\"", "\"0.001bdp\"", &[":20:"]);
    fails("rate = \"10Mbit\"\n", "", &["controller", "add `rate`"]);
    fails("\"60s\"", "\"0s\"", &[":2:", "duration"]);
    fails("\"20s\"]]", "\"10s\"]]", &[":4:", "ends after it begins"]);
    fails("\"20s\"]]", "\"61s\"]]", &[":4:", "raise `duration`"]);
    fails("packet = 1040", "packet = 100", &[":3:", "512"]);
    fails("\"2.5s\"]", "\"60s\"]", &[":33:", "starts after the run"]);
    fails(", \"2.5s\"]", "]", &[":33:", "2 times for 3 flows"]);
    fails("count = 3", "count = 0", &[":31:", "count"]);
    fails("stop = \"50s\"", "stop = \"2s\"", &[":34:", "stops before"]);
    fails("to = \"R\"", "to = \"S\"", &[":9:", "comes from"]);
    fails("\"bottleneck\"", "\"access\"", &[":14:", "already"]);
    fails(
        "duplex = true\ndelay = \"1ms\"",
        "delay = \"1ms\"",
        &[":28:", "no way back from `D` to `S`"],
    );
    fails(
        "from = \"S\"\nto = \"R\"",
        "from = \"S\"\nto = \"X\"",
        &[":29:", "no way leads from `S` to `D`"],
    );
    assert!(parse("duration = \"1s\"").unwrap_err().contains("[[link]]"));
    let lonely = GOOD.split("[[flow]]").next().unwrap();
    assert!(parse(lonely).unwrap_err().contains("[[flow]]"));
}

#[test]
fn codes_that_cannot_be() {
    let with = |fec: &str| {
        format!("loss = {{ kind = \"bit-errors\", ber_good = 1e-6, fec = {{ {fec} }} }}")
    };
    let loss = "loss = { kind = \"bernoulli\", per = 1e-3 }";
    let coded = |fec: &str| parse(&GOOD.replacen(loss, &with(fec), 1));
    assert!(coded("rate = 0.9").is_ok());
    assert!(coded("block = 255, corrects = 8, short = { below = 100, rate = 0.5 }").is_ok());
    fails(loss, &with(""), &[":22:", "either `rate`", "or `corrects`"]);
    fails(loss, &with("rate = 0.9, corrects = 1"), &[":22:", "either"]);
    fails(loss, &with("rate = 1.1"), &[":22:", "1.1 is not between"]);
    fails(loss, &with("rate = 0.0"), &[":22:", "raise `rate`"]);
    let full = with("block = 16, corrects = 8");
    fails(loss, &full, &[":22:", "16 bytes have no room"]);
    fails(loss, &with("rat = 0.9"), &[":22:", "did you mean `rate`"]);
}

#[test]
fn bursts_and_fading() {
    let loss = "loss = { kind = \"bernoulli\", per = 1e-3 }";
    let fading = |more: &str| {
        format!(
            "loss = {{ kind = \"fading\", snr = 35, fade = 10.5, p_good_bad = 1e-6, p_bad_good = 1e-4, {more} }}"
        )
    };
    for right in [
        "loss = { kind = \"bursts\", per = 0.03, burst = 16 }".to_owned(),
        fading("antennas = \"2x1\""),
        fading("antennas = \"1x8\", fec = { rate = 0.9 }"),
    ] {
        let found = parse(&GOOD.replacen(loss, &right, 1));
        assert!(found.is_ok(), "{found:?}");
    }
    let short = "loss = { kind = \"bursts\", per = 0.03, burst = 0.5 }";
    fails(loss, short, &[":22:", "1 to 1000000"]);
    fails(
        loss,
        &fading("antennas = \"9x1\""),
        &[":22:", "SENDxRECEIVE"],
    );
    fails(
        loss,
        &fading("antennas = \"two\""),
        &[":22:", "SENDxRECEIVE"],
    );
    let loud = fading("antennas = \"1x1\"").replace("35", "350");
    fails(loss, &loud, &[":22:", "350 dB"]);
}

#[test]
fn keys_of_another_kind_of_queue_are_refused() {
    let queue = "kind = \"droptail\", limit = \"1bdp\"";
    let own = &[
        ":20:",
        "queue",
        "`min` belongs to kind = \"red\"",
        "instead of \"droptail\"",
    ];
    fails(queue, &format!("{queue}, min = 3"), own);
    let codel = "kind = \"codel\", limit = \"1bdp\", gentle = true";
    fails(queue, codel, &[":20:", "`gentle`", "\"red\"", "\"codel\""]);
    let red = "kind = \"red\", limit = \"1bdp\", target = \"5ms\"";
    fails(queue, red, &[":20:", "`target`", "leave `target` out"]);
    fails(
        queue,
        &format!("{queue}, mni = 3"),
        &[":20:", "did you mean `min`"],
    );
}

#[test]
fn traces_are_read_beside_the_scenario() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cell.trace"), "1\n2\n2\n4\n").unwrap();
    std::fs::write(directory.path().join("bad.trace"), "1\n0\n").unwrap();
    let read = |rate: &str| {
        let text = GOOD.replacen("at = [ { t = \"30s\", rate = \"5Mbit\" } ]\n", "", 1);
        let text = text.replacen("\"10Mbit\"", rate, 1);
        Scenario::parse(&directory.path().join("test.toml"), &text).map_err(|e| e.to_string())
    };
    let scenario = read("{ trace = \"cell.trace\" }").unwrap();
    let [_, _, there, back] = &scenario.links[..] else {
        panic!("four directions")
    };
    assert_eq!(there.spec.rate.unwrap().bytes(), 1_500_000);
    assert!(there.spec.trace.is_some() && back.spec.trace.is_none());
    let refused = |rate: &str, parts: [&str; 3]| {
        let error = read(rate).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error}\nlacks {part}");
        }
    };
    refused(
        "{ trace = \"no.trace\" }",
        [":18:", "rate", "no.trace: No such file"],
    );
    refused(
        "{ trace = \"bad.trace\" }",
        [":18:", "bad.trace", "line 2 of the trace is earlier"],
    );
    refused(
        "{ trcae = \"x\" }",
        [":18:", "rate", "did you mean `trace`"],
    );
    let both = GOOD.replacen("\"10Mbit\"", "{ trace = \"cell.trace\" }", 1);
    let both = Scenario::parse(&directory.path().join("test.toml"), &both);
    assert!(
        both.unwrap_err()
            .to_string()
            .contains("leave `rate` out of `at`")
    );
}

#[test]
fn media_are_shared_by_name() {
    let shared = GOOD.replace(
        "duplex = true\nrate",
        "duplex = true\nmedium = \"hub\"\nrate",
    );
    let scenario = parse(&shared).unwrap();
    assert_eq!(scenario.media, ["hub"]);
    let media: Vec<_> = scenario.links.iter().map(|link| link.medium).collect();
    assert_eq!(media, [None, None, Some(0), Some(0)]);
    fails(
        "delay = \"1ms\"",
        "medium = \"hub\"",
        &[":11:", "medium", "add `rate`"],
    );
    let trace = "medium = \"hub\"\nrate = { trace = \"x\" }";
    fails(
        "rate = \"10Mbit\"",
        trace,
        &[":18:", "medium", "shares no medium"],
    );
    fails(
        "delay = \"1ms\"",
        "rate = \"1Mbit\"\nmedium = \"\"",
        &[":12:", "needs a name"],
    );
}

#[test]
fn sources_that_cannot_be() {
    let with = |line: &'static str| format!("algorithm = \"vcp\"\n{line}");
    fails(
        "algorithm = \"vcp\"",
        "algorithm = \"udp\"",
        &["udp", "bytes"],
    );
    fails("algorithm = \"vcp\"", &with("poisson = true"), &["`rate`"]);
    let on_off = with("on_off = { on = \"1s\", off = \"1s\" }");
    fails("algorithm = \"vcp\"", &on_off, &["`on_off` needs a `rate`"]);
    let on_off = with("rate = \"1Mbit\"\non_off = { on = \"1s\", off = \"0s\" }");
    fails("algorithm = \"vcp\"", &on_off, &["longer than 0"]);
    fails(
        "algorithm = \"vcp\"",
        &with("rate = \"1bit\""),
        &["at least 8bit"],
    );
    let silent = GOOD
        .replace("bytes = 5_000_000\n", "")
        .replace("algorithm = \"vcp\"", "algorithm = \"udp\"");
    assert!(parse(&silent).unwrap_err().contains("needs a `rate`"));
}

#[test]
fn forged_shims() {
    let with = |line: &str| format!("algorithm = \"vcp\"\n{line}");
    let vcp = with("forge = { shim = \"vcp\" }");
    fails("algorithm = \"vcp\"", &vcp, &["only flows of udp"]);
    let udp = |forge: &str| {
        GOOD.replace("bytes = 5_000_000\n", "").replace(
            "algorithm = \"vcp\"",
            &format!("algorithm = \"udp\"\nrate = \"1Mbit\"\nforge = {forge}"),
        )
    };
    let flow = parse(&udp("{ shim = \"xcp\", ports = \"100ms\" }")).unwrap();
    let forge = flow.flows[0].forge.unwrap();
    assert_eq!(forge.shim, ForgedShim::Xcp);
    assert_eq!(forge.rtt, Duration::from_millis(20));
    assert_eq!(forge.ports, Some(Duration::from_millis(100)));
    for (forge, says) in [
        ("{ shim = \"vcq\" }", "vcq"),
        ("{ shim = \"vcp\", ports = \"0s\" }", "longer than 0"),
        ("{ shim = \"vcp\", port = \"1s\" }", "port"),
    ] {
        let error = parse(&udp(forge)).unwrap_err();
        assert!(error.contains(says), "{forge}: {error}");
    }
}

#[test]
fn udp_has_smaller_packets_than_a_handshake_fits() {
    let text = |law: &str, packet: u32| {
        format!(
            "duration = \"1s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\nrate = \"1Mbit\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\nrate = \"9kbit\"\nalgorithm = \"{law}\"\npacket = {packet}"
        )
    };
    assert_eq!(parse(&text("udp", 64)).err(), None);
    assert!(parse(&text("udp", 63)).unwrap_err().contains("from 64 to"));
    assert!(parse(&text("vcp", 64)).unwrap_err().contains("from 512 to"));
}

#[test]
fn an_unlimited_flow_over_an_unlimited_path_is_refused() {
    let text = |link: &str, flow: &str| {
        format!(
            "duration = \"1s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\n{link}\n[[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\n{flow}"
        )
    };
    let refused = |link, flow| parse(&text(link, flow)).unwrap_err();
    assert!(refused("delay = \"1ms\"", "").contains("give a link a `rate`"));
    assert!(refused("", "bytes = 1000").contains("give a link a `rate`"));
    assert!(parse(&text("delay = \"1ms\"", "bytes = 1000")).is_ok());
    assert!(parse(&text("rate = \"1Mbit\"", "")).is_ok());
}

#[test]
fn routes_are_shortest_by_delay_then_by_links() {
    let text = r#"duration = "1s"
        link = [
          { name = "slow", from = "A", to = "C", duplex = true, rate = "1Mbit", delay = "30ms" },
          { name = "one", from = "A", to = "B", duplex = true, rate = "1Mbit", delay = "10ms" },
          { name = "two", from = "B", to = "C", duplex = true, rate = "1Mbit", delay = "10ms" },
          { name = "same", from = "A", to = "C", rate = "1Mbit", delay = "20ms" },
        ]
        flow = [ { name = "f", from = "A", to = "C" } ]"#;
    let scenario = parse(text).unwrap();
    let way = |direction: usize| -> Vec<&str> {
        let way = scenario.flows[0].path[direction].iter();
        way.map(|link| scenario.links[*link].name.as_str())
            .collect()
    };
    assert_eq!(way(0), ["same"]);
    assert_eq!(way(1), ["two.reverse", "one.reverse"]);
}

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
fn built_in_scenarios_are_right_and_unknown_names_are_told() {
    for known in BUILT_IN {
        let scenario = Scenario::load(known.name).unwrap();
        assert_eq!(scenario.id(), known.name);
        let runs = crate::sweep::cases(&scenario, &[], &[]).unwrap();
        assert!(runs.len() >= scenario.variants.len());
        // Readers of the results are told what to make of them.
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

#[test]
fn starts_are_spread_by_the_seed() {
    let text = GOOD.replace("start = ", "start_spread = \"1s\"\nstart = ");
    assert_ne!(text, GOOD);
    let starts = |seed: &str| {
        let mut scenario = parse(&text).unwrap();
        scenario.set("seed", seed).unwrap();
        let plain = parse(GOOD).unwrap();
        let pairs = scenario.flows.iter().zip(&plain.flows);
        pairs.map(|(a, b)| a.start - b.start).collect::<Vec<_>>()
    };
    assert_eq!(starts("5"), starts("5"));
    assert_ne!(starts("5"), starts("6"));
    assert!(
        starts("5")
            .iter()
            .all(|late| *late < Duration::from_secs(1))
    );
}
