//! Links: losses, queues, shared media, and routing.

use super::*;

const LOSS: &str = "loss = { kind = \"bernoulli\", per = 1e-3 }";

/// The good file with another loss of its bottleneck.
fn lossy(kind: &str) -> String {
    GOOD.replacen(LOSS, &format!("loss = {{ kind = {kind} }}"), 1)
}

#[test]
fn codes_that_cannot_be() {
    let with = |fec: &str| {
        lossy(&format!(
            "\"bit-errors\", ber_good = 1e-6, fec = {{ {fec} }}"
        ))
    };
    parse(&with("rate = 0.9")).unwrap();
    let short = "block = 255, corrects = 8, short = { below = 100, rate = 0.5 }";
    parse(&with(short)).unwrap();
    let rows = "
         => :22: => either `rate` => or `corrects`
        rate = 0.9, corrects = 1 => :22: => either
        rate = 1.1 => :22: => 1.1 is not between
        rate = 0.0 => :22: => raise `rate`
        block = 16, corrects = 8 => :22: => 16 bytes have no room
        rat = 0.9 => :22: => did you mean `rate`
    ";
    refused(with, rows);
}

#[test]
fn bursts_and_fading() {
    let fading = |keys: &str| {
        lossy(&format!(
            "\"fading\", fade = 10.5, p_good_bad = 1e-6, p_bad_good = 1e-4, {keys}"
        ))
    };
    parse(&lossy("\"bursts\", per = 0.03, burst = 16")).unwrap();
    parse(&fading("snr = 35, antennas = \"2x1\"")).unwrap();
    parse(&fading(
        "snr = 35, antennas = \"1x8\", fec = { rate = 0.9 }",
    ))
    .unwrap();
    refused(
        lossy,
        r#""bursts", per = 0.03, burst = 0.5 => :22: => 1 to 1000000"#,
    );
    let rows = r#"
        snr = 35, antennas = "9x1" => :22: => SENDxRECEIVE
        snr = 35, antennas = "two" => :22: => SENDxRECEIVE
        snr = 350, antennas = "1x1" => :22: => 350 dB
    "#;
    refused(fading, rows);
}

/// The good file with another queue of its bottleneck.
fn queued(keys: &str) -> String {
    let queue = "kind = \"droptail\", limit = \"1bdp\"";
    GOOD.replacen(queue, &format!("limit = \"1bdp\", kind = {keys}"), 1)
}

#[test]
fn keys_of_another_kind_of_queue_are_refused() {
    let rows = r#"
        "droptail", min = 3 => :20: => queue => `min` belongs to kind = "red" => of "droptail"
        "codel", gentle = true => :20: => `gentle` => "red" => "codel"
        "red", target = "5ms" => :20: => `target` => leave `target` out
        "dualpi2", interval = "5ms" => `interval` belongs to kind = "codel" => of "dualpi2"
        "droptail", mni = 3 => :20: => did you mean `min`
    "#;
    refused(queued, rows);
}

/// Otherwise a run would fail on these only after all earlier ones of its sweep.
#[test]
fn red_that_cannot_work_is_refused() {
    let rows = r#"
        "red", weight = 0 => :20: => queue => RED: `weight` must be above 0
        "red", weight = 1e-300 => :20: => queue => RED: `weight` must be above 0
        "red", mean_packet = 0 => :20: => queue => RED: `mean_packet` must be above 0
        "red", min = 15 => :20: => queue => RED: `min` must be below `max`
        "red", max = 5 => :20: => queue => RED: `min` must be below `max`
    "#;
    refused(queued, rows);
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
    let refused = |rate: &str, parts: &[&str]| {
        let error = read(rate).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{error}\nlacks {part}");
        }
    };
    let tried = |name: &str| format!("cannot read {}: ", directory.path().join(name).display());
    let no = tried("no.trace") + "No such file";
    refused("{ trace = \"no.trace\" }", &[":18:", "rate", &no]);
    // The message must show the full path even if the scenario's is relative.
    let text = GOOD.replacen("\"10Mbit\"", "{ trace = \"no.trace\" }", 1);
    let here = std::env::current_dir().unwrap().join("no.trace");
    let error = parse(&text).unwrap_err();
    let message = format!("cannot read {}", here.display());
    assert!(error.contains(&message), "{error}");
    // A pipe without a writer must be refused, because opening it for reading would block.
    let pipe = directory.path().join("pipe.trace");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let needed = "a regular file is needed";
    refused(
        "{ trace = \"pipe.trace\" }",
        &[":18:", &tried("pipe.trace"), needed],
    );
    let line = "line 2 of the trace is earlier";
    refused(
        "{ trace = \"bad.trace\" }",
        &[":18:", &tried("bad.trace"), line],
    );
    let near = "did you mean `trace`";
    refused("{ trcae = \"x\" }", &[":18:", "rate", near]);
    let both = GOOD.replacen("\"10Mbit\"", "{ trace = \"cell.trace\" }", 1);
    let both = Scenario::parse(&directory.path().join("test.toml"), &both);
    let error = both.unwrap_err().to_string();
    assert!(error.contains("leave `rate` out of `at`"), "{error}");
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
    let rows = r#"
        delay = "1ms" → medium = "hub" => :11: => medium => add `rate`
        rate = "10Mbit" → medium = "hub"¶rate = { trace = "x" } => :18: => medium => shares no
        delay = "1ms" → rate = "1Mbit"¶medium = "" => :12: => needs a name
    "#;
    fails(rows);
}

#[test]
fn an_unlimited_flow_over_an_unlimited_path_is_refused() {
    let text = |keys: &str| {
        let (link, flow) = keys.split_once('&').unwrap();
        format!(
            "duration = \"1s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\n\
             {link}\n[[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\n{flow}"
        )
    };
    let rows = r#"
        delay = "1ms"& => give a link a `rate`
        &bytes = 1000 => give a link a `rate`
    "#;
    refused(text, rows);
    parse(&text("delay = \"1ms\"&bytes = 1000")).unwrap();
    parse(&text("rate = \"1Mbit\"&")).unwrap();
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
