//! Flows: what they send, and when.

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
