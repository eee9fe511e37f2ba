//! What the system no longer gives: descriptors, memory.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{Bed, Pinger, bytes};

const EVERY_PING: &str = "[icmp]\nrate = 1000000\nburst = 1000000";

/// Ticks of 10 ms that the thread of this name has run for.
fn ticks(bed: &mut Bed, thread: &str) -> u64 {
    let tasks = format!("/proc/{}/task", bed.router().id());
    let stats = std::fs::read_dir(tasks).unwrap().filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(')')?;
        let fields: Vec<u64> = rest
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        head.ends_with(thread).then(|| fields[11] + fields[12])
    });
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
    assert_eq!(
        (&reload["failures"], &reload["generation"]),
        (&1.into(), &2.into())
    );
    assert!(pinger.ping(56).is_some());
}

/// Little memory, and packets of all sizes that want more than the queue may hold: they are
/// counted, and when they have gone everything passes again.
#[test]
fn with_little_memory_packets_are_counted_and_later_ones_pass() {
    let mut bed = Bed::new();
    bed.keys = format!("memory = \"1MiB\"\n{EVERY_PING}");
    bed.configure(
        "queue = { limit = \"10p\" }",
        "rate = \"500kbit\"\nqueue = { limit = \"100p\" }",
    );
    bed.start();
    let (from, to) = bed.udp(false);
    let start = Instant::now();
    let lost = |bed: &Bed| {
        let drops = bed.link("right")["drops_by_cause"].clone();
        drops["queue_full"].as_u64().unwrap() + drops["no_buffer"].as_u64().unwrap()
    };
    while lost(&bed) < 1_000 {
        // Fragments too, of which the kernel of the sender makes some.
        for len in [1, 200, 1_400, 8_000, 60_000] {
            for _ in 0..20 {
                from.send(&bytes(len)).unwrap();
            }
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it never fills");
    }
    let state = bed.show();
    assert!(state["memory_bytes"].as_u64().unwrap() <= 1 << 20);
    // Drained, it carries what it is given.
    let idle = |bed: &Bed| bed.link("right")["queue_packets"]["now"] == 0.0;
    while !idle(&bed) {
        assert!(start.elapsed() < Duration::from_secs(60), "it never drains");
    }
    let patience = Some(Duration::from_secs(5));
    to.set_read_timeout(patience).unwrap();
    let mut buffer = [0; 65_536];
    let last = bytes(777);
    from.send(&last).unwrap();
    while to.recv(&mut buffer).unwrap() != last.len() {}
    assert_eq!(buffer[..last.len()], last[..]);
}

/// Packets so small that those under way for half a second take more buffers than the port may
/// hold: each that finds none is counted as that, another port does not notice, and once the wire
/// is empty everything passes again.
#[test]
fn packets_that_find_no_buffer_are_counted_as_that() {
    let mut bed = Bed::new();
    bed.keys = format!("memory = \"1MiB\"\n{EVERY_PING}");
    bed.configure(
        "queue = { limit = \"10p\" }",
        "rate = \"1600kbit\"\ndelay = \"500ms\"\nqueue = { limit = \"100p\" }",
    );
    bed.start();
    // 29 bytes take 145 us each and a buffer of 256: some 3,400 are under way, 2,300 find room.
    let (from, to) = bed.udp(false);
    let no_buffer = |state: &Value| state["counters"]["no_buffer"].as_u64().unwrap();
    let of = |state: &Value, index: usize| {
        let causes = &state["links"][index]["drops_by_cause"];
        causes["no_buffer"].as_u64().unwrap()
    };
    let start = Instant::now();
    let full = loop {
        for _ in 0..200 {
            from.send(b"x").unwrap();
        }
        let state = bed.show();
        if no_buffer(&state) >= 1_000 {
            break state;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{state}");
    };
    assert_eq!((of(&full, 0), of(&full, 1)), (0, no_buffer(&full)));
    let held = full["links"][1]["memory_bytes"].as_u64().unwrap();
    assert!((500_000..1 << 20).contains(&held), "{held}");
    assert!(full["memory_bytes"].as_u64().unwrap() <= 1 << 20, "{full}");
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let answered = (0..50).filter_map(|_| pinger.ping(56)).count();
    assert_eq!(answered, 50);

    while bed.link("right")["memory_bytes"] != 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "it never drains");
    }
    let before = no_buffer(&bed.show());
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 100];
    for number in 0..20u8 {
        from.send(&[number; 50]).unwrap();
    }
    for number in 0..20u8 {
        // What came before is one byte long.
        while to.recv(&mut buffer).unwrap() != 50 {}
        assert_eq!(buffer[..50], [number; 50]);
    }
    assert_eq!(no_buffer(&bed.show()), before);
}
