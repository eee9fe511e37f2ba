//! Tests of the sender's handling of answers.

use super::*;
use crate::ada::Ada;
use crate::base::Instant;
use crate::cubiq::{Cubiq, CubiqParams};
use crate::law::{Acked, Controller, Limits};
use crate::metrics::QuickStartMetrics;
use crate::signals::Feedback;
use crate::signals::{QuickStartFeedback, QuickStartRequest};
use crate::testing::{acked, approval, at, lost, ms, sent};

pub(super) const MTU: u16 = 1472;
/// 1 Gbit/s in bytes per second.
pub(super) const GBIT: u64 = 125_000_000;
pub(super) const RTT: u64 = 60;

/// Asks with packet 0 at 0 ms.
pub(super) fn ask<C: Startable>(sender: &mut QuickStart<C>) -> QuickStartRequest {
    sender.on_handshake_rtt(at(0), ms(RTT));
    assert!(sender.asks());
    let request = sender.ask(at(0), 0x7700_1234_5678_9ABC, &Limits::NONE);
    let request = request.unwrap();
    for number in 0..10 {
        sender.on_sent(at(0), &sent(number, 1472));
    }
    assert!(!sender.asks());
    request
}

pub(super) fn hear<C: Startable>(
    sender: &mut QuickStart<C>,
    millis: u64,
    answer: QuickStartFeedback,
) {
    let acked = acked(0, 1472, ms(RTT));
    sender.on_feedback(at(millis), &Feedback::QuickStart(answer), &acked);
}

pub(super) fn cubiq(rate: Option<u64>) -> Cubiq {
    let params = CubiqParams {
        rate,
        ..CubiqParams::default()
    };
    Cubiq::cubiq(MTU, &params)
}

/// Sends packets `first..end` of 1472 bytes, starting at 60 ms with one per 100 µs.
pub(super) fn fly<C: Startable>(sender: &mut QuickStart<C>, first: u64, end: u64) {
    for number in first..end {
        let now = Instant::from_micros(60_000 + (number - first) * 100);
        sender.on_sent(now, &sent(number, 1472));
    }
}

pub(super) fn quick_start<C: Startable>(sender: &QuickStart<C>) -> QuickStartMetrics {
    sender.metrics().quick_start.unwrap()
}

/// A sender that was granted half a Gbit/s, and used it for packets 10 to `end`.
pub(super) fn flying<C: Startable>(mut sender: QuickStart<C>, end: u64) -> QuickStart<C> {
    let request = ask(&mut sender);
    hear(&mut sender, 60, approval(&request, GBIT / 2));
    fly(&mut sender, 10, end);
    sender
}

pub(super) fn ack(largest: u64, bytes: u64) -> Acked {
    acked(largest, bytes, ms(RTT))
}

#[test]
fn a_grant_opens_the_window_and_sets_the_pace() {
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    assert_eq!(request.rate, GBIT);
    assert_eq!(request.ttl_difference, 0x77);
    assert_eq!(request.nonce, 0x1234_5678_9ABC);
    assert_eq!(sender.window(), 14_720);
    // The paper's reference: 4250 packets of 1500 bytes.
    hear(&mut sender, 60, approval(&request, GBIT * 85 / 100));
    assert_eq!(sender.window().div_ceil(1472), 4250);
    assert_eq!(sender.pacing_rate(), Some(GBIT * 85 / 100 * 1472 / 1500));
    assert_eq!(quick_start(&sender).granted, GBIT * 85 / 100);
}

#[test]
fn what_was_not_used_is_not_kept() {
    for (flown, kept) in [(4250, 4250), (600, 600), (2, 10)] {
        let mut sender = cubiq(Some(GBIT));
        let request = ask(&mut sender);
        hear(&mut sender, 60, approval(&request, GBIT * 85 / 100));
        fly(&mut sender, 10, 10 + flown);
        let mut ack = ack(10, 1472);
        ack.window_limited = false;
        sender.on_ack(at(120), &ack);
        assert_eq!(sender.window().div_ceil(1472), kept, "{flown}");
    }
}

#[test]
fn cubiq_goes_on_in_slow_start_and_ada_does_not() {
    let mut sender = flying(cubiq(Some(GBIT)), 2600);
    let granted = sender.window();
    sender.on_ack(at(120), &ack(10, 14_720));
    assert_eq!(sender.window(), granted + 14_720);

    let mut sender = flying(Ada::ada(MTU, None, Some(GBIT)), 2600);
    let granted = sender.window();
    sender.on_ack(at(120), &ack(10, 14_720));
    assert!(sender.window() < granted + 100);
    assert_eq!(sender.metrics().ssthresh, Some(granted));
}

#[test]
fn a_loss_of_the_flight_leads_back() {
    for landed in [false, true] {
        let mut sender = flying(cubiq(Some(GBIT)), 2600);
        if landed {
            sender.on_ack(at(120), &ack(10, 1472));
            sender.on_ack(at(125), &ack(410, 400 * 1472));
        }
        sender.on_loss(at(126), &lost(500, 2600, ms(RTT)));
        assert_eq!(sender.window(), 14_720);
        let half = if landed { 401 * 1472 / 2 } else { 2 * 1472 };
        assert_eq!(sender.metrics().ssthresh, Some(half));
        // Later arrivals of the flight count, too.
        sender.on_ack(at(130), &ack(2599, 2000 * 1472));
        let half = if landed { 2401 * 1472 / 2 } else { 1000 * 1472 };
        assert_eq!(sender.metrics().ssthresh, Some(half));
        assert_eq!(sender.window(), 14_720);
        assert_eq!(quick_start(&sender).revoked, 1);
        // Further losses in the flight belong to the same event, and the sender doesn't ask again.
        sender.on_loss(at(127), &lost(2500, 2600, ms(RTT)));
        assert_eq!(sender.window(), 14_720);
        sender.on_restart(at(10_000), ms(5000));
        assert!(!sender.asks());
    }
}

#[test]
fn marks_of_the_flight_lead_back_too() {
    let mut sender = flying(cubiq(Some(GBIT)), 600);
    sender.on_ack(at(120), &ack(10, 1472));
    sender.on_congestion_experienced(at(121), at(70), 600);
    assert_eq!(sender.window(), 14_720);
}

/// Losses are reported after the acknowledgement that shows them, and those of the last packets by
/// an acknowledgement of packets after the flight (RFC 4782 §4.6).
#[test]
fn losses_of_the_flights_last_packets_lead_back() {
    let revoked = |acked_at: &[(u64, u64)]| {
        let mut sender = flying(cubiq(Some(GBIT)), 600);
        sender.on_ack(at(120), &ack(10, 1472));
        for number in 600..700 {
            sender.on_sent(at(121), &sent(number, 1472));
        }
        for &(now, largest) in acked_at {
            sender.on_ack(at(now), &ack(largest, 1472));
            for number in 100 * now..100 * now + 10 {
                sender.on_sent(at(now), &sent(number, 1472));
            }
        }
        sender.on_loss(at(300), &lost(598, 800, ms(RTT)));
        quick_start(&sender).revoked
    };
    assert_eq!(revoked(&[(181, 602)]), 1);
    assert_eq!(revoked(&[(181, 602), (182, 650)]), 1);
    // A round trip later, losses aren't attributed to the flight.
    assert_eq!(revoked(&[(181, 602), (242, 18_109)]), 0);
}

#[test]
fn a_loss_behind_the_flight_is_the_laws_own() {
    let mut sender = flying(cubiq(Some(GBIT)), 2600);
    sender.on_ack(at(120), &ack(10, 1472));
    for number in 2600..2700 {
        sender.on_sent(at(121), &sent(number, 1472));
    }
    sender.on_ack(at(180), &ack(2650, 2600 * 1472));
    let before = sender.window();
    sender.on_loss(at(181), &lost(2660, 2700, ms(RTT)));
    assert_eq!(sender.window(), before * 7 / 10);
}

#[test]
fn answers_that_prove_nothing_are_counted_and_change_nothing() {
    type Bend = fn(&mut QuickStartFeedback);
    type Count = fn(&QuickStartMetrics) -> u64;
    let cases: [(Bend, Count, bool); 7] = [
        (|a| a.rate = 2 * GBIT, |m| m.above, true),
        (|a| a.ttl_difference = Some(0x76), |m| m.partial, true),
        (|a| a.ttl_difference = None, |m| m.partial, true),
        (|a| a.answered = false, |m| m.partial, true),
        (|a| a.nonce ^= 1, |m| m.forged, false),
        (|a| a.nonce ^= 1 << 47, |m| m.forged, false),
        (|a| a.rate = 0, |m| m.denied, true),
    ];
    for (index, (bend, count, asks_again)) in cases.into_iter().enumerate() {
        let mut sender = cubiq(Some(GBIT));
        let request = ask(&mut sender);
        let mut answer = approval(&request, GBIT / 2);
        bend(&mut answer);
        hear(&mut sender, 60, answer);
        assert_eq!(sender.window(), 14_720, "{index}");
        let metrics = quick_start(&sender);
        assert_eq!((count(&metrics), metrics.denied), (1, 1), "{index}");
        assert_eq!(metrics.granted, 0);
        sender.on_restart(at(10_000), ms(5000));
        assert_eq!(sender.asks(), asks_again, "{index}");
    }
    // Bits that a lower rate may overwrite don't prove anything.
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    let mut answer = approval(&request, GBIT / 2);
    answer.nonce ^= 1 << 47;
    answer.nonce_bits = 16;
    hear(&mut sender, 60, answer);
    assert!(sender.window() > 3_000_000);
}

#[test]
fn late_and_uncalled_answers_are_ignored() {
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    hear(&mut sender, 121, approval(&request, GBIT / 2));
    assert_eq!(sender.window(), 14_720);
    hear(&mut sender, 122, approval(&request, GBIT / 2));
    assert_eq!(sender.window(), 14_720);
    let metrics = quick_start(&sender);
    assert_eq!((metrics.late, metrics.denied), (2, 1));

    // A second answer to the same question doesn't change anything.
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    hear(&mut sender, 60, approval(&request, GBIT / 2));
    let window = sender.window();
    hear(&mut sender, 61, approval(&request, GBIT));
    assert_eq!(sender.window(), window);
    assert_eq!(quick_start(&sender).late, 1);
}

#[test]
fn an_answer_to_an_earlier_question_is_none_to_the_one_in_flight() {
    let mut sender = cubiq(Some(GBIT));
    let first = ask(&mut sender);
    hear(&mut sender, 60, approval(&first, 0));
    sender.on_ack(at(60), &ack(9, 14_720));
    sender.on_restart(at(1000), ms(900));
    let second = sender.ask(at(1000), 0x3300_9999_5678_9ABC, &Limits::NONE);
    let second = second.unwrap();
    for number in 20..30 {
        sender.on_sent(at(1000), &sent(number, 1472));
    }
    let hear = |sender: &mut Cubiq, largest, answer| {
        let acked = ack(largest, 1472);
        sender.on_feedback(at(1060), &Feedback::QuickStart(answer), &acked);
    };
    // Totals reported twice: everything is valid except for the count.
    let good = approval(&second, GBIT / 2);
    let mut repeated = good;
    (repeated.packets, repeated.bytes) = (0, 0);
    hear(&mut sender, 20, repeated);
    // The asking packet hasn't arrived yet.
    hear(&mut sender, 19, good);
    // The answer to the first question, whether denied or not.
    hear(&mut sender, 20, approval(&first, GBIT / 2));
    let metrics = quick_start(&sender);
    assert_eq!((metrics.late, metrics.forged, metrics.denied), (3, 0, 1));
    assert_eq!(metrics.granted, 0);
    // The valid answer still counts, even after the acknowledgement of its packet.
    sender.on_ack(at(1060), &ack(20, 1472));
    hear(&mut sender, 0, good);
    assert_eq!(quick_start(&sender).granted, GBIT / 2);
}

#[test]
fn a_grant_that_is_not_used_within_a_round_trip_lapses() {
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    hear(&mut sender, 60, approval(&request, GBIT / 2));
    sender.on_sent(at(121), &sent(10, 1472));
    assert_eq!(sender.window(), 14_720);
    assert_eq!(quick_start(&sender).late, 1);
}

#[test]
fn no_answer_is_a_denial_and_no_stall() {
    let mut sender = cubiq(Some(GBIT));
    ask(&mut sender);
    sender.on_ack(at(60), &ack(9, 14_720));
    assert_eq!(sender.window(), 29_440);
    sender.on_ack(at(121), &ack(19, 14_720));
    assert_eq!(quick_start(&sender).denied, 1);
}

#[test]
fn silence_during_the_flight_gives_the_window_back() {
    let mut sender = flying(cubiq(Some(GBIT)), 600);
    sender.on_probe_timeout(at(200));
    assert_eq!(sender.window(), 14_720);
    assert_eq!(sender.metrics().ssthresh, None);
    assert_eq!(quick_start(&sender).revoked, 1);
    // The problem was on the way back, and the law continues by itself.
    sender.on_ack(at(201), &ack(599, 590 * 1472));
    assert!(sender.window() > 14_720);
}

#[test]
fn who_has_little_to_send_does_not_ask() {
    let mut sender = cubiq(None);
    sender.on_handshake_rtt(at(0), ms(RTT));
    let mut limits = Limits::NONE;
    limits.application = 14_720;
    assert_eq!(sender.ask(at(0), 1, &limits), None);
    assert!(sender.asks());
    // A flow with more data asks for the rate that sends all of its data in a round trip.
    limits.application = 147_200;
    let request = sender.ask(at(0), 1, &limits).unwrap();
    assert_eq!(request.rate, 147_200 * 1500 / 1472 * 1000 / RTT);
    // If the packet wasn't built after all, the next may ask.
    assert!(sender.asks());
    let mut other = sent(0, 1472);
    other.signal = false;
    sender.on_sent(at(0), &other);
    assert_eq!(quick_start(&sender).asked, 0);
}

/// A packet that was about to ask wasn't sent. The next packet is recorded as one without a
/// question, because its shim carries the law's own request.
#[test]
fn a_packet_that_does_not_ask_is_not_taken_for_a_question() {
    let mut sender = cubiq(Some(GBIT));
    sender.on_handshake_rtt(at(60), ms(RTT));
    assert!(sender.asks() && sender.ask(at(60), 1, &Limits::NONE).is_some());
    let little = Limits {
        application: 1000,
        ..Limits::NONE
    };
    assert!(sender.asks() && sender.ask(at(61), 2, &little).is_none());
    sender.on_sent(at(61), &sent(0, 1472));
    assert_eq!(quick_start(&sender).asked, 0);
    assert!(sender.asks());
}
