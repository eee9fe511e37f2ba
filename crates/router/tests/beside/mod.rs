//! The thread that moves packets is for packets: what else there is to do is done beside it.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Pinger};

/// Echo replies are limited; where their time is measured, they are not.
const EVERY_PING: &str = "[icmp]\nrate = 1000000\nburst = 1000000";

/// A configuration that takes for ever to read holds up nothing; once it is there it is put in
/// force, and if it was asked for again meanwhile, it is read again.
#[test]
fn packets_do_not_wait_for_a_configuration() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    bed.configure("", "rate = \"3Mbit\"");
    let path = bed.path("router.toml");
    let three = std::fs::read(&path).unwrap();
    bed.configure("", "rate = \"4Mbit\"");
    let four = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(bed.inside("mkfifo", &[path.to_str().unwrap()]).0, Some(0));
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    for _ in 0..2 {
        // Of signals that come together only one is seen: each is followed by an answer.
        bed.router().hang_up().unwrap();
        for _ in 0..20 {
            assert!(pinger.ping(56).is_some());
        }
        assert_eq!(bed.link("right")["rate_bps"], 2e6);
    }
    for (text, rate, generation) in [(three, 3e6, 2), (four, 4e6, 3)] {
        std::fs::write(&path, text).unwrap();
        assert!(bed.next_reload().contains("vcp-router: reloaded"));
        assert_eq!(bed.link("right")["rate_bps"], rate);
        assert_eq!(bed.show()["reload"]["generation"], generation);
    }
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

/// How long pings take while 100,000 routes are put in force: a figure, not a test.
#[test]
#[ignore = "a measurement: run it alone, with --release"]
fn pings_during_a_reload_of_many_routes() {
    let mut bed = Bed::new();
    bed.keys = EVERY_PING.to_owned();
    bed.configure("", "rate = \"1Gbit\"");
    bed.start();
    let mut pinger = Pinger::new(&bed.left, "10.0.1.1");
    let text = std::fs::read_to_string(bed.path("router.toml")).unwrap();
    let (mut worst_of_all, mut took) = (Vec::new(), Duration::ZERO);
    for round in 0..3 {
        let more = routes(100_000 + round);
        std::fs::write(bed.path("router.toml"), format!("{text}\n{more}")).unwrap();
        // As long as the last reload took, so that the machine's own pauses show in both.
        let start = Instant::now();
        let mut usual = Duration::ZERO;
        while start.elapsed() < took.max(Duration::from_secs(1)) {
            usual = usual.max(pinger.ping(56).unwrap());
        }
        let start = Instant::now();
        bed.router().hang_up().unwrap();
        let (mut worst, mut count) = (Duration::ZERO, 0);
        while bed.show()["reload"]["generation"] == round + 1 {
            for _ in 0..20 {
                worst = worst.max(pinger.ping(56).unwrap());
                count += 1;
            }
        }
        took = start.elapsed();
        eprintln!("{count} pings in {took:?}: worst {worst:?}, before {usual:?}");
        worst_of_all.push(worst);
    }
    eprintln!("worst of all {:?}", worst_of_all.iter().max());
}

/// How long pings take beside 1000 idle ports, and without them: a figure, not a test.
#[test]
#[ignore = "a measurement: run it alone, with --release"]
fn pings_beside_many_idle_ports() {
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
