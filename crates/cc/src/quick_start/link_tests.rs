//! A port that grants.

use super::params::{GRANTS, PER_SOURCE};
use super::*;
use crate::testing::ms;
use crate::{Answer, Arrival, Carried, Instant, LinkController, Passive};

/// 1 Gbit/s in bytes per second.
const GBIT: u64 = 125_000_000;

fn port() -> QuickStartLink<Passive> {
    QuickStartLink::new(Instant::ZERO, GBIT, 7, Passive)
}

fn request(flow: u32, rate: u64, rtt: u64) -> Arrival {
    Arrival {
        bytes: 1500,
        flow_hash: flow,
        carried: Carried::QuickStart(QuickStartCarried {
            rate,
            rtt: Some(ms(rtt)),
            source: flow,
        }),
    }
}

fn foreign(bytes: u32) -> Arrival {
    Arrival {
        bytes,
        flow_hash: 1,
        carried: Carried::Foreign,
    }
}

/// What is approved of a request that comes by at `at` milliseconds.
fn ask(port: &mut QuickStartLink<Passive>, at: u64, arrival: &Arrival) -> u64 {
    let now = Instant::from_millis(at);
    port.on_arrival(now, arrival, 0);
    match port.on_departure(now, arrival, 0) {
        Answer::QuickStart(answer) => answer.approved,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_idle_port_grants_85_percent_once() {
    let mut port = port();
    let all = GBIT * 85 / 100;
    let got = ask(&mut port, 0, &request(1, u64::MAX, 100));
    // The request's own 1500 bytes are in use: 7500 B/s over 200 ms.
    assert_eq!(got, all - 7500);
    // Nothing is left for a second flow until the first one's traffic must have come.
    assert_eq!(ask(&mut port, 399, &request(2, GBIT, 100)), 0);
    assert!(ask(&mut port, 401, &request(3, GBIT, 100)) > all - 30_000);
    let metrics = port.metrics().grants.unwrap();
    assert_eq!(
        (metrics.requests, metrics.granted, metrics.denied_busy),
        (3, 2, 1)
    );
}

#[test]
fn a_grant_is_remembered_for_one_and_a_half_round_trips() {
    let mut port = port();
    assert!(ask(&mut port, 0, &request(1, GBIT, 1000)) > 0);
    assert_eq!(ask(&mut port, 1499, &request(2, GBIT, 1000)), 0);
    assert!(ask(&mut port, 1501, &request(2, GBIT, 1000)) > 0);
}

#[test]
fn who_asks_again_takes_the_place_of_the_former_grant() {
    let mut port = port();
    assert!(ask(&mut port, 0, &request(1, GBIT, 1000)) > 0);
    assert_eq!(ask(&mut port, 100, &request(1, GBIT / 2, 1000)), GBIT / 2);
    let pending = port.metrics().grants.unwrap().pending;
    assert_eq!(pending, GBIT / 2);
}

#[test]
fn what_is_in_use_is_not_granted() {
    let mut port = port();
    // Half of the capacity over 200 ms.
    for n in 0..200 {
        port.on_arrival(Instant::from_millis(n), &foreign(62_500), 0);
    }
    let got = ask(&mut port, 900, &request(1, GBIT, 100));
    assert_eq!(got, GBIT * 35 / 100);
    // A second later nothing of it is left.
    let got = ask(&mut port, 2500, &request(2, GBIT, 100));
    assert!(got > GBIT * 84 / 100);
    let mut full = self::port();
    full.on_arrivals(Instant::ZERO, &foreign(25_000_000), 16_000, 0);
    assert_eq!(ask(&mut full, 1, &request(1, GBIT, 100)), 0);
}

#[test]
fn a_request_that_was_denied_before_changes_nothing() {
    let mut port = port();
    let now = Instant::ZERO;
    assert_eq!(port.on_departure(now, &request(1, 0, 10), 0), Answer::None);
    assert_eq!(port.metrics().grants.unwrap().pending, 0);
}

#[test]
fn a_source_that_asks_by_the_thousand_is_denied() {
    let mut port = port();
    for n in 0..1000 {
        let mut arrival = request(n, 1000, 100);
        if let Carried::QuickStart(asked) = &mut arrival.carried {
            asked.source = 9;
        }
        let got = ask(&mut port, 5, &arrival);
        assert_eq!(got > 0, n < u32::from(PER_SOURCE), "{n}");
    }
    let metrics = port.metrics().grants.unwrap();
    assert_eq!(metrics.denied_source, 1000 - u64::from(PER_SOURCE));
    assert_eq!(metrics.pending, 1000 * u64::from(PER_SOURCE));
    // Another one is not held back by it.
    assert_eq!(ask(&mut port, 6, &request(5000, 1000, 100)), 1000);
}

#[test]
fn a_thousand_sources_fill_the_table_and_no_more() {
    let mut port = port();
    let mut granted = 0;
    for n in 0..1000 {
        granted += usize::from(ask(&mut port, 5, &request(n, 1000, 16_000)) > 0);
    }
    assert_eq!(granted, GRANTS);
    let metrics = port.metrics().grants.unwrap();
    assert_eq!(metrics.denied_room, 1000 - GRANTS as u64);
    // The longest deadline clears it.
    assert_eq!(ask(&mut port, 24_006, &request(1, 1000, 100)), 1000);
    assert_eq!(port.metrics().grants.unwrap().pending, 1000);
}

#[test]
fn all_grants_together_stay_within_the_bound() {
    let mut port = port();
    let mut sum = 0;
    for n in 0..200 {
        sum += ask(
            &mut port,
            n,
            &request(u32::try_from(n).unwrap(), GBIT / 10, 5000),
        );
        assert!(sum <= GBIT * 85 / 100);
    }
    assert!(sum > GBIT * 84 / 100);
}

#[test]
fn nonces_are_drawn_anew() {
    let mut port = port();
    let mut draw = || match port.on_departure(Instant::ZERO, &request(1, 1000, 10), 0) {
        Answer::QuickStart(answer) => answer.random,
        other => panic!("{other:?}"),
    };
    assert_ne!(draw(), draw());
}
