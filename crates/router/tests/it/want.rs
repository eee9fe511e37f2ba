//! What the system no longer gives: descriptors.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Pinger};

const EVERY_PING: &str = "[icmp]\nrate = 1000000\nburst = 1000000";

/// Ticks of 10 ms that the thread of this name has run for.
fn ticks(bed: &mut Bed, thread: &str) -> u64 {
    let tasks = format!("/proc/{}/task", bed.router().id());
    let ran = |stat: String| {
        let (head, rest) = stat.rsplit_once(')')?;
        let mut fields = rest
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0));
        let used: u64 = fields.nth(11)? + fields.next()?;
        head.ends_with(thread).then_some(used)
    };
    let stats = std::fs::read_dir(tasks)
        .unwrap()
        .filter_map(|task| ran(std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?));
    stats.sum()
}

/// The least limit of descriptors: waiting for clients fails (ppoll(2) refuses more descriptors
/// than the limit), and no file can be opened. Packets pass, nothing spins, and once there are
/// descriptors again all is as before.
#[test]
fn without_descriptors_packets_pass_and_nothing_spins() {
    let mut bed = Bed::new();
    bed.keys = EVERY_PING.to_owned();
    bed.configure("", "rate = \"10Mbit\"");
    bed.start();
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    assert!(pinger.ping(56).is_some());
    let id = bed.router().id().to_string();
    let limit = |soft: &str| {
        let mut command = Command::new("prlimit");
        command.args(["--pid", &id, &format!("--nofile={soft}:")]);
        assert!(command.status().unwrap().success(), "{soft}");
    };
    limit("1");
    let before = ticks(&mut bed, "status");
    // Wakes the thread up, which then finds that it cannot wait any more.
    let waiting = bed.metrics();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        assert!(pinger.ping(56).is_some());
    }
    let used = ticks(&mut bed, "status") - before;
    assert!(used < 20, "{used} ticks of 100 in a second");
    let log = bed.reload();
    assert!(log.contains("not reloaded"), "{log}");
    drop(waiting);
    limit("1024");
    assert!(bed.reload().contains("vcp-router: reloaded"));
    let reload = &bed.show()["reload"];
    assert_eq!([&reload["failures"], &reload["generation"]], [1, 2]);
    assert!(pinger.ping(56).is_some());
}
