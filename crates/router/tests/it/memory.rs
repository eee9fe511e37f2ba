//! Packet buffers: whose they are, and when they come back.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::bed::{Bed, Pinger, bytes, until, vcp_router};

/// A size in the status of a process, in bytes.
fn size(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// The system refuses memory before the queue is full: packets are dropped and counted, and the
/// router goes on.
#[test]
fn memory_that_the_system_refuses_costs_packets() {
    let mut bed = Bed::new();
    bed.keys = "memory = \"256MiB\"".to_owned();
    bed.configure("", "rate = \"1Mbit\"\nqueue = { limit = \"100MB\" }");
    bed.start();
    bed.show();
    let pid = bed.router().id();
    let most = Some(size(pid, "VmSize:") + (8 << 20));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    prlimit(Pid::from_raw(pid.cast_signed()), Resource::As, limit).unwrap();
    let (a, _b) = bed.udp(false);
    let packet = bytes(1_400);
    until("one is refused", || {
        for _ in 0..500 {
            a.send(&packet).unwrap();
        }
        bed.link("right")["drops_by_cause"]["no_buffer"] != 0
    });
    let held = bed.show()["memory_bytes"].as_u64().unwrap();
    assert!((2 << 20..16 << 20).contains(&held), "{held}");
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let answered = (0..50).filter(|_| pinger.ping(56).is_some()).count();
    assert!(answered > 0, "no ping is answered");
    let state = bed.show();
    assert_eq!(state["links"].as_array().unwrap().len(), 2);
}

const SHAPE: &str = "rate = \"1Mbit\"\nqueue = { limit = \"8MB\" }";

/// A queue of the largest size that `check` allows is full of packets with the largest overhead.
/// Another port still answers every ping at once, and the memory is free again when the queue has
/// drained.
#[test]
fn a_full_queue_takes_nothing_that_another_port_was_promised() {
    let mut bed = Bed::new();
    bed.keys = "memory = \"16MiB\"\n[icmp]\nburst = 200".to_owned();
    let file = bed.path("router.toml");
    let check = ["check", "--config", file.to_str().unwrap()];
    bed.configure("", "rate = \"1Mbit\"\nqueue = { limit = \"10MB\" }");
    let refused = vcp_router(&check);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("it may use 11.8MiB"), "{text}");
    bed.configure("", SHAPE);
    assert!(vcp_router(&check).status.success());
    bed.start();
    let idle = bed.show()["memory_bytes"].as_u64().unwrap();
    let resident = |bed: &mut Bed| size(bed.router().id(), "VmRSS:");
    let before = resident(&mut bed);

    // What a ping takes in the middle of 50, and how many are answered.
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let mut pings = || {
        let mut times: Vec<_> = (0..50).filter_map(|_| pinger.ping(56)).collect();
        times.sort();
        (times.len(), times[times.len() / 2])
    };
    let (_, usual) = pings();
    let (a, _b) = bed.udp(false);
    // 20 + 8 + 229 bytes: one more than fit a buffer of 256.
    let packet = bytes(229);
    let dropped = |bed: &Bed| bed.link("right")["drops_by_cause"].clone();
    let full = |bed: &Bed| {
        let drops = dropped(bed);
        drops["queue_full"].as_u64().unwrap() + drops["no_buffer"].as_u64().unwrap() > 0
    };
    until("it is full", || {
        for _ in 0..2_000 {
            a.send(&packet).unwrap();
        }
        full(&bed)
    });
    let held = bed.show()["memory_bytes"].as_u64().unwrap();
    assert!((11 << 20..16 << 20).contains(&held), "{held}");

    let table = bed.shown(&[]);
    let parts = [" queue_full: ", " no_buffer: "];
    assert!(parts.iter().any(|part| table.contains(part)), "{table}");

    let (answered, took) = pings();
    assert_eq!(answered, 50);
    let most = usual + Duration::from_millis(1);
    assert!(took <= most, "{took:?}, {usual:?} with an empty queue");
    assert_eq!(bed.link("left")["drops_by_cause"]["no_buffer"], 0);

    // Drained, it returns what it took: to the pool at once, to the system soon.
    bed.configure("", "rate = \"10Gbit\"\nqueue = { limit = \"8MB\" }");
    bed.reload();
    until("memory is returned", || {
        let memory = bed.show()["memory_bytes"].as_u64().unwrap();
        let kept = resident(&mut bed).saturating_sub(before);
        memory <= idle + (2 << 20) && kept < 6 << 20
    });
    assert_eq!(bed.link("right")["queue_packets"]["now"], 0.0);
}
