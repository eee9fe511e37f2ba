//! The demonstration on a small scale: through a router process on TUN interfaces, and in the
//! emulator.
//!
//! If the machine forbids namespaces or TUN, the tests on TUN interfaces fail with the reason,
//! because this is the only way to check that packets pass a router.

use serde_json::Value;
use tempfile::TempDir;

use crate::common;

/// Runs the demonstration in a directory of its own.
fn demo(more: &str) -> (Value, TempDir) {
    let here = TempDir::new().unwrap();
    let output = common::run(&here, &format!("demo --quick --json {more}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    (serde_json::from_slice(&output.stdout).unwrap(), here)
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
    assert_eq!(
        bottleneck["drops"], 0,
        "explicit feedback keeps the queue short"
    );
}

#[test]
fn files_pass_a_router_on_tun_interfaces() {
    let (figures, out) = demo("--out . --scenario clean");
    check_explicit(run(&figures, "pathmark auto"), "tun");
    for stack in ["pathmark cubic", "kernel cubic"] {
        let flows = run(&figures, stack)["flows"].as_array().unwrap();
        assert!(
            flows.iter().all(|flow| flow["completed"] == true),
            "{stack}"
        );
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
    let (figures, _out) = demo("--out . --in-process --scenario wireless");
    check_explicit(run(&figures, "pathmark auto"), "in-process");
    assert_eq!(figures["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn rounds_differ_and_give_one_picture_and_a_verdict() {
    let rounds = "--in-process --scenario wireless --rounds 2 --figure picture.svg";
    let (figures, here) = demo(&format!("--out . {rounds}"));
    let runs = figures["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let of = |round: u64| {
        let mut found = runs.iter().filter(move |run| run["seed"] == round);
        found.find(|run| run["stack"] == "pathmark cubic").unwrap()["links"][0].clone()
    };
    assert_ne!(of(1), of(2), "rounds lose the same packets");
    let verdict = figures["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("With 0.3 % random loss, pathmark auto"),
        "{verdict}"
    );
    let svg = std::fs::read_to_string(here.path().join("picture.svg")).unwrap();
    assert!(svg.contains("Last file complete, 0.3 % random loss"));
}

/// Packets that a link dropped or lost also count as lost at their sender, on TUN interfaces and in
/// the emulator.
#[test]
fn transfers_count_their_losses_and_write_no_file() {
    for mode in ["", " --in-process"] {
        let (figures, here) = demo(&format!("--scenario wireless --cc cubic{mode}"));
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
        let run = run(&figures, "pathmark cubic");
        let link = &run["links"][0];
        let dropped = link["drops"].as_u64().unwrap() + link["random_losses"].as_u64().unwrap();
        let flows = run["flows"].as_array().unwrap().iter();
        let lost = flows.map(|flow| flow["packets_lost"].as_u64().unwrap());
        let lost: u64 = lost.sum();
        assert!(dropped > 0, "the link of this scenario loses packets");
        assert!(lost >= dropped / 2, "{lost} lost of {dropped} dropped");
    }
}
