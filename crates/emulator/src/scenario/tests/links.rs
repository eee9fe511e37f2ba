//! Links: losses, queues, shared media, and routing.

use super::*;

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
            "loss = {{ kind = \"fading\", snr = 35, fade = 10.5, p_good_bad = 1e-6, p_bad_good = \
             1e-4, {more} }}"
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

/// Otherwise a run would fail on these only after all earlier ones of its sweep.
#[test]
fn red_that_cannot_work_is_refused() {
    let queue = "kind = \"droptail\", limit = \"1bdp\"";
    let red = |keys: &str| format!("kind = \"red\", limit = \"1bdp\", {keys}");
    for (keys, part) in [
        ("weight = 0", "RED: `weight` must be above 0"),
        ("weight = 1e-300", "RED: `weight` must be above 0"),
        ("mean_packet = 0", "RED: `mean_packet` must be above 0"),
        ("min = 15", "RED: `min` must be below `max`"),
        ("max = 5", "RED: `min` must be below `max`"),
    ] {
        fails(queue, &red(keys), &[":20:", "queue", part]);
    }
}

#[test]
fn traces_are_read_from_the_scenarios_directory() {
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
    let tried = |name: &str| format!("cannot read {}: ", directory.path().join(name).display());
    refused(
        "{ trace = \"no.trace\" }",
        [
            ":18:",
            "rate",
            &format!("{}No such file", tried("no.trace")),
        ],
    );
    // The message must show the full path even if the scenario's is relative.
    let text = GOOD.replacen("\"10Mbit\"", "{ trace = \"no.trace\" }", 1);
    let here = std::env::current_dir().unwrap().join("no.trace");
    let error = parse(&text).unwrap_err();
    assert!(
        error.contains(&format!("cannot read {}", here.display())),
        "{error}"
    );
    // A pipe without a writer must be refused, because opening it for reading would block.
    let pipe = directory.path().join("pipe.trace");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    refused(
        "{ trace = \"pipe.trace\" }",
        [":18:", &tried("pipe.trace"), "a regular file is needed"],
    );
    refused(
        "{ trace = \"bad.trace\" }",
        [
            ":18:",
            &tried("bad.trace"),
            "line 2 of the trace is earlier",
        ],
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
fn an_unlimited_flow_over_an_unlimited_path_is_refused() {
    let text = |link: &str, flow: &str| {
        format!(
            "duration = \"1s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\n\
             {link}\n[[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\n{flow}"
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
