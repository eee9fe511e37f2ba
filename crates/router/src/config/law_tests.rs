//! Requirements of control laws, and the errors if they are not met.

use super::tests::{GOOD, parse, refused};

/// A router must not use estimates that only the emulator can have. Without them, a port still
/// looks for clouds.
#[test]
fn exact_estimates_are_refused() {
    let with = |law: &str| parse(&GOOD.replace("\"vcp\"", &format!("\"{law}\"")));
    let law = with("xcp-i").unwrap().ports[0].link.controller.clone();
    assert_eq!(law.unwrap().name(), "xcp-i");
    refused(with, "xcp-i[estimate=exact]", "only the emulator");
}

/// Measuring requires a valid secret, and an address of the router.
#[test]
fn measuring_takes_a_secret_and_an_address() {
    let with = |law: &str, keys: &str| {
        let text = GOOD.replace("\"vcp\"", &format!("\"{law}\""));
        parse(&format!("{text}\n{keys}"))
    };
    let real = "xcp-i[estimate=real]";
    refused(|law| with(law, ""), real, "add [xcp_i]");
    let good = "[xcp_i]\nsecret = \"sixteen bytes or more\"\n";
    let config = with(real, good).unwrap();
    let xcp_i = config.xcp_i.unwrap();
    assert_eq!((xcp_i.port, xcp_i.trains), (6653, None));
    // It must not appear in a log.
    assert!(!format!("{xcp_i:?}").contains("sixteen"));
    assert!(config.ports[0].link.measures_clouds());
    // A router that only answers needs no such port, but must set `trains`, because no port's
    // rate determines it.
    refused(|law| with(law, good), "vcp", "trains = ");
    let with_trains = |trains: &str| with("vcp", &format!("{good}trains = {trains}\n"));
    assert!(with_trains("\"100kbit\"").is_ok());
    for (trains, part) in [
        ("800", "800 what?"),
        ("0", "0 what?"),
        ("\"0bit\"", "at least"),
        ("\"4790bit\"", "at least"),
    ] {
        refused(with_trains, trains, part);
    }
    assert!(with_trains("\"4800bit\"").is_ok());
    // White space around a secret is not part of it, as in the files of the other programs.
    let padded = with(real, "[xcp_i]\nsecret = \" sixteen bytes or more\\n\"\n").unwrap();
    assert_eq!(padded.xcp_i.unwrap().secret, xcp_i.secret);
    // An address of either version suffices if it is valid on more than one link.
    for (addresses, reachable) in [
        ("\"10.0.0.1\"", true),
        ("\"fd00::1\"", true),
        ("\"fe80::1\"", false),
        ("\"169.254.0.1\"", false),
        ("", false),
    ] {
        let text = GOOD.replace("\"10.0.0.1\", \"fd00::1\"", addresses);
        let parsed = parse(&format!("{text}\n{good}trains = \"1Mbit\"\n"));
        assert_eq!(parsed.is_ok(), reachable, "{addresses}");
        if let Err(error) = parsed {
            assert!(error.contains("that others reach"), "{error}");
        }
    }
    let keys = |keys: &str| with(real, keys);
    refused(keys, "[xcp_i]\nsecret = \"short\"\n", "at least 16 bytes");
    refused(keys, &format!("{good}port = 0\n"), "from 1 to 65535");
}

const LATER: &str = "id = 2\n[[port]]\nname = \"a\"\ntun = \"a\"\n";

/// A later law must meet the same requirements as one from the start.
#[test]
fn laws_of_scheduled_changes_are_checked_too() {
    let with = |law: &str, keys: &str| {
        let at = format!("at = [{{ t = \"1s\", controller = \"{law}\" }}]\n");
        parse(&format!("{LATER}{at}{keys}"))
    };
    let rate = "rate = \"10Mbit\"\n";
    assert!(with("vcp", rate).is_ok());
    refused(|law| with(law, ""), "vcp", "add `rate`");
    let with_rate = |law: &str| with(law, rate);
    refused(with_rate, "xcp-i[estimate=exact]", "only the emulator");
    refused(with_rate, "xcp-i[estimate=real]", "add [xcp_i]");
    let secret = "addresses = [\"10.0.0.1\"]\n[xcp_i]\nsecret = \"sixteen bytes or more\"\n";
    let config = with("xcp-i[estimate=real]", &format!("{rate}{secret}")).unwrap();
    assert!(config.ports[0].link.measures_clouds());
}

#[test]
fn a_capacity_without_a_law_is_refused_and_a_law_without_an_id_gives_a_warning() {
    let capacity = format!("{LATER}capacity = \"8Mbit\"\n");
    refused(parse, &capacity, "add `controller`");
    let law = format!("{LATER}rate = \"8Mbit\"\ncontroller = \"vcp\"\n");
    assert!(parse(&law).unwrap().warnings().is_empty());
    let unnamed = law.replace("id = 2\n", "");
    let warnings = parse(&unnamed).unwrap().warnings();
    let asked = matches!(warnings.as_slice(), [one] if one.contains("add `id`"));
    assert!(asked, "{warnings:?}");
    let silent = LATER.replace("id = 2\n", "");
    assert!(parse(&silent).unwrap().warnings().is_empty());
}
