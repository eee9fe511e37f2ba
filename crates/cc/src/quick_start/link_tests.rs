//! Tests of a granting port.

use super::{GRANTS, PER_SOURCE, *};
use crate::base::Instant;
use crate::law::{LinkController, Passive};
use crate::metrics::GrantMetrics;
use crate::signals::{Answer, Arrival, Carried};
use crate::testing::{approved, asking, foreign, ms};

/// 1 Gbit/s in bytes per second.
const GBIT: u64 = 125_000_000;

fn port() -> QuickStartLink<Passive> {
    QuickStartLink::new(Instant::ZERO, GBIT, 7, Passive)
}

pub(super) fn ask(port: &mut QuickStartLink<Passive>, at: u64, request: &Arrival) -> u64 {
    approved(port, at, request).unwrap()
}

#[test]
fn an_idle_port_grants_85_percent_once() {
    let mut port = port();
    let all = GBIT * 85 / 100;
    let got = ask(&mut port, 0, &asking(1, u64::MAX, 100));
    // The request's own 1500 bytes count as used: 7500 B/s over 200 ms.
    assert_eq!(got, all - 7500);
    // Nothing is left for a second flow until the first one's traffic must have arrived.
    assert_eq!(ask(&mut port, 149, &asking(2, GBIT, 100)), 0);
    assert!(ask(&mut port, 151, &asking(3, GBIT, 100)) > all - 30_000);
    let metrics = port.metrics().grants.unwrap();
    assert_eq!([metrics.granted, metrics.denied_busy], [2, 1]);
    assert_eq!(metrics.requests, 3);
}

/// A question like [`asking`], of this source.
fn asking_from(source: u32, flow: u32, rate: u64, rtt: u64) -> Arrival {
    let mut arrival = asking(flow, rate, rtt);
    if let Carried::QuickStart(asked) = &mut arrival.carried {
        asked.source = source;
    }
    arrival
}

/// A plain packet of flow `flow`.
fn plain(flow: u32, bytes: u32) -> Arrival {
    Arrival {
        flow_hash: flow,
        ..foreign(bytes)
    }
}

/// The same at `at` milliseconds.
fn packet(port: &mut QuickStartLink<Passive>, at: u64, flow: u32, bytes: u32) {
    port.on_arrival(Instant::from_millis(at), &plain(flow, bytes), 0);
}

fn metrics(port: &QuickStartLink<Passive>) -> GrantMetrics {
    port.metrics().grants.unwrap()
}

#[test]
fn a_grant_without_traffic_is_waited_for_a_round_trip_and_a_quarter() {
    let mut port = port();
    assert!(ask(&mut port, 0, &asking(1, GBIT, 1000)) > 0);
    assert_eq!(ask(&mut port, 1249, &asking(2, GBIT, 1000)), 0);
    assert_eq!(metrics(&port).unused, 0);
    assert!(ask(&mut port, 1251, &asking(2, GBIT, 1000)) > GBIT * 8 / 10);
    assert_eq!(metrics(&port).unused, 1);
}

/// A server asks before it has measured the RTT, so the port assumes one second. When the flight
/// arrives after 200 ms, the law must not count it in addition to the promised rate.
#[test]
fn a_flight_that_comes_before_the_stated_round_trip_is_over_has_come() {
    for stated in [None, Some(ms(1000))] {
        let mut port = port();
        let mut request = asking(1, GBIT / 2, 0);
        if let Carried::QuickStart(carried) = &mut request.carried {
            carried.rtt = stated;
        }
        let granted = ask(&mut port, 0, &request);
        assert!(granted > GBIT / 3);
        // An initial window and a handshake in twenty packets.
        for _ in 0..20 {
            packet(&mut port, 10, 1, 1500);
        }
        assert_eq!(metrics(&port).outstanding, granted, "{stated:?}");
        for _ in 0..5 {
            packet(&mut port, 200, 1, 1500);
        }
        assert_eq!(metrics(&port).outstanding, 0, "{stated:?}");
        assert_eq!(metrics(&port).unused, 0, "{stated:?}");
    }
}

#[test]
fn a_grant_counts_until_its_traffic_shows_in_what_is_used() {
    let mut port = port();
    assert!(ask(&mut port, 0, &asking(1, GBIT, 1000)) > 0);
    // The first window, followed by the flight's first packet.
    packet(&mut port, 1, 1, 15_000);
    packet(&mut port, 1000, 1, 1500);
    assert_eq!(ask(&mut port, 1399, &asking(2, GBIT, 1000)), 0);
    assert_eq!(metrics(&port).pending, GBIT * 85 / 100 - 7500);
    packet(&mut port, 1399, 1, 1500);
    assert!(ask(&mut port, 1401, &asking(2, GBIT, 1000)) > GBIT * 8 / 10);
}

#[test]
fn one_packet_of_a_stranger_holds_the_port_for_little_more_than_a_second() {
    let mut port = port();
    assert!(ask(&mut port, 0, &asking(1, u64::MAX, 16_384)) > 0);
    assert_eq!(ask(&mut port, 1000, &asking(2, GBIT, 100)), 0);
    assert!(ask(&mut port, 1300, &asking(3, GBIT, 100)) > GBIT * 8 / 10);
}

#[test]
fn a_stranger_who_asks_on_and_on_is_granted_little() {
    // Questions of one flow or many, which claim RTTs of all lengths.
    for flows in [1, 1000] {
        for stated in [1, 100, 1024, 16_384] {
            let mut port = port();
            let (mut sum, mut count) = (0, 0);
            for at in (0..60_000).step_by(50) {
                let flow = 10 + u32::try_from(at).unwrap() % flows;
                ask(&mut port, at, &asking_from(7, flow, u64::MAX, stated));
                sum += metrics(&port).pending;
                count += 1;
            }
            let mean = sum / count;
            assert!(mean < GBIT / 5, "{flows} flows, {stated} ms: {mean}");
        }
    }
}

#[test]
fn flights_show_the_round_trips_that_are_believed() {
    let mut port = port();
    for n in 0..4 {
        let start = 10_000 * n;
        let flow = u32::try_from(n).unwrap();
        assert!(ask(&mut port, start, &asking(flow, GBIT / 8, 2048)) > 0);
        for at in 0..10 {
            // More than an eighth of the grant.
            packet(&mut port, start + 1900 + at, flow, 1_000_000);
        }
    }
    assert_eq!(metrics(&port).unused, 1, "it was not believed at first");
    // By now, up to 2048 ms are accepted.
    ask(&mut port, 50_000, &asking(9, GBIT, 2048));
    assert_eq!(ask(&mut port, 52_500, &asking(10, GBIT, 100)), 0);
    assert!(ask(&mut port, 52_600, &asking(11, GBIT, 100)) > 0);
}

#[test]
fn a_source_behind_a_narrower_hop_is_granted_again() {
    let mut port = port();
    for n in 0..20 {
        let flow = u32::try_from(n).unwrap();
        // The flow uses a fifth of its grant.
        let asks = asking_from(7, flow, GBIT / 2, 100);
        assert_eq!(ask(&mut port, 3000 * n, &asks), GBIT / 2);
        for at in 90..190 {
            packet(&mut port, 3000 * n + at, flow, 12_500);
        }
    }
}

#[test]
fn who_asks_again_takes_the_place_of_the_former_grant() {
    let mut port = port();
    assert!(ask(&mut port, 0, &asking(1, GBIT, 1000)) > 0);
    for at in [100, 200] {
        let got = ask(&mut port, at, &asking(1, GBIT / 2, 1000));
        assert_eq!((got, metrics(&port).pending), (GBIT / 2, got));
    }
    // Three grants were unused, so it gets an eighth.
    let got = ask(&mut port, 300, &asking(1, GBIT, 1000));
    assert_eq!((got, metrics(&port).pending), (GBIT / 16, got));
}

#[test]
fn what_is_in_use_is_not_granted() {
    let mut port = port();
    // Uses half of the capacity over 200 ms.
    for n in 0..200 {
        port.on_arrival(Instant::from_millis(n), &foreign(62_500), 0);
    }
    let got = ask(&mut port, 900, &asking(1, GBIT, 100));
    assert_eq!(got, GBIT * 35 / 100);
    // A second later, this no longer counts.
    let got = ask(&mut port, 2500, &asking(2, GBIT, 100));
    assert!(got > GBIT * 84 / 100);
    let mut full = self::port();
    full.on_arrivals(Instant::ZERO, &foreign(25_000_000), 16_000, 0);
    assert_eq!(ask(&mut full, 1, &asking(1, GBIT, 100)), 0);
}

#[test]
fn a_request_that_was_denied_before_changes_nothing() {
    let mut port = port();
    let now = Instant::ZERO;
    assert_eq!(port.on_departure(now, &asking(1, 0, 10), 0), Answer::None);
    assert_eq!(port.metrics().grants.unwrap().pending, 0);
}

#[test]
fn a_source_that_asks_by_the_thousand_is_denied() {
    let mut port = port();
    for n in 0..1000 {
        let got = ask(&mut port, 5, &asking_from(9, n, 1000, 100));
        assert_eq!(got > 0, n < u32::from(PER_SOURCE), "{n}");
    }
    let metrics = port.metrics().grants.unwrap();
    assert_eq!(metrics.denied_source, 1000 - u64::from(PER_SOURCE));
    assert_eq!(metrics.pending, 1000 * u64::from(PER_SOURCE));
    // Another source isn't affected.
    assert_eq!(ask(&mut port, 6, &asking(5000, 1000, 100)), 1000);
}

#[test]
fn a_thousand_sources_fill_the_table_and_no_more() {
    let mut port = port();
    let mut granted = 0;
    for n in 0..1000 {
        granted += usize::from(ask(&mut port, 5, &asking(n, 1000, 16_000)) > 0);
    }
    assert_eq!(granted, GRANTS);
    let metrics = port.metrics().grants.unwrap();
    assert_eq!(metrics.denied_room, 1000 - GRANTS as u64);
    // Grants that no longer count make room, whatever RTT was stated.
    assert_eq!(ask(&mut port, 1500, &asking(1, 1000, 100)), 1000);
    assert_eq!(port.metrics().grants.unwrap().pending, 1000);
}

#[test]
fn all_grants_together_stay_within_the_bound() {
    let mut port = port();
    let mut sum = 0;
    for n in 0..200 {
        let asks = asking(n, GBIT / 10, 5000);
        sum += ask(&mut port, u64::from(n), &asks);
        assert!(sum <= GBIT * 85 / 100);
    }
    assert!(sum > GBIT * 84 / 100);
}

#[test]
fn nonces_are_drawn_anew() {
    let mut port = port();
    let mut draw = || match port.on_departure(Instant::ZERO, &asking(1, 1000, 10), 0) {
        Answer::QuickStart(answer) => answer.random,
        other => panic!("{other:?}"),
    };
    assert_ne!(draw(), draw());
}

/// If an answer is lost behind the port, the question is repeated. It is granted the same, whatever
/// the flow has sent in the meantime.
#[test]
fn a_question_that_comes_again_is_granted_as_much_twice() {
    for meanwhile in [0, 20_000] {
        let mut port = port();
        let first = ask(&mut port, 0, &asking(1, GBIT, 100));
        for (at, full) in [(200, true), (400, true), (600, false)] {
            for before in [90, 60, 10] {
                packet(&mut port, at - before, 1, meanwhile);
            }
            let got = ask(&mut port, at, &asking(1, GBIT, 100));
            let is_full = got > first - 1_000_000;
            assert_eq!(is_full, full, "{at} ms: {got} of {first}");
        }
    }
}

/// A request with a long stated RTT only has the time that follows from the accepted RTT.
#[test]
fn a_question_that_comes_again_late_is_held_against_its_source() {
    for (at, full) in [(2_900, true), (6_000, false)] {
        let mut port = port();
        let first = ask(&mut port, 0, &asking(1, GBIT, 16_000));
        let got = ask(&mut port, at, &asking(1, GBIT, 16_000));
        assert_eq!(got > first / 2, full, "{at} ms: {got} of {first}");
    }
}

/// Until then, it counts as unused for other flows of this source.
#[test]
fn a_grant_that_is_not_used_is_held_against_its_source_until_it_is_asked_for_again() {
    let mut port = port();
    let first = ask(&mut port, 0, &asking(1, GBIT, 100));
    let other = asking_from(1, 2, GBIT, 100);
    assert_eq!(ask(&mut port, 200, &other), first / 8);
    // It doesn't get everything, because the other flow has some.
    let got = ask(&mut port, 210, &asking(1, GBIT, 100));
    assert!(got > first * 6 / 8, "{got}");
}

/// A law that records the reported grants.
#[derive(Debug, Default)]
struct GrantLog(std::sync::Arc<std::sync::Mutex<Vec<u64>>>);

impl LinkController for GrantLog {
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival, _queue: u64) {}
    fn on_departure(&mut self, _now: Instant, _packet: &Arrival, _queue: u64) -> Answer {
        Answer::None
    }
    fn on_drop(&mut self, _now: Instant, _packet: &Arrival) {}
    fn on_timer(&mut self, _now: Instant, _queue: u64) {}
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_capacity(&mut self, _now: Instant, _bytes_per_second: u64) {}
    fn on_granted(&mut self, _now: Instant, _flow: u32, bytes_per_second: u64) {
        self.0.lock().unwrap().push(bytes_per_second);
    }
    fn metrics(&self) -> crate::metrics::LinkMetrics {
        crate::metrics::LinkMetrics::default()
    }
}

/// Packets of a flow that asked show the use of its grant even if the law doesn't receive plain
/// packets.
#[test]
fn plain_packets_at_a_port_that_keeps_them_apart_use_a_grant() {
    let reported = std::sync::Arc::default();
    let law = GrantLog(std::sync::Arc::clone(&reported));
    let mut port = QuickStartLink::new(Instant::ZERO, GBIT, 7, law);
    for flow in 1..=4 {
        let at = u64::from(flow) * 5000;
        let (now, asks) = (Instant::from_millis(at), asking(flow, GBIT / 2, 100));
        let Answer::QuickStart(answer) = port.on_departure(now, &asks, 0) else {
            panic!("no answer");
        };
        // The whole grant counts, because earlier flows used theirs.
        assert_eq!(reported.lock().unwrap().last(), Some(&answer.approved));
        assert_eq!(port.metrics().grants.unwrap().outstanding, answer.approved);
        // A repeated question doesn't count as a packet of the grant.
        port.on_unheard(Instant::from_millis(at + 90), &asks);
        assert_eq!(port.metrics().grants.unwrap().outstanding, answer.approved);
        for later in 100..200 {
            port.on_unheard(Instant::from_millis(at + later), &plain(flow, 600_000));
        }
        let grants = port.metrics().grants.unwrap();
        assert_eq!((grants.outstanding, grants.unused), (0, 0));
    }
}
