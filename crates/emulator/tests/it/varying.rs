//! Links whose capacity varies, and ports that measure it (`capacity = "auto"`), compared with
//! CUBIC over CoDel on the same link.

use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_testbed::sampled;

use crate::support;

fn text(model: &str, seed: u64, law: &str, port: &str) -> String {
    format!(
        "duration = \"60s\"\nseed = {seed}\n[[link]]\nname = \"cell\"\nfrom = \"S\"\nto = \"D\"\n\
         duplex = true\nrate = {{ model = \"{model}\", mean = \"10Mbit\" }}\ndelay = \"50ms\"\n\
         {port}\nreverse = {{ rate = \"10Mbit\" }}\n\
         [[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\nalgorithm = \"{law}\"\n"
    )
}

fn run(model: &str, seed: u64, law: &str, port: &str) -> RunResult {
    support::run(&text(model, seed, law, port))
}

/// Returns the utilization, and the mean queue in milliseconds at the mean rate.
fn figures(run: &RunResult) -> (f64, f64) {
    let link = &run.links[0];
    let mean_rate = 10e6;
    let queue = link.queue_packets.mean * 1500.0 * 8.0 / mean_rate * 1e3;
    (link.utilization.unwrap(), queue)
}

/// Returns means over seeds of 1 to 10, because traces of one model differ by more than laws on one
/// trace.
fn mean(model: &str, law: &str, port: &str) -> (f64, f64) {
    let seeds = sampled(3, 1..=10);
    let count = seeds.len() as f64;
    let each = seeds
        .into_iter()
        .map(|seed| figures(&run(model, seed, law, port)));
    let sum = each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (sum.0 / count, sum.1 / count)
}

const CODEL: &str = "queue = { kind = \"codel\", limit = \"250p\" }";

fn auto(law: &str) -> String {
    format!(
        "queue = {{ kind = \"droptail\", limit = \"250p\" }}\ncontroller = \"{law}\"\n\
         capacity = \"auto\""
    )
}

#[test]
fn satellites_are_used_for_nine_tenths_with_little_queue() {
    let (_, baseline) = mean("leo", "cubic", CODEL);
    for (law, port, least) in [
        ("vcp+bise+wlte", "vcp+bise", 0.9),
        ("xcp", "xcp", 0.96),
        ("auto", "xcp", 0.96),
    ] {
        let (used, queue) = mean("leo", law, &auto(port));
        assert!(
            used >= least && queue <= baseline + 30.0,
            "{law}: {used} {queue}"
        );
    }
}

/// VCP's codes reach 0.90 on neither, because rates change by more than a code allows within a
/// round trip.
#[test]
fn cells_and_wifi_are_used_better_than_by_cubic_over_codel() {
    let laws = [
        ("vcp+bise+wlte", "vcp+bise"),
        ("xcp", "xcp"),
        ("auto", "xcp"),
    ];
    for (model, least, more) in [
        ("cellular", [0.8, 0.9, 0.9], 40.0),
        ("wifi", [0.7, 0.79, 0.79], 60.0),
    ] {
        let (baseline, waits) = mean(model, "cubic", CODEL);
        for ((law, port), least) in laws.into_iter().zip(least) {
            let (used, queue) = mean(model, law, &auto(port));
            assert!(
                used >= least && used > baseline && queue <= waits + more,
                "{model}, {law}: {used} of {baseline}, {queue} of {waits} ms"
            );
        }
    }
}

/// A link with a constant rate, and one whose rate changes as planned: the port measures both.
#[test]
fn a_constant_rate_is_found_and_a_change_is_followed() {
    for at in ["", "at = [{ t = \"20s\", rate = \"2Mbit\" }]\n"] {
        let run = |more: &str| {
            let port = format!("controller = \"xcp\"\n{more}{at}");
            let text = text("leo", 1, "xcp", &port);
            let text = text.replace("{ model = \"leo\", mean = \"10Mbit\" }", "\"10Mbit\"");
            figures(&support::run(&text))
        };
        let (fixed, auto) = (run(""), run("capacity = \"auto\"\n"));
        assert!(auto.0 > fixed.0 - 0.03, "{auto:?}, configured: {fixed:?}");
        assert!(auto.1 < fixed.1 + 20.0, "{auto:?}, configured: {fixed:?}");
    }
}

/// Errors about invalid values suggest valid values.
#[test]
fn what_cannot_be_is_refused() {
    let refusal = |from: &str, to: &str| {
        let text = text("leo", 1, "xcp", "controller = \"xcp\"\ncapacity = \"auto\"");
        let parsed = Scenario::parse(Path::new("varying.toml"), &text.replace(from, to));
        parsed.unwrap_err().to_string()
    };
    for (from, to, words) in [
        (
            "\"auto\"",
            "\"car\"",
            "\"auto\" for what the link could send",
        ),
        ("\"auto\"", "\"1bit\"", "at least 8bit"),
        ("\"leo\"", "\"geo\"", "`leo`"),
        (", mean = \"10Mbit\"", "", "mean = "),
        ("mean = \"10Mbit\"", "mean = \"9Tbit\"", "50 million lines"),
        (
            "model = \"leo\", mean = \"10Mbit\"",
            "trace = \"/no/such\"",
            "/no/such",
        ),
        (
            "model = \"leo\", mean = \"10Mbit\"",
            "trace = \"/proc\"",
            "cannot read /proc: it is a directory",
        ),
    ] {
        let refusal = refusal(from, to);
        assert!(refusal.contains(words), "{to}: {refusal}");
    }
}
