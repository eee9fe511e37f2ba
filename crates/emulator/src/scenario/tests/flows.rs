//! Flows: their data and their start times.

use super::*;

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
fn acknowledgements_of_few_ranges() {
    let flows = parse(GOOD).unwrap().flows;
    assert!(flows.iter().all(|flow| flow.max_ack_ranges == Some(2)));
    let key = "max_ack_ranges = 2";
    fails(key, "max_ack_ranges = 0", &["1 range at least"]);
    fails(key, "max_ack_rangs = 1", &["did you mean `max_ack_ranges`"]);
    let udp = GOOD.replace("bytes = 5_000_000\n", "").replace(
        "algorithm = \"vcp\"",
        "algorithm = \"udp\"\nrate = \"1Mbit\"",
    );
    assert!(parse(&udp).unwrap_err().contains("nothing acknowledges"));
}

#[test]
fn ends_that_have_met_and_which_of_them_connects() {
    let flows = parse(GOOD).unwrap().flows;
    assert!(flows.iter().all(|flow| flow.known_rate.is_none()));
    assert!(flows.iter().all(|flow| flow.connects == Connects::Sender));
    let key = "max_ack_ranges = 2";
    let met = GOOD.replace(key, "known_rate = \"8Mbit\"\nconnects = \"receiver\"");
    let flows = parse(&met).unwrap().flows;
    assert!(flows.iter().all(|flow| flow.known_rate == Some(1_000_000)));
    assert!(flows.iter().all(|flow| flow.connects == Connects::Receiver));
    fails(key, "known_rate = \"1bit\"", &["at least 8bit"]);
    fails(key, "connects = \"server\"", &["server", "sender"]);
    for (line, says) in [
        ("known_rate = \"8Mbit\"", "asks for no starting rate"),
        ("connects = \"receiver\"", "no connection"),
    ] {
        let udp = GOOD.replace("bytes = 5_000_000\n", "").replace(key, line);
        let udp = udp.replace(
            "algorithm = \"vcp\"",
            "algorithm = \"udp\"\nrate = \"1Mbit\"",
        );
        let error = parse(&udp).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn applications_send_data_alone_or_speak_http() {
    let flows = parse(GOOD).unwrap().flows;
    assert!(flows.iter().all(|flow| flow.app == App::Bulk));
    let key = "max_ack_ranges = 2";
    for (lines, connects) in [
        ("app = \"http\"", Connects::Receiver),
        ("app = \"http\"\nconnects = \"sender\"", Connects::Sender),
    ] {
        let flows = parse(&GOOD.replace(key, lines)).unwrap().flows;
        let mut flows = flows.iter();
        assert!(flows.all(|flow| (flow.app, flow.connects) == (App::Http, connects)));
    }
    fails(key, "app = \"htp\"", &["did you mean `http`"]);
    let udp = GOOD
        .replace("bytes = 5_000_000\n", "")
        .replace(key, "app = \"http\"");
    let udp = udp.replace(
        "algorithm = \"vcp\"",
        "algorithm = \"udp\"\nrate = \"1Mbit\"",
    );
    let error = parse(&udp).unwrap_err();
    assert!(error.contains("no connection"), "{error}");
}

#[test]
fn who_tells_a_receiver_is_one_of_two() {
    let key = "max_ack_ranges = 2";
    let flows = parse(&GOOD.replace(key, "receiver_estimate = \"real\"")).unwrap();
    let mut flows = flows.flows.iter();
    assert!(flows.all(|flow| flow.receiver_estimate == Some(ReceiverEstimate::Real)));
    let message = "receiver_estimate: unknown value `foo`: write `exact` or `real`";
    fails(key, "receiver_estimate = \"foo\"", &[":36:", message]);
    let near = "receiver_estimate: unknown name `exac`: did you mean `exact`?";
    fails(key, "receiver_estimate = \"exac\"", &[":36:", near]);
}

#[test]
fn milestones_are_numbers_of_bytes_that_grow() {
    let key = "max_ack_ranges = 2";
    let flows = parse(&GOOD.replace(key, "milestones = [14_600, \"1MB\"]")).unwrap();
    let mut flows = flows.flows.iter();
    assert!(flows.all(|flow| flow.milestones == [14_600, 1_000_000]));
    let many = (1..=17).map(|n| n.to_string()).collect::<Vec<_>>();
    let many = format!("milestones = [{}]", many.join(", "));
    for (line, says) in [
        ("milestones = []", "from 1 on"),
        ("milestones = [0, 5]", "from 1 on"),
        ("milestones = [5, 5]", "more than the one before"),
        (&*many, "16 milestones at most"),
    ] {
        fails(key, line, &[says]);
    }
    let udp = GOOD.replace("bytes = 5_000_000\n", "");
    let udp = udp.replace(key, "milestones = [5]").replace(
        "algorithm = \"vcp\"",
        "algorithm = \"udp\"\nrate = \"1Mbit\"",
    );
    assert!(parse(&udp).unwrap_err().contains("of udp"));
}

#[test]
fn forged_shims() {
    let with = |line: &str| format!("algorithm = \"vcp\"\n{line}");
    let vcp = with("forge = { shim = \"vcp\" }");
    fails("algorithm = \"vcp\"", &vcp, &["only flows of udp"]);
    let udp = |forge: &str| {
        let bare = GOOD.replace("bytes = 5_000_000\n", "");
        bare.replace("max_ack_ranges = 2\n", "").replace(
            "algorithm = \"vcp\"",
            &format!("algorithm = \"udp\"\nrate = \"1Mbit\"\nforge = {forge}"),
        )
    };
    let flow = parse(&udp("{ shim = \"xcp\", ports = \"100ms\" }")).unwrap();
    let forge = flow.flows[0].forge.unwrap();
    assert_eq!(Some(forge.shim.0), pathmark_protocols::forged::kind("xcp"));
    assert_eq!(forge.rtt, Duration::from_millis(20));
    assert_eq!(forge.ports, Some(Duration::from_millis(100)));
    for (forge, says) in [
        ("{ shim = \"vcq\" }", "vcq"),
        ("{ shim = \"vcp\", ports = \"0s\" }", "longer than 0"),
        ("{ shim = \"vcp\", port = \"1s\" }", "port"),
        ("{ shim = \"vcp\", names = \"S\" }", "only XCP"),
        ("{ shim = \"xcp\", names = \"absent\" }", "no link leads"),
    ] {
        let error = parse(&udp(forge)).unwrap_err();
        assert!(error.contains(says), "{forge}: {error}");
    }
}

#[test]
fn udp_has_smaller_packets_than_a_handshake_fits() {
    let text = |law: &str, packet: u32| {
        format!(
            "duration = \"1s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\n\
             rate = \"1Mbit\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\nrate = \"9kbit\"\nalgorithm \
             = \"{law}\"\npacket = {packet}"
        )
    };
    assert_eq!(parse(&text("udp", 64)).err(), None);
    assert!(parse(&text("udp", 63)).unwrap_err().contains("from 64 to"));
    assert!(parse(&text("vcp", 64)).unwrap_err().contains("from 512 to"));
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

/// Returns a scenario with one flow group from `lines`, on a link that limits the flows.
fn arrivals(lines: &str) -> String {
    format!(
        "duration = \"100s\"\n[[link]]\nname = \"l\"\nfrom = \"A\"\nto = \"B\"\nduplex = true\n\
         rate = \"10Mbit\"\ndelay = \"1ms\"\n\
         [[flow]]\nname = \"f\"\nfrom = \"A\"\nto = \"B\"\n{lines}\n"
    )
}

/// Gaps of a Poisson process are exponential: their mean must be the requested one, with an
/// equal standard deviation, and a fraction of 1/e must be longer than the mean.
#[test]
fn starts_as_a_poisson_process() {
    let text = arrivals("bytes = 1000\nstart = \"10s\"\nstart_gap = \"10ms\"");
    let mut scenario = parse(&text).unwrap();
    let starts: Vec<f64> = (scenario.flows.iter())
        .map(|flow| flow.start.as_secs_f64())
        .collect();
    // 9000 on average, with a standard deviation of 95.
    assert!((8600..9400).contains(&starts.len()), "{}", starts.len());
    let ends = starts.iter().skip(1).zip(&starts);
    let gaps: Vec<f64> = ends.map(|(b, a)| b - a).collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
    let longer = gaps.iter().filter(|gap| **gap > 0.01).count() as f64 / n;
    assert!((mean - 0.01).abs() < 0.000_5, "{mean}");
    assert!((deviation - 0.01).abs() < 0.000_7, "{deviation}");
    assert!((longer - (-1.0f64).exp()).abs() < 0.02, "{longer}");
    assert!(starts.iter().all(|start| (10.0..100.0).contains(start)));
    assert_eq!(scenario.flows[7].name, "f7");
    let before = scenario.flows[0].start;
    scenario.set("seed", "2").unwrap();
    assert_ne!(scenario.flows[0].start, before);
    scenario.set("flow.f.count", "50").unwrap();
    assert_eq!(scenario.flows.len(), 50);
    scenario.set("flow.f.count", "20000").unwrap_err();
}

/// Each size must be drawn equally often, and one that is listed twice, twice as often.
#[test]
fn sizes_are_drawn_from_a_list() {
    let text = arrivals("count = 8000\nbytes = [1000, \"2kB\", 1000, 4000]");
    let drawn = |seed: &str| {
        let mut scenario = parse(&text).unwrap();
        scenario.set("seed", seed).unwrap();
        let bytes = scenario.flows.iter().map(|flow| flow.bytes.unwrap());
        bytes.collect::<Vec<u64>>()
    };
    let sizes = drawn("1");
    for (bytes, wanted) in [(1000, 4000.0), (2000, 2000.0), (4000, 2000.0)] {
        let count = sizes.iter().filter(|size| **size == bytes).count() as f64;
        // Standard deviations are at most 45.
        assert!((count - wanted).abs() < 200.0, "{bytes}: {count}");
    }
    assert_eq!(sizes, drawn("1"));
    assert_ne!(sizes, drawn("2"));
}

#[test]
fn arrivals_that_cannot_be() {
    for (lines, says) in [
        ("start_gap = \"0s\"", "longer than 0"),
        (
            "start_gap = \"1s\"\nstart_spread = \"1s\"",
            "`start_spread`",
        ),
        ("start_gap = \"1s\"\nstart = [\"1s\", \"2s\"]", "one time"),
        (
            "start_gap = \"1s\"\ncount = 1000",
            "of 1000 flows start before",
        ),
        ("start_gap = \"1us\"", "more than 65536 flows"),
        ("start_gap = \"1s\"\nstart = \"99999s\"", "no flow starts"),
        ("start_gap = \"10s\"\nstop = \"1ns\"", "no flow starts"),
        ("bytes = []", "lists 1 to"),
        ("bytes = [1, -1]", "bytes"),
        ("bytes = [[1]]", "bytes"),
        ("bytes = true", "or a list of them"),
    ] {
        let error = parse(&arrivals(lines)).unwrap_err();
        assert!(error.contains(says), "{lines}: {error}");
    }
}

/// `flow.NAME.KEY`, plots and rows of results select a section by name, so numbers after its
/// name must not distinguish two sections.
#[test]
fn sections_have_names_of_their_own() {
    let flow = |name: &str, more: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"S\"\nto = \"D\"\n{more}")
    };
    parse(&format!("{GOOD}{}", flow("other", "count = 2\n"))).unwrap();
    for more in ["", "count = 2\n"] {
        let text = format!("{GOOD}{}{}", flow("x", "count = 3\n"), flow("x", more));
        let error = parse(&text).unwrap_err();
        assert!(
            error.contains("another [[flow]] is called `x` already"),
            "{error}"
        );
    }
    let text = format!("{GOOD}{}{}", flow("x", "count = 3\n"), flow("x1", ""));
    let error = parse(&text).unwrap_err();
    assert!(
        error.contains("another flow is called `x1` already"),
        "{error}"
    );
}
