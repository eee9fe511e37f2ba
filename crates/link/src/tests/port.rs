//! Compares a port with an ideal link of its rate.

use std::sync::Arc;

use pathmark_cc::{
    Answer, Arrival, Carried, Duration, Instant, LinkController, LinkMetrics, VcpAnswer, VcpCode,
};
use proptest::prelude::*;

use crate::impair::Random;
use crate::queue::{DropTail, Limit, Red, RedConfig};
use crate::testing::{Log, VCP, separated};
use crate::trace::Trace;
use crate::{
    Change, DropCause, Link, LinkConfig, Port, Rebuild, Restart, Schedule, Shaper, WireConfig,
};

pub(super) fn arrival(bytes: u32, carried: Carried) -> Arrival {
    Arrival {
        bytes,
        flow_hash: u32::from(carried == Carried::Foreign),
        carried,
    }
}

pub(super) fn port(rate: u64, limit: Limit) -> Port<u32> {
    let queue = Box::new(DropTail::new(limit));
    Port::new(Instant::ZERO, queue, Shaper::new(Some(rate)))
}

/// Records its calls in order.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) events: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
    next: Option<Instant>,
}

impl LinkController for Witness {
    fn on_arrival(&mut self, _now: Instant, arrival: &Arrival, queue: u64) {
        self.note(format!("arrival {} behind {queue}", arrival.bytes));
    }
    fn on_departure(&mut self, _now: Instant, packet: &Arrival, queue: u64) -> Answer {
        self.note(format!("departure {} before {queue}", packet.bytes));
        Answer::Vcp(VcpAnswer {
            code: VcpCode::High,
            ..VcpAnswer::default()
        })
    }
    fn on_drop(&mut self, _now: Instant, packet: &Arrival) {
        self.note(format!("drop {}", packet.bytes));
    }
    fn on_timer(&mut self, now: Instant, queue: u64) {
        self.note(format!("timer {} with {queue}", now.as_nanos() / 1_000_000));
        self.next = Some(now + Duration::from_millis(100));
    }
    fn deadline(&self) -> Option<Instant> {
        self.next
    }
    fn on_capacity(&mut self, now: Instant, rate: u64) {
        self.note(format!("capacity {rate}"));
        self.next.get_or_insert(now + Duration::from_millis(100));
    }
    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}

impl Witness {
    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }
}

#[test]
fn the_controller_hears_arrivals_departures_drops_and_time() {
    let witness = Witness::default();
    let events = witness.events.clone();
    let mut port = port(1_000_000, Limit::Packets(1))
        .with_controller(Instant::ZERO, Box::new(witness))
        .with_overhead(14);
    let mut log = Log::default();
    for id in 0..3 {
        port.arrive(Instant::ZERO, arrival(986, VCP), id, &mut log);
        if id == 0 {
            assert_eq!(port.poll(Instant::ZERO, &mut log).unwrap().packet, 0);
        }
    }
    assert!(port.poll(Instant::ZERO, &mut log).is_none());
    assert_eq!(port.deadline(), Some(Instant::from_millis(1)));
    let second = port.poll(Instant::from_millis(1), &mut log).unwrap();
    assert_eq!(second.finished, Instant::from_millis(2));
    // The beat is first.
    assert_eq!(port.deadline(), Some(Instant::from_millis(50)));
    port.advance(Instant::from_millis(50));
    port.advance(Instant::from_millis(100));
    assert_eq!(
        *events.lock().unwrap(),
        [
            "capacity 1000000",
            "arrival 1000 behind 0",
            "departure 1000 before 0",
            "arrival 1000 behind 0",
            "arrival 1000 behind 1000",
            "drop 1000",
            "departure 1000 before 0",
            "timer 100 with 0",
        ]
    );
    assert_eq!(log.marks.len(), 2);
    assert_eq!(log.drops, [(2, DropCause::QueueFull)]);
    let stats = port.stats();
    assert_eq!((stats.arrived_packets(), stats.sent_packets()), (3, 2));
    assert_eq!(
        stats.sent_bytes(),
        2 * 986,
        "IP bytes, the link's own not counted"
    );
    assert_eq!(stats.capacity_bytes(Instant::from_millis(100)), 100_000);
}

/// A law must only be notified of drops for want of room in its own class, not of RED's drops or
/// of packets without a header.
#[test]
fn only_tail_drops_of_feedback_are_told() {
    let drops = |port: Port<u32>, arrivals: &[Carried]| {
        let witness = Witness::default();
        let events = witness.events.clone();
        let mut port = port.with_controller(Instant::ZERO, Box::new(witness));
        let mut log = Log::default();
        for (id, carried) in (0..).zip(arrivals) {
            port.arrive(Instant::ZERO, arrival(1000, *carried), id, &mut log);
        }
        let reported = events.lock().unwrap();
        let reported = reported
            .iter()
            .filter(|event| event.starts_with("drop"))
            .count();
        (log.drops.len(), reported)
    };
    let plain = Carried::Foreign;
    // One common queue.
    let one = || port(1_000_000, Limit::Packets(1));
    assert_eq!(drops(one(), &[VCP, VCP]), (1, 1));
    assert_eq!(drops(one(), &[VCP, plain, plain]), (2, 0));
    assert_eq!(drops(one(), &[plain, VCP]), (1, 1));
    // RED with room for many packets, so that all drops are RED's.
    let red = RedConfig {
        weight_q32: u32::MAX,
        min_packets: 1,
        max_packets: 2,
        ..RedConfig::new(Limit::Packets(1000))
    };
    let red = Red::new(red, Some(1_000_000), Random::new(1, "red")).unwrap();
    let red = Port::new(Instant::ZERO, Box::new(red), Shaper::new(Some(1_000_000)));
    let (dropped, reported) = drops(red, &[VCP; 100]);
    assert!(dropped > 50 && reported == 0, "{dropped} {reported}");
    // Two queues with room for two packets.
    let two = || separated(1_000_000, Limit::Packets(2));
    assert_eq!(drops(two(), &[VCP, VCP, VCP]), (1, 1));
    assert_eq!(drops(two(), &[plain, plain, plain]), (1, 0));
    // The foreign packet replaces the younger VCP packet, and vice versa.
    assert_eq!(drops(two(), &[VCP, VCP, plain]), (1, 1));
    assert_eq!(drops(two(), &[plain, plain, VCP]), (1, 0));
}

#[test]
fn what_the_port_declares_goes_with_each_answer() {
    let mut port = port(1_000_000, Limit::Packets(10));
    port.set_corruption(50_000);
    let mut log = Log::default();
    // Without a law, there is no answer that could carry it.
    port.arrive(Instant::ZERO, arrival(1000, VCP), 0, &mut log);
    assert!(port.poll(Instant::ZERO, &mut log).is_some());
    assert_eq!(log.marks, []);

    port.set_controller(Instant::ZERO, Some(Box::new(Witness::default())));
    for (millis, ppm) in [(1, 50_000), (2, 0)] {
        let now = Instant::from_millis(millis);
        port.set_corruption(ppm);
        port.arrive(now, arrival(1000, VCP), 1, &mut log);
        assert!(port.poll(now, &mut log).is_some());
        let Some((_, Answer::Vcp(answer))) = log.marks.pop() else {
            panic!("no mark")
        };
        assert_eq!((answer.code, answer.corruption_ppm), (VcpCode::High, ppm));
    }
}

#[test]
fn a_trace_says_when_packets_leave_and_what_the_link_could_have_carried() {
    let trace = Trace::parse("10\n10\n20\n").unwrap();
    let shaper = Shaper::following(Arc::new(trace), Instant::ZERO);
    let queue = Box::new(DropTail::new(Limit::Packets(10)));
    let witness = Witness::default();
    let events = witness.events.clone();
    let mut port =
        Port::new(Instant::ZERO, queue, shaper).with_controller(Instant::ZERO, Box::new(witness));
    // A report that nobody has made can be withdrawn without any effect.
    assert_eq!(port.set_report(Instant::ZERO, None), None);
    let (mut log, mut left) = (Log::default(), Vec::new());
    let ms = Instant::from_millis;
    for id in 0..3u32 {
        port.arrive(ms(12), arrival(1500, VCP), id, &mut log);
    }
    while let Some(at) = port.deadline().filter(|at| *at < ms(100)) {
        left.extend(port.poll(at, &mut log).map(|d| (d.packet, d.finished)));
    }
    // Those at 10 ms have passed; the next are at 20, 30 and 30 ms.
    assert_eq!(left, [(0, ms(20)), (1, ms(30)), (2, ms(30))]);
    assert_eq!(port.rate(), Some(14 * 15_000));
    // 15 opportunities of 1500 bytes in 100 ms, of which the last one counts for the next
    // period.
    assert_eq!(port.stats().capacity_bytes(ms(100)), 14 * 1500);
    port.advance(ms(100));
    let reported = events.lock().unwrap();
    let rates: Vec<&str> = reported
        .iter()
        .filter_map(|e| e.strip_prefix("capacity "))
        .collect();
    assert_eq!(rates, ["210000", "225000"]);
}

/// A port that follows a trace: one opportunity every 10 ms for 100 ms, then one every 2 ms.
fn varying() -> (Port<u32>, Arc<std::sync::Mutex<Vec<String>>>) {
    let times = (1..=10).map(|n| n * 10).chain((51..=100).map(|n| n * 2));
    let lines: Vec<String> = times.map(|at| at.to_string()).collect();
    let trace = Arc::new(Trace::parse(&lines.join("\n")).unwrap());
    let shaper = Shaper::following(trace, Instant::ZERO);
    let witness = Witness::default();
    let events = Arc::clone(&witness.events);
    let queue = Box::new(DropTail::new(Limit::Packets(10)));
    let port = Port::new(Instant::ZERO, queue, shaper);
    let port = port.with_controller(Instant::ZERO, Box::new(witness));
    events.lock().unwrap().clear();
    (port, events)
}

fn capacities(events: &std::sync::Mutex<Vec<String>>) -> Vec<u64> {
    let events = events.lock().unwrap();
    let rates = events.iter().filter_map(|e| e.strip_prefix("capacity "));
    rates.map(|rate| rate.parse().unwrap()).collect()
}

#[test]
fn a_law_is_told_no_more_than_the_hint_however_the_rate_turns() {
    let (mut port, events) = varying();
    port.set_capacity(Instant::ZERO, Some(200_000));
    port.advance(Instant::from_millis(100));
    assert!(capacities(&events).iter().all(|rate| *rate <= 200_000));
    assert_eq!(capacities(&events).last(), Some(&200_000));
}

#[test]
fn a_law_that_is_told_nothing_hears_what_was_and_nothing_of_what_comes() {
    let (mut port, events) = varying();
    port.follow(Instant::ZERO, 125_000);
    assert_eq!(capacities(&events), [125_000]);
    while let Some(at) = port
        .deadline()
        .filter(|at| *at <= Instant::from_millis(200))
    {
        port.advance(at);
    }
    let reported = capacities(&events);
    // Every 20 ms; an opportunity at exactly this time is not over yet.
    assert_eq!(reported.len(), 11, "{reported:?}");
    assert!(
        reported[1..=5].iter().all(|rate| *rate <= 150_000),
        "{reported:?}"
    );
    assert!(reported[6..].is_sorted(), "{reported:?}");
    assert_eq!(reported[10], 50 * 15_000, "{reported:?}");
}

#[test]
fn on_a_shared_medium_a_port_sends_when_it_is_its_turn() {
    let mut port = port(1_000_000, Limit::Packets(10));
    port.share_medium();
    let mut log = Log::default();
    for id in 0..2 {
        port.arrive(Instant::ZERO, arrival(1000, VCP), id, &mut log);
    }
    assert_eq!(port.deadline(), None);
    assert!(port.poll(Instant::ZERO, &mut log).is_none());
    let turn = Instant::from_millis(3);
    port.grant(turn);
    assert_eq!(port.deadline(), Some(turn));
    let departure = port.poll(turn, &mut log).unwrap();
    assert_eq!(
        (departure.packet, departure.finished),
        (0, Instant::from_millis(4))
    );
    assert_eq!(port.ready_at(), Instant::from_millis(4));
    assert!(port.poll(Instant::from_millis(5), &mut log).is_none());
    assert_eq!(port.deadline(), None);
}

#[test]
fn a_packet_that_leaves_soon_is_handed_over_at_once_but_spaced_all_the_same() {
    let mut link = Link::new(LinkConfig {
        port: port(10_000_000, Limit::Packets(100)),
        wire: WireConfig::default(),
        schedule: Schedule::default(),
    })
    .hand_over_early(Duration::from_micros(100));
    let mut log = Log::default();
    for (id, bytes) in [(1, 1000), (2, 1000), (3, 1001)] {
        link.arrive(Instant::ZERO, arrival(bytes, VCP), id, &mut log);
    }
    // 100 µs of transmission each; the third one takes too long.
    assert_eq!(link.poll(Instant::ZERO, &mut log), Some(1));
    assert_eq!(link.poll(Instant::ZERO, &mut log), None);
    assert_eq!(link.deadline(), Some(Instant::from_micros(100)));
    assert_eq!(link.poll(Instant::from_micros(100), &mut log), Some(2));
    assert_eq!(link.poll(Instant::from_micros(200), &mut log), None);
    assert_eq!(link.poll(Instant::from_micros(300), &mut log), None);
    assert_eq!(link.poll(Instant::from_nanos(300_100), &mut log), Some(3));
}

#[test]
fn changes_come_when_they_are_due() {
    let ms = Duration::from_millis;
    let back = Change {
        rate: Some(500_000),
        ..Change::default()
    };
    let outage = Change {
        rate: Some(0),
        delay: Some(ms(1)),
        ..Change::default()
    };
    let mut link = Link::new(LinkConfig {
        port: port(1_000_000, Limit::Packets(100)),
        wire: WireConfig {
            delay: Duration::from_millis(10),
            ..WireConfig::default()
        },
        schedule: Schedule::new(Instant::ZERO, [(ms(50), back), (ms(20), outage)]),
    });
    let mut log = Log::default();
    let mut arrivals = Vec::new();
    link.arrive(Instant::ZERO, arrival(1000, VCP), 1, &mut log);
    assert_eq!(link.poll(Instant::ZERO, &mut log), None);
    while let Some(at) = link.deadline() {
        if at == Instant::from_millis(20) {
            link.arrive(at, arrival(1000, VCP), 2, &mut log); // during the outage
        }
        while let Some(packet) = link.poll(at, &mut log) {
            arrivals.push((packet, at.as_nanos() / 1_000_000));
        }
    }
    assert_eq!(arrivals, [(1, 11), (2, 50 + 2 + 1)]);
}

proptest! {
    /// Arrived = sent + dropped + queued, and never more than the rate allows.
    #[test]
    fn conserves_and_shapes(
        rate in 1_000u64..100_000_000,
        separate: bool,
        steps in prop::collection::vec((0u64..5_000, 40u32..2_000, any::<bool>()), 1..300),
    ) {
        let limit = Limit::Bytes(20_000);
        let mut port = if separate {
            separated(rate, limit)
        } else {
            port(rate, limit)
        };
        let (mut log, mut now, mut sent, mut bytes) = (Log::default(), Instant::ZERO, 0u64, 0u64);
        let count = steps.len() as u64;
        for (gap, size, vcp) in steps {
            let next = now + Duration::from_micros(gap);
            while let Some(at) = port.deadline().filter(|at| *at <= next) {
                let at = at.max(now);
                if let Some(out) = port.poll(at, &mut log) {
                    sent += 1;
                    bytes += u64::from(out.arrival.bytes);
                    let end = u128::from(out.finished.as_nanos());
                    let most = u128::from(rate) * end / 1_000_000_000;
                    prop_assert!(u128::from(bytes) <= most + 1);
                }
            }
            now = next;
            let carried = if vcp { VCP } else { Carried::Foreign };
            port.arrive(now, arrival(size, carried), 0, &mut log);
            prop_assert!(port.depth().bytes <= 20_000);
        }
        let drops = log.drops.len() as u64;
        prop_assert_eq!(count, sent + drops + port.depth().packets);
        prop_assert_eq!(port.stats().drops().by_queue(), drops);
    }
}

/// While its router is down, a port holds no packets and calls no law. Then a new law starts
/// with an empty queue, but rate and counters stay.
#[test]
fn a_restart_forgets_queue_and_law() {
    let (old, new) = (Witness::default(), Witness::default());
    let (old_events, new_events) = (old.events.clone(), new.events.clone());
    let make = |law: Witness| {
        port(1_000_000, Limit::Packets(10)).with_controller(Instant::ZERO, Box::new(law))
    };
    let change = |restart| Change {
        restart: Some(restart),
        ..Change::default()
    };
    let at = |ms| Duration::from_millis(ms);
    let slower = Change {
        rate: Some(500_000),
        ..Change::default()
    };
    let schedule = [
        (at(2), slower),
        (at(3), change(Restart::Down)),
        (at(9), change(Restart::Up)),
    ];
    let mut new = Some(new);
    let mut link = Link::new(LinkConfig {
        port: make(old),
        wire: WireConfig::default(),
        schedule: Schedule::new(Instant::ZERO, schedule),
    })
    .with_rebuild(Rebuild::new(move |_| Some(make(new.take()?))));
    let mut log = Log::default();
    for id in 0..5 {
        link.arrive(Instant::ZERO, arrival(1000, VCP), id, &mut log);
    }
    // Two packets leave before the restart. The third is in transmission at this time, and still
    // arrives.
    let mut out = Vec::new();
    let mut poll = |ms, link: &mut Link<u32>, log: &mut Log| {
        while let Some(packet) = link.poll(Instant::from_millis(ms), log) {
            out.push(packet);
        }
    };
    for ms in 0..=3 {
        poll(ms, &mut link, &mut log);
    }
    link.arrive(Instant::from_millis(5), arrival(1000, VCP), 10, &mut log);
    poll(5, &mut link, &mut log);
    let heard = old_events.lock().unwrap().len();
    assert_eq!(link.port().depth().packets, 0);
    link.arrive(Instant::from_millis(10), arrival(1000, VCP), 11, &mut log);
    poll(10, &mut link, &mut log);
    poll(12, &mut link, &mut log);
    assert_eq!(out, [0, 1, 2, 11]);
    let removed = |id| (id, DropCause::Removed);
    assert_eq!(log.drops, [removed(3), removed(4), removed(10)]);
    assert_eq!(link.port().stats().drops().of(DropCause::Removed), 3);
    assert_eq!(
        old_events.lock().unwrap().len(),
        heard,
        "the old law is called again"
    );
    let new_events = new_events.lock().unwrap();
    assert!(
        new_events.contains(&"arrival 1000 behind 0".to_owned()),
        "{new_events:?}"
    );
    assert_eq!(new_events.last().unwrap(), "departure 1000 before 0");
    assert!(
        new_events.contains(&"capacity 500000".to_owned()),
        "{new_events:?}"
    );
    assert_eq!(link.port().rate(), Some(500_000));
}
