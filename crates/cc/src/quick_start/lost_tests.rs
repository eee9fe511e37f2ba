//! Tests of lost questions, and of answers around their loss.

use super::sender_tests::{GBIT, MTU, RTT, ack, ask, cubiq, flying, hear, quick_start};
use crate::ada::Ada;
use crate::cubiq::Cubiq;
use crate::law::{Controller, Limits};
use crate::metrics::QuickStartOutcome;
use crate::signals::Feedback;
use crate::signals::QuickStartRequest;
use crate::testing::{approval, at, lost, ms, sent};

const NONCE: u64 = 0x3300_9999_5678_9ABC;

/// Asks again with packet `number`.
fn repeat(sender: &mut Cubiq, millis: u64, number: u64) -> QuickStartRequest {
    let request = sender.ask(at(millis), NONCE + number, &Limits::NONE);
    sender.on_sent(at(millis), &sent(number, 1472));
    request.unwrap()
}

/// The packets that ask are lost, which is detected one and a half round trips later.
#[test]
fn a_lost_question_is_asked_again_a_few_times_and_cuts_nothing() {
    let mut sender = cubiq(Some(GBIT));
    ask(&mut sender);
    let window = sender.window();
    for (number, millis) in [(0, 90), (100, 180)] {
        assert!(!sender.asks());
        sender.on_question_lost(at(millis), number);
        assert!(sender.asks(), "{number}");
        assert_eq!(repeat(&mut sender, millis, number + 100).rate, GBIT);
    }
    // The third question is the last.
    let metrics = quick_start(&sender);
    assert_eq!((metrics.asked, metrics.repeated), (3, 2));
    sender.on_question_lost(at(270), 200);
    assert!(!sender.asks());
    assert_eq!(quick_start(&sender).outcome, QuickStartOutcome::Denied);
    assert_eq!(sender.window(), window);
    sender.on_restart(at(10_000), ms(5000));
    assert!(sender.asks());
}

/// The law receives losses of other packets, which aren't evidence about the question's packet.
#[test]
fn losses_beside_the_question_are_the_laws_own() {
    for number in [3, 9] {
        let mut sender = cubiq(Some(GBIT));
        let request = ask(&mut sender);
        sender.on_loss(at(61), &lost(number, 9, ms(RTT)));
        assert_eq!(sender.window(), 14_720 * 7 / 10);
        assert!(!sender.asks());
        hear(&mut sender, 62, approval(&request, GBIT / 2));
        assert_eq!(quick_start(&sender).outcome, QuickStartOutcome::Used);
    }
}

#[test]
fn the_answer_to_a_repeated_question_counts_and_the_first_ones_does_not() {
    let mut sender = cubiq(Some(GBIT));
    let first = ask(&mut sender);
    sender.on_question_lost(at(90), 0);
    let second = repeat(&mut sender, 90, 10);
    let hear = |sender: &mut Cubiq, millis, answer| {
        let answer = Feedback::QuickStart(answer);
        sender.on_feedback(at(millis), &answer, &ack(10, 1472));
    };
    // The first wasn't lost after all, but its answer doesn't answer the second.
    hear(&mut sender, 149, approval(&first, GBIT));
    let metrics = quick_start(&sender);
    assert_eq!((metrics.late, metrics.granted), (1, 0));
    hear(&mut sender, 150, approval(&second, GBIT / 2));
    assert_eq!(quick_start(&sender).granted, GBIT / 2);
    assert!(sender.window() > 3_000_000);
    // A repeated answer doesn't change anything.
    let window = sender.window();
    hear(&mut sender, 151, approval(&second, GBIT / 2));
    assert_eq!((quick_start(&sender).late, sender.window()), (2, window));
}

#[test]
fn the_answer_to_a_question_that_counts_as_lost_is_late_where_none_was_asked_since() {
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    sender.on_question_lost(at(90), 0);
    hear(&mut sender, 100, approval(&request, GBIT / 2));
    assert_eq!(quick_start(&sender).late, 1);
    assert_eq!(sender.window(), 14_720);
    assert!(sender.asks(), "its repetition is still to come");
}

/// Nothing returns before the time for the answer is over. The question is repeated once something
/// returns or its loss is detected, within the time for repetitions.
#[test]
fn after_a_probe_timeout_the_question_is_asked_again_within_bounds() {
    for (found, asks) in [(130, true), (6 * RTT, true), (6 * RTT + 1, false)] {
        for lost in [false, true] {
            let mut sender = cubiq(Some(GBIT));
            ask(&mut sender);
            sender.on_probe_timeout(at(110));
            assert_eq!(quick_start(&sender).outcome, QuickStartOutcome::Unanswered);
            let window = sender.window();
            sender.on_question_lost(at(found), 1);
            assert!(!sender.asks(), "another packet");
            if lost {
                sender.on_question_lost(at(found), 0);
                assert_eq!(sender.window(), window);
            } else {
                sender.on_ack(at(found), &ack(9, 1472));
            }
            assert_eq!(sender.asks(), asks, "{found} {lost}");
            assert_eq!(quick_start(&sender).repeated, u64::from(asks));
        }
    }
}

/// The answer was lost. After the time for it is over, acknowledgements arrive.
#[test]
fn an_answer_that_does_not_come_is_asked_for_again_and_counts_then() {
    let mut sender = cubiq(Some(GBIT));
    ask(&mut sender);
    sender.on_ack(at(120), &ack(9, 1472));
    assert!(!sender.asks(), "it may yet come");
    sender.on_ack(at(121), &ack(9, 1472));
    assert!(sender.asks());
    let request = repeat(&mut sender, 122, 100);
    let answer = Feedback::QuickStart(approval(&request, GBIT / 2));
    sender.on_feedback(at(182), &answer, &ack(100, 1472));
    assert_eq!(quick_start(&sender).granted, GBIT / 2);
}

/// A peer that never answers, or a second late, is asked three times, without other effects.
#[test]
fn who_never_answers_or_a_second_late_costs_three_questions() {
    let mut sender = cubiq(Some(GBIT));
    let request = ask(&mut sender);
    let mut next = 100;
    for millis in (60..2000).step_by(20) {
        if sender.asks() {
            repeat(&mut sender, millis, next);
            next += 1;
        }
        sender.on_ack(at(millis), &ack(99, 1472));
    }
    assert!(!sender.asks());
    let after = quick_start(&sender);
    assert_eq!((after.asked, after.denied, after.repeated), (3, 3, 2));
    let window = sender.window();
    hear(&mut sender, 2060, approval(&request, GBIT));
    let metrics = quick_start(&sender);
    assert_eq!((metrics.late, metrics.granted), (1, 0));
    assert_eq!(sender.window(), window);
}

/// The lost question asked to keep the granted rate. The rate doesn't change, and the flight
/// continues.
#[test]
fn a_lost_question_is_no_loss_of_the_flight() {
    let mut sender = flying(Ada::ada(MTU, None, Some(GBIT)), 2600);
    let window = sender.window();
    sender.on_question_lost(at(150), 10);
    assert_eq!(sender.window(), window);
    assert_eq!(quick_start(&sender).revoked, 0);
}

/// Half of the packets sent before the flight are lost, so the grant isn't used.
#[test]
fn nothing_is_started_with_where_much_is_lost_beside_questions() {
    let mut sender = cubiq(Some(GBIT));
    ask(&mut sender);
    sender.on_question_lost(at(90), 0);
    let request = repeat(&mut sender, 90, 10);
    for number in 1..6 {
        sender.on_loss(at(91), &lost(number, 10, ms(RTT)));
    }
    let before = sender.window();
    let answer = Feedback::QuickStart(approval(&request, GBIT / 2));
    sender.on_feedback(at(150), &answer, &ack(10, 1472));
    assert_eq!(sender.window(), before);
}
