//! Tests of questions sent before the handshake is complete.

use super::sender_tests::{GBIT, MTU, RTT, ack, cubiq, fly, hear, quick_start};
use crate::cubiq::Cubiq;
use crate::law::{Controller, Limits};
use crate::metrics::QuickStartOutcome;
use crate::signals::Feedback;
use crate::signals::{KnownPath, QuickStartFeedback, QuickStartRequest};
use crate::testing::{approval, at, ms, sent};

const NONCE: u64 = 0x3300_9999_5678_9ABC;
const KNOWN: KnownPath = KnownPath {
    rate: GBIT,
    rtt: None,
};

/// Asks with packet 0 at 0 ms.
fn ask_ahead(sender: &mut Cubiq, known: &KnownPath) -> QuickStartRequest {
    assert!(sender.asks());
    let request = sender.ask_ahead(at(0), NONCE, known).unwrap();
    sender.on_sent(at(0), &sent(0, 1472));
    assert!(!sender.asks() && sender.ask_ahead(at(1), 1, known).is_none());
    request
}

/// Asks as usual, with packet `number`.
fn ask_again(sender: &mut Cubiq, millis: u64, number: u64) -> QuickStartRequest {
    assert!(sender.asks());
    let request = sender.ask(at(millis), NONCE + number, &Limits::NONE);
    sender.on_sent(at(millis), &sent(number, 1472));
    request.unwrap()
}

/// Receives the answer with the acknowledgement of packet `number`.
fn hear_of(sender: &mut Cubiq, millis: u64, number: u64, answer: QuickStartFeedback) {
    let feedback = Feedback::QuickStart(answer);
    sender.on_feedback(at(millis), &feedback, &ack(number, 1472));
}

#[test]
fn what_is_known_is_asked_for_and_no_more_than_is_wanted() {
    for (wanted, rate) in [(None, GBIT), (Some(2 * GBIT), GBIT), (Some(1000), 1000)] {
        let request = ask_ahead(&mut cubiq(wanted), &KNOWN);
        assert_eq!((request.rate, request.rtt), (rate, None));
    }
    let known = KnownPath {
        rtt: Some(ms(RTT)),
        ..KNOWN
    };
    assert_eq!(ask_ahead(&mut cubiq(None), &known).rtt, Some(ms(RTT)));
    // The first window carries the same: 14,720 bytes, minus headers, in 60 ms.
    let window = 14_720 * 1500 / u64::from(MTU) * 1000 / RTT;
    for (rate, worth) in [(window, false), (window + 200, true), (0, false)] {
        let asked = cubiq(None).ask_ahead(at(0), 1, &KnownPath { rate, ..known });
        assert_eq!(asked.is_some(), worth, "{rate}");
    }
    // After the handshake is complete, it no longer asks.
    let mut sender = cubiq(None);
    sender.on_handshake_rtt(at(60), ms(RTT));
    assert!(sender.ask_ahead(at(60), 1, &KNOWN).is_none());
}

#[test]
fn a_grant_that_was_asked_for_ahead_starts_the_flow() {
    let mut sender = cubiq(None);
    let request = ask_ahead(&mut sender, &KNOWN);
    // A probe timeout of the handshake isn't an answer.
    sender.on_probe_timeout(at(50));
    sender.on_handshake_rtt(at(60), ms(RTT));
    hear(&mut sender, 60, approval(&request, GBIT / 2));
    let window = GBIT / 2 * u64::from(MTU) / 1500 * RTT / 1000;
    assert!(sender.window().abs_diff(window) < 1500);
    fly(&mut sender, 1, 2000);
    assert_eq!(quick_start(&sender).outcome, QuickStartOutcome::Used);
    let metrics = quick_start(&sender);
    assert_eq!((metrics.asked, metrics.late), (1, 0));
}

/// If the question is denied, worth less than the first window, or refused with the early data, the
/// first flight asks.
#[test]
fn where_nothing_comes_of_it_the_first_flight_asks_as_if_it_had_not() {
    for case in 0..3 {
        let mut sender = cubiq(None);
        let request = ask_ahead(&mut sender, &KNOWN);
        let window = sender.window();
        if case == 2 {
            sender.on_question_lost(at(59), 0);
        }
        sender.on_handshake_rtt(at(60), ms(RTT));
        if case < 2 {
            hear(&mut sender, 60, approval(&request, [0, 1000][case]));
        }
        assert_eq!(sender.window(), window);
        let request = ask_again(&mut sender, 61, 1);
        assert_eq!(request.rate, u64::MAX);
        hear_of(&mut sender, 121, 1, approval(&request, GBIT));
        assert!(sender.window() > window, "{case}");
        // If it is lost, it may be repeated as often as any first question.
        let mut sender = cubiq(None);
        ask_ahead(&mut sender, &KNOWN);
        sender.on_question_lost(at(30), 0);
        sender.on_handshake_rtt(at(60), ms(RTT));
        for number in 1..4 {
            ask_again(&mut sender, 60 + number, number);
            sender.on_question_lost(at(60 + number), number);
        }
        assert!(!sender.asks());
    }
}

/// The client's first packet was lost. The server couldn't read the question, because it arrived
/// before the retransmission.
#[test]
fn a_question_that_a_slow_handshake_left_behind_does_not_count() {
    let mut sender = cubiq(None);
    let old = ask_ahead(&mut sender, &KNOWN);
    sender.on_probe_timeout(at(1000));
    sender.on_handshake_rtt(at(1060), ms(RTT));
    let request = ask_again(&mut sender, 1060, 1);
    // The first question is answered after all.
    hear_of(&mut sender, 1100, 1, approval(&old, GBIT));
    let metrics = quick_start(&sender);
    assert_eq!((metrics.late, metrics.forged), (1, 0));
    assert_eq!(sender.window(), 14_720);
    hear_of(&mut sender, 1120, 1, approval(&request, GBIT));
    assert!(sender.window() > 14_720);
}

#[test]
fn answers_that_prove_nothing_open_no_window() {
    type Change = fn(&mut QuickStartFeedback);
    let changes: [Change; 4] = [
        |answer| answer.rate = 2 * GBIT,
        |answer| answer.nonce ^= 1,
        |answer| answer.ttl_difference = None,
        |answer| answer.answered = false,
    ];
    for change in changes {
        let mut sender = cubiq(None);
        let request = ask_ahead(&mut sender, &KNOWN);
        sender.on_handshake_rtt(at(60), ms(RTT));
        let mut forged = approval(&request, GBIT);
        change(&mut forged);
        hear(&mut sender, 60, forged);
        assert_eq!(sender.window(), 14_720);
        assert!(!sender.asks());
    }
    // More than two round trips after the question.
    let mut sender = cubiq(None);
    let request = ask_ahead(&mut sender, &KNOWN);
    sender.on_handshake_rtt(at(60), ms(RTT));
    hear(&mut sender, 121, approval(&request, GBIT));
    assert_eq!(sender.window(), 14_720);
}
