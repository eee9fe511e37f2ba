//! Links whose rate changes during a transmission, and links whose driver stalls.

use pathmark_cc::{Carried, Duration, Instant};

use super::port::{Witness, arrival, port};
use crate::impair::Random;
use crate::link::{Change, Link, LinkConfig, Schedule};
use crate::queue::Limit;
use crate::testing::{Log, VCP};
use crate::wire::{Jitter, WireConfig};

const MBIT_10: u64 = 1_250_000;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// A link of 10 Mbit/s and 20 ms whose rate is `slow` bytes per second from 1 s to 2 s.
fn dip(slow: u64, reorder: bool) -> Link<u32> {
    let rate = |rate| Change {
        rate: Some(rate),
        ..Change::default()
    };
    let changes = [
        (Duration::from_secs(1), rate(slow)),
        (Duration::from_secs(2), rate(MBIT_10)),
    ];
    let jitter = reorder.then(|| Jitter {
        max: Duration::ZERO,
        reorder,
        random: Random::new(1, "jitter"),
    });
    Link::new(LinkConfig {
        port: port(MBIT_10, Limit::Packets(100)),
        wire: WireConfig {
            delay: Duration::from_millis(20),
            jitter,
            ..WireConfig::default()
        },
        schedule: Schedule::new(Instant::ZERO, changes),
    })
}

/// The times at which packets leave.
fn drive(link: &mut Link<u32>, log: &mut Log, until: Instant) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    while let Some(now) = link.deadline().filter(|at| *at <= until) {
        while let Some(packet) = link.poll(now, log) {
            out.push((now.as_nanos() / 1000, packet));
        }
    }
    out
}

/// A packet of 1250 bytes takes 1 ms at 10 Mbit/s, 1250 s at 8 bit/s and 10 s at 1 kbit/s.
/// Without retiming, three packets that arrive during the dip would have to wait for the first
/// one's transmission, for 21 minutes.
#[test]
fn a_rate_that_returns_frees_the_port_at_once() {
    // The rate of the dip, and the bytes of the first packet that are left after it.
    for (slow, left) in [(0, 1250), (1, 1249), (125, 1125)] {
        for reorder in [false, true] {
            let mut log = Log::default();
            let mut link = dip(slow, reorder);
            drive(&mut link, &mut log, ms(1000));
            for id in 0..3 {
                link.arrive(ms(1000), arrival(1250, Carried::Foreign), id, &mut log);
            }
            let first = 2_020_000 + left * 1_000_000 / MBIT_10;
            let expected = [(first, 0), (first + 1000, 1), (first + 2000, 2)];
            let out = drive(&mut link, &mut log, ms(30_000));
            assert_eq!(out, expected, "{slow} {reorder}");
        }
    }
}

/// A packet whose transmission an outage stops must continue when the link is back.
#[test]
fn an_outage_stops_the_packet_in_transmission() {
    let mut log = Log::default();
    let mut link = dip(0, false);
    link.arrive(
        Instant::from_micros(999_600),
        arrival(1250, Carried::Foreign),
        7,
        &mut log,
    );
    let out = drive(&mut link, &mut log, ms(30_000));
    // The packet's first 400 µs had been sent before.
    assert_eq!(out, [(2_020_600, 7)]);
}

/// The law's clock stops while nothing drives the port. Its timer of 100 ms is late by the same
/// time, and the law must not see a second without packets.
#[test]
fn a_law_sees_no_time_in_which_its_port_did_not_run() {
    let law = Witness::default();
    let events = law.events.clone();
    let mut log = Log::default();
    let mut port = port(MBIT_10, Limit::Packets(100)).with_controller(Instant::ZERO, Box::new(law));
    port.arrive(ms(10), arrival(1250, VCP), 0, &mut log);
    assert!(port.poll(ms(10), &mut log).is_some());
    // The next beat is due at 60 ms.
    assert_eq!(port.deadline(), Some(ms(60)));
    port.advance(ms(60));
    port.advance(ms(1110));
    let reported = events.lock().unwrap().clone();
    assert_eq!(reported.last().unwrap(), "timer 110 with 0");
    // The next one is due at 210 ms on the law's clock.
    port.advance(ms(1160));
    assert_eq!(port.deadline(), Some(ms(1210)));
}

/// A port sends at the lower of its own rate and a reported one, so that packets wait where the
/// control law sees them.
#[test]
fn a_report_limits_the_rate_until_it_is_withdrawn() {
    let mut link = dip(MBIT_10, false);
    let mut log = Log::default();
    let rates = |link: &Link<u32>| {
        let port = link.port();
        (port.rate(), port.own_rate(), port.capacity())
    };
    for (report, expected) in [
        (Some(MBIT_10 / 10), MBIT_10 / 10),
        (Some(10 * MBIT_10), MBIT_10),
        (Some(1), 1),
        (Some(MBIT_10 / 2), MBIT_10 / 2),
    ] {
        link.set_report(Instant::ZERO, report);
        let expected = Some(expected);
        assert_eq!(rates(&link), (expected, Some(MBIT_10), expected));
    }
    // A new rate of the port's own counts when the report ends, or where it is lower.
    link.set_rate(Instant::ZERO, Some(MBIT_10 / 4));
    let quarter = Some(MBIT_10 / 4);
    assert_eq!(rates(&link), (quarter, quarter, quarter));
    link.set_rate(Instant::ZERO, Some(MBIT_10));
    // 1 ms at the port's own rate, 2 ms at the reported one.
    for packet in 0..2 {
        link.arrive(ms(0), arrival(1250, Carried::Foreign), packet, &mut log);
    }
    assert_eq!(
        drive(&mut link, &mut log, ms(100)),
        [(22_000, 0), (24_000, 1)]
    );
    link.set_report(ms(100), None);
    assert_eq!(rates(&link).0, Some(MBIT_10));
    // While next to nothing is reported, packets wait, and leave when this is over: of the first,
    // less than a byte has been sent.
    link.set_report(ms(100), Some(1));
    for packet in 2..4 {
        link.arrive(ms(100), arrival(1250, Carried::Foreign), packet, &mut log);
    }
    assert_eq!(drive(&mut link, &mut log, ms(900)), []);
    link.set_report(ms(900), None);
    assert_eq!(
        drive(&mut link, &mut log, ms(990)),
        [(920_999, 2), (921_999, 3)]
    );
}
