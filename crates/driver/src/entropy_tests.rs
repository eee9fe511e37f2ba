//! The cryptography library has gathered its initial entropy before a handshake needs it.

use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::Endpoint;
use pathmark_transport::crypto::gather_entropy;

/// Set for a process that measures; its value says whether to create an endpoint.
const ROLE: &str = "PATHMARK_ENTROPY";

/// Returns the processor time of this thread in microseconds.
fn worked() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    (usage.user_time() + usage.system_time()).num_microseconds()
}

#[test]
#[ignore = "a part of the test in this file, which starts it as a process of its own"]
fn first_randomness() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let begun = worked();
    if role == "endpoint" {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        // With one thread for blocking work, tasks run one after the other.
        let runtime = runtime.enable_all().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let _endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
            tokio::task::spawn_blocking(|| {}).await.unwrap();
        });
    }
    let made = worked();
    gather_entropy();
    println!("\nworked {} {}", made - begun, worked() - made);
}

/// Starts a process, with or without an endpoint, and returns the processor time of its thread for
/// creating this and for the first random bytes.
fn measure(role: &str) -> (i64, i64) {
    let name = "entropy_tests::first_randomness";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--ignored", "--nocapture"]);
    let child = child.env(ROLE, role).output().unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    let figures = output.lines().find_map(|line| {
        let (made, first) = line.strip_prefix("worked ")?.split_once(' ')?;
        Some((made.parse().unwrap(), first.parse().unwrap()))
    });
    figures.expect("it measures")
}

/// Gathering entropy takes tens of milliseconds, which burden neither the thread that creates an
/// endpoint nor a later handshake.
#[test]
fn an_endpoint_has_entropy_gathered_by_another_thread() {
    let (_, cold) = measure("none");
    let (made, first) = measure("endpoint");
    let little = (cold / 4).max(5000);
    let used = format!("{made} for that and {first} with it");
    assert!(
        made + first < little,
        "{cold} us without an endpoint; {used}"
    );
}
