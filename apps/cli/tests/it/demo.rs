//! The demonstration on a small scale: through a router process on TUN interfaces, and in the
//! emulator.
//!
//! If the machine forbids namespaces or TUN, the tests on TUN interfaces fail with the reason,
//! because this is the only way to check that packets pass a router.

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{ended, json, names, pathmark, run as ran, words};

fn demo(line: &str) -> (Value, TempDir) {
    let out = TempDir::new().unwrap();
    let line = format!("demo --quick --json --out {} {line}", out.path().display());
    (json(&ran(&words(&line))), out)
}

fn run<'a>(figures: &'a Value, stack: &str) -> &'a Value {
    let runs = figures["runs"].as_array().unwrap();
    let found = runs.iter().find(|run| run["stack"] == stack);
    found.unwrap_or_else(|| panic!("no run of {stack} in {figures}"))
}

fn check_explicit(run: &Value, mode: &str) {
    assert_eq!(run["mode"], mode);
    let flows = run["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 5);
    for flow in flows {
        assert_eq!(flow["completed"], true, "{flow}");
        assert_eq!(flow["bytes_delivered"], 1_000_000);
        // At least two round trips, for the handshake and the request.
        assert!(flow["completion_s"].as_f64().unwrap() > 0.8);
        // The smallest round trip is that of the path.
        let rtt = flow["rtt_ms"]["min"].as_f64().unwrap();
        assert!((400.0..500.0).contains(&rtt), "{rtt}");
    }
    let bottleneck = &run["links"][0];
    assert_eq!(bottleneck["name"], "bottleneck");
    assert_eq!(bottleneck["rate_bps"], 10e6);
    let drops = &bottleneck["drops"];
    assert_eq!(*drops, 0, "explicit feedback keeps the queue short");
}

#[test]
fn files_pass_a_router_on_tun_interfaces() {
    let (figures, out) = demo("--scenario clean");
    check_explicit(run(&figures, "pathmark auto"), "tun");
    for stack in ["pathmark cubic", "kernel cubic"] {
        let flows = run(&figures, stack)["flows"].as_array().unwrap();
        let completed = flows.iter().all(|flow| flow["completed"] == true);
        assert!(completed, "{stack}");
    }
    let law = &run(&figures, "pathmark auto")["links"][0]["controller"];
    assert_eq!(law["law"], "xcp");
    assert!(law["stamped"].as_u64().unwrap() > 0, "{law}");
    let svg = std::fs::read_to_string(out.path().join("demo.svg")).unwrap();
    assert!(svg.contains("kernel cubic, clean"));
    assert!(out.path().join("demo.png").exists());
}

#[test]
fn without_namespaces_routers_run_in_the_process() {
    let (figures, _out) = demo("--in-process --scenario wireless");
    check_explicit(run(&figures, "pathmark auto"), "in-process");
    assert_eq!(figures["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn rounds_differ_and_give_one_picture_and_a_verdict() {
    let here = TempDir::new().unwrap();
    let picture = here.path().join("picture.svg");
    let figure = format!("--figure {}", picture.display());
    let rounds = "--in-process --scenario wireless --rounds 2";
    let (figures, _out) = demo(&format!("{rounds} {figure}"));
    let runs = figures["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let of = |round: u64| {
        let mut found = runs.iter().filter(move |run| run["seed"] == round);
        found.find(|run| run["stack"] == "pathmark cubic").unwrap()["links"][0].clone()
    };
    assert_ne!(of(1), of(2), "rounds lose the same packets");
    let verdict = figures["verdict"].as_str().unwrap();
    let start = "With 0.3 % random loss, pathmark auto";
    assert!(verdict.starts_with(start), "{verdict}");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.contains("Last file complete, 0.3 % random loss"));
}

#[test]
fn a_picture_of_another_kind_is_refused_before_anything_runs() {
    ended(&ran(&["demo", "--figure", "a.gif"]), 2, ".svg or .png");
}

/// Packets that a link dropped or lost also count as lost at their sender.
fn nothing_is_written_unasked_and_losses_are_counted_at_the_end(mode: &[&str]) {
    let here = TempDir::new().unwrap();
    let line = "demo --quick --scenario wireless --json --cc cubic";
    let mut command = pathmark(&[&words(line)[..], mode].concat());
    let output = command.current_dir(here.path()).output().unwrap();
    assert!(names(here.path()).is_empty());
    let figures = json(&output);
    let run = run(&figures, "pathmark cubic");
    let link = &run["links"][0];
    let dropped = link["drops"].as_u64().unwrap() + link["random_losses"].as_u64().unwrap();
    let flows = run["flows"].as_array().unwrap().iter();
    let lost: u64 = flows
        .map(|flow| flow["packets_lost"].as_u64().unwrap())
        .sum();
    assert!(dropped > 0, "the link of this scenario loses packets");
    assert!(lost >= dropped / 2, "{lost} lost of {dropped} dropped");
}

#[test]
fn real_transfers_count_their_losses_and_write_no_file() {
    nothing_is_written_unasked_and_losses_are_counted_at_the_end(&[]);
}

#[test]
fn emulated_transfers_count_their_losses_and_write_no_file() {
    nothing_is_written_unasked_and_losses_are_counted_at_the_end(&["--in-process"]);
}
