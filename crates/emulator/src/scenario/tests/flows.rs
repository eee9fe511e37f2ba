//! Flows: their data and their start times.

use super::*;

/// A key of the good file's flows, which others replace.
const KEY: &str = "max_ack_ranges = 2";

fn with(lines: &str) -> String {
    GOOD.replace(KEY, lines)
}

/// Flows of UDP, which have a rate and no end.
fn udp(lines: &str) -> String {
    let endless = with(lines).replace("bytes = 5_000_000\n", "");
    endless.replace(
        "algorithm = \"vcp\"",
        "algorithm = \"udp\"\nrate = \"1Mbit\"",
    )
}

fn flows(text: &str) -> Vec<FlowSetup> {
    parse(text).unwrap().flows
}

#[test]
fn sources_that_cannot_be() {
    fails(r#"algorithm = "vcp" → algorithm = "udp" => udp => bytes"#);
    let rows = r#"
        poisson = true => `rate`
        on_off = { on = "1s", off = "1s" } => `on_off` needs a `rate`
        rate = "1Mbit"¶on_off = { on = "1s", off = "0s" } => longer than 0
        rate = "1bit" => at least 8bit
    "#;
    refused(with, rows);
    let silent = |lines: &str| udp(lines).replace("rate = \"1Mbit\"\n", "");
    refused(silent, "max_ack_ranges = 2 => needs a `rate`");
}

#[test]
fn acknowledgements_of_few_ranges() {
    assert!(
        flows(GOOD)
            .iter()
            .all(|flow| flow.max_ack_ranges == Some(2))
    );
    let rows = "
        max_ack_ranges = 0 => 1 range at least
        max_ack_rangs = 1 => did you mean `max_ack_ranges`
    ";
    refused(with, rows);
    refused(udp, "max_ack_ranges = 2 => nothing acknowledges");
}

#[test]
fn a_tcp_has_no_keys_of_connections_and_sends_something() {
    let tcp = |lines: &str| with(lines).replace("algorithm = \"vcp\"", "algorithm = \"tcp-reno\"");
    assert_eq!(flows(&tcp("")).len(), 3);
    let rows = r#"
        max_ack_ranges = 2 => flow of a TCP
        app = "http" => flow of a TCP
        milestones = [1] => flow of a TCP
    "#;
    refused(tcp, rows);
    let sized = |bytes: &str| tcp("").replace("bytes = 5_000_000", bytes);
    refused(sized, "bytes = 0 => a TCP sends 1 byte at least");
}

#[test]
fn ends_that_have_met_and_which_of_them_connects() {
    let of = |text: &str| {
        let flows = flows(text).into_iter();
        flows
            .map(|flow| (flow.known_rate, flow.connects))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(GOOD), [(None, Connects::Sender); 3]);
    let met = with("known_rate = \"8Mbit\"\nconnects = \"receiver\"");
    assert_eq!(of(&met), [(Some(1_000_000), Connects::Receiver); 3]);
    let rows = r#"
        known_rate = "1bit" => at least 8bit
        connects = "server" => server => sender
    "#;
    refused(with, rows);
    let rows = r#"
        known_rate = "8Mbit" => asks for no starting rate
        connects = "receiver" => no connection
    "#;
    refused(udp, rows);
}

#[test]
fn applications_send_data_alone_or_speak_http() {
    let of = |text: &str| {
        let flows = flows(text).into_iter();
        flows
            .map(|flow| (flow.app, flow.connects))
            .collect::<Vec<_>>()
    };
    let http = "app = \"http\"";
    let uploads = with(&format!("{http}\nconnects = \"sender\""));
    assert_eq!(of(GOOD), [(App::Bulk, Connects::Sender); 3]);
    assert_eq!(of(&with(http)), [(App::Http, Connects::Receiver); 3]);
    assert_eq!(of(&uploads), [(App::Http, Connects::Sender); 3]);
    refused(with, r#"app = "htp" => did you mean `http`"#);
    refused(udp, r#"app = "http" => no connection"#);
}

#[test]
fn who_tells_a_receiver_is_one_of_two() {
    let flows = flows(&with("receiver_estimate = \"real\""));
    let real = Some(ReceiverEstimate::Real);
    assert!(flows.iter().all(|flow| flow.receiver_estimate == real));
    let rows = "
        foo => :36: => receiver_estimate: unknown value `foo`: write `exact` or `real`
        exac => :36: => receiver_estimate: unknown name `exac`: did you mean `exact`?
    ";
    refused(
        |name| with(&format!("receiver_estimate = \"{name}\"")),
        rows,
    );
}

#[test]
fn milestones_are_numbers_of_bytes_that_grow() {
    let flows = flows(&with("milestones = [14_600, \"1MB\"]"));
    assert!(
        flows
            .iter()
            .all(|flow| flow.milestones == [14_600, 1_000_000])
    );
    let rows = "
        milestones = [] => from 1 on
        milestones = [0, 5] => from 1 on
        milestones = [5, 5] => more than the one before
        milestones = [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17] => 16 milestones at most
    ";
    refused(with, rows);
    refused(udp, "milestones = [5] => of udp");
}

#[test]
fn forged_shims() {
    let forge = flows(&udp("forge = { shim = \"xcp\", ports = \"100ms\" }"))[0]
        .forge
        .unwrap();
    assert_eq!(Some(forge.shim.0), pathmark_protocols::forged::kind("xcp"));
    assert_eq!(forge.rtt, Duration::from_millis(20));
    assert_eq!(forge.ports, Some(Duration::from_millis(100)));
    refused(with, r#"forge = { shim = "vcp" } => only flows of udp"#);
    let rows = r#"
        forge = { shim = "vcq" } => vcq
        forge = { shim = "vcp", ports = "0s" } => longer than 0
        forge = { shim = "vcp", port = "1s" } => port
        forge = { shim = "vcp", names = "S" } => only XCP
        forge = { shim = "xcp", names = "absent" } => no link leads
    "#;
    refused(udp, rows);
}

#[test]
fn udp_has_smaller_packets_than_a_handshake_fits() {
    let smallest = "rate = \"9kbit\"\nalgorithm = \"udp\"\npacket = 64";
    assert_eq!(parse(&arrivals(smallest)).err(), None);
    let rows = r#"
        rate = "9kbit"¶algorithm = "udp"¶packet = 63 => from 64 to
        rate = "9kbit"¶algorithm = "vcp"¶packet = 64 => from 512 to
    "#;
    refused(arrivals, rows);
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
    let rows = r#"
        start_gap = "0s" => longer than 0
        start_gap = "1s"¶start_spread = "1s" => `start_spread`
        start_gap = "1s"¶start = ["1s", "2s"] => one time
        start_gap = "1s"¶count = 1000 => of 1000 flows start before
        start_gap = "1us" => more than 65536 flows
        start_gap = "1s"¶start = "99999s" => no flow starts
        start_gap = "10s"¶stop = "1ns" => no flow starts
        bytes = [] => lists 1 to
        bytes = [1, -1] => bytes
        bytes = [[1]] => bytes
        bytes = true => or a list of them
    "#;
    refused(arrivals, rows);
}

/// `flow.NAME.KEY`, plots and rows of results select a section by name, so numbers after its
/// name must not distinguish two sections.
#[test]
fn sections_have_names_of_their_own() {
    let with = |flows: &str| {
        let flow = "[[flow]]\nfrom = \"S\"\nto = \"D\"\n";
        let flows = flows.split('&').map(|keys| format!("{flow}{keys}\n"));
        GOOD.to_owned() + &flows.collect::<String>()
    };
    parse(&with("name = \"other\"\ncount = 2")).unwrap();
    let rows = r#"
        name = "x"¶count = 3&name = "x" => another [[flow]] is called `x` already
        name = "x"¶count = 3&name = "x"¶count = 2 => another [[flow]] is called `x` already
        name = "x"¶count = 3&name = "x1" => another flow is called `x1` already
    "#;
    refused(with, rows);
}
