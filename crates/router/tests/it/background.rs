//! Background work, in other threads, does not delay the forwarding thread.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Pinger};

/// Echo replies are limited; where their time is measured, they are not.
const EVERY_PING: &str = "[icmp]\nrate = 1000000\nburst = 1000000";

/// A configuration that takes long to read holds up nothing; once it is there it is put in force,
/// and if it was asked for again meanwhile, it is read again.
#[test]
fn packets_do_not_wait_for_a_configuration() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    bed.configure("", "rate = \"3Mbit\"");
    let path = bed.path("router.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n{}", routes(200_000))).unwrap();
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let id = bed.router().id();
    for _ in 0..2 {
        // Of signals that come together only one is seen: each is followed by an answer.
        bed.router().hang_up().unwrap();
        for _ in 0..20 {
            assert!(pinger.ping(56).is_some());
        }
        assert_eq!(bed.link("right")["rate_bps"], 2e6);
    }
    // Where cores are wanted, it does not use up what packets are given of them.
    let levels = nice_levels(id);
    let reload = levels.iter().find(|(name, _)| name == "reload");
    assert_eq!(reload.unwrap().1, levels[0].1 + 10, "{levels:?}");
    for generation in [2, 3] {
        assert!(bed.next_reload().contains("vcp-router: reloaded"));
        assert_eq!(bed.link("right")["rate_bps"], 3e6);
        assert_eq!(bed.show()["reload"]["generation"], generation);
    }
}

/// The nice levels of a process's threads by name, its first thread in front.
fn nice_levels(process: u32) -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    tasks.sort_by_key(|path| !path.ends_with(process.to_string()));
    let level = |path: std::path::PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap();
        let (head, rest) = stat.rsplit_once(") ").unwrap();
        // State, fifteen numbers, nice: proc_pid_stat(5).
        let nice = rest.split(' ').nth(16).unwrap().parse().unwrap();
        (head.split_once('(').unwrap().1.to_owned(), nice)
    };
    tasks.into_iter().map(level).collect()
}

fn routes(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let [_, a, b, c] = (number * 4).to_be_bytes();
        let _ = writeln!(
            text,
            "[[route]]\nprefix = \"{}.{b}.{c}.0/30\"\nport = \"right\"",
            20 + a
        );
    }
    text
}

/// Pings and looks at the state by turns while `on` says so: how long each ping took, in order of
/// length.
fn pings(bed: &Bed, pinger: &mut Pinger, on: impl Fn(&serde_json::Value) -> bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while on(&bed.show()) {
        times.extend((0..20).map(|_| pinger.ping(56).unwrap()));
    }
    times.sort_unstable();
    times
}

/// How long pings take while 100,000 routes are put in force, and for as long a time before it,
/// which shows the machine's own pauses: a figure, not a test.
#[test]
#[ignore = "a measurement: run it alone, with --release"]
fn pings_during_a_reload_of_many_routes() {
    let mut bed = Bed::new();
    bed.keys = EVERY_PING.to_owned();
    bed.configure("", "rate = \"1Gbit\"");
    bed.start();
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let text = std::fs::read_to_string(bed.path("router.toml")).unwrap();
    let mut took = Duration::from_secs(2);
    for round in 0..10 {
        let more = routes(100_000 + round);
        std::fs::write(bed.path("router.toml"), format!("{text}\n{more}")).unwrap();
        let start = Instant::now();
        let before = pings(&bed, &mut pinger, |_| start.elapsed() < took);
        let start = Instant::now();
        bed.router().hang_up().unwrap();
        let last = |state: &serde_json::Value| state["reload"]["generation"] == round + 1;
        let during = pings(&bed, &mut pinger, last);
        took = start.elapsed();
        for (what, times) in [("before", before), ("reload", during)] {
            let late = times.iter().filter(|time| time.as_millis() >= 5).count();
            let part = |of: usize| times[times.len() - 1 - times.len() / of];
            eprintln!(
                "{what}: {} pings in {took:?}, of 100 one {:?}, of 1000 one {:?}, worst {:?}, \
                 {late} of 5 ms and more",
                times.len(),
                part(100),
                part(1000),
                times[times.len() - 1],
            );
        }
    }
}

/// Round-trip times of pings with 1,000 idle ports and without: a measurement, not a test.
#[test]
#[ignore = "a measurement: run it alone, with --release"]
fn pings_with_many_idle_ports() {
    let mut medians = Vec::new();
    for count in [0, 1000] {
        let mut bed = Bed::new();
        bed.keys = EVERY_PING.to_owned();
        bed.configure("", "");
        let mut text = std::fs::read_to_string(bed.path("router.toml")).unwrap();
        for number in 0..count {
            let _ = writeln!(
                text,
                "[[port]]\nname = \"idle{number}\"\ntun = \"idle{number}\""
            );
        }
        std::fs::write(bed.path("router.toml"), text).unwrap();
        bed.start();
        let ticks = |bed: &mut Bed| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", bed.router().id()));
            let stat = stat.unwrap();
            let fields: Vec<_> = stat
                .rsplit(')')
                .next()
                .unwrap()
                .split_whitespace()
                .collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
        let before = ticks(&mut bed);
        let start = Instant::now();
        let mut times: Vec<_> = (0..5_000).map(|_| pinger.ping(56).unwrap()).collect();
        times.sort();
        let (took, cpu) = (start.elapsed(), ticks(&mut bed) - before);
        let of = |share: usize| times[(times.len() - 1) * share / 100];
        eprintln!(
            "{count} idle ports: median {:?}, 99 % {:?}, {cpu} ticks of 10 ms in {took:?}",
            of(50),
            of(99)
        );
        medians.push(of(50));
    }
    eprintln!("{medians:?}");
}
