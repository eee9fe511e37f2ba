//! Flows that begin together: the first gives back a part, from which the others get their shares.

use super::sender_tests::quick_start;
use super::*;
use crate::law::{Controller, Halving, Limits, LinkController, Passive};
use crate::signals::{Answer, Arrival, Carried, Feedback, VcpFeedback};
use crate::signals::{QuickStartPurpose, QuickStartRequest};
use crate::testing::{acked, approval, approved, asking, at, codes, foreign, lost, ms, sent};
use crate::vcp::{Bise, BiseParams};
use crate::vcp::{VcpLink, VcpLinkParams, VcpParams, VcpSender};
use crate::xcp::{XcpLink, XcpLinkParams};

/// 100 Mbit/s in bytes per second.
const CAPACITY: u64 = 12_500_000;
const MTU: u16 = 1472;
const RTT: u64 = 100;

fn vcp() -> QuickStartLink<VcpLink<Bise>> {
    let rule = Bise::new(BiseParams::default(), 1);
    let law = VcpLink::new(at(0), CAPACITY, VcpLinkParams::with_bise(), rule);
    QuickStartLink::with_law(at(0), CAPACITY, 7, law)
}

/// Asks for a rate, or to keep it.
fn question(flow: u32, rate: u64, keeps: bool) -> Arrival {
    let mut question = asking(flow, rate, 128);
    if let Carried::QuickStart(asked) = &mut question.carried {
        asked.keeps = keeps;
    }
    question
}

/// Asks for everything. Returns the approved rate.
fn ask(port: &mut (impl LinkController + ?Sized), millis: u64, flow: u32) -> Option<u64> {
    approved(port, millis, &question(flow, u64::MAX, false))
}

#[test]
fn of_flows_that_begin_together_each_has_its_share_after_the_second_question() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    assert!(all > CAPACITY * 84 / 100, "{all}");
    for flow in 1..20 {
        let soon = u64::from(flow) / 2;
        assert_eq!(ask(&mut port, soon, flow), Some(0), "{flow}");
    }
    // The first question's own bytes don't count as used before.
    let share = CAPACITY * 85 / 100 / 20;
    let mut sum = approved(&mut port, 100, &question(0, all, true)).unwrap();
    assert_eq!(sum, share);
    for flow in 1..20 {
        let got = ask(&mut port, 100 + u64::from(flow), flow).unwrap();
        assert_eq!(got, share, "{flow}");
        sum += got;
    }
    assert!(sum <= CAPACITY * 85 / 100, "{sum}");
    for flow in 1..20 {
        let kept = approved(&mut port, 220, &question(flow, share, true));
        assert_eq!(kept, Some(share), "{flow}");
    }
    assert_eq!(port.metrics().grants.unwrap().lowered, 1);
    // A flow that didn't ask with the others gets no share.
    assert_eq!(ask(&mut port, 130, 99), Some(0));
}

/// While a question waits in the port's queue, first windows arrive, which must not count as used
/// in addition to the grants of the asking flows. A flow that asks again before the first has given
/// back gets its share when it asks a third time.
#[test]
fn what_is_dealt_out_is_what_was_free_before_the_first_question() {
    let mut port = vcp();
    let first = question(0, u64::MAX, false);
    port.on_arrival(at(1000), &first, 0);
    let data = foreign(1500);
    for _ in 0..200 {
        port.on_arrival(at(1000), &data, 0);
    }
    let Answer::QuickStart(answer) = port.on_departure(at(1020), &first, 0) else {
        panic!("no answer");
    };
    let (all, free) = (CAPACITY * 85 / 100, answer.approved);
    assert!(free <= all - 1_500_000, "{free}");
    for flow in 1..5 {
        assert_eq!(ask(&mut port, 1020, flow), Some(0), "{flow}");
    }
    assert_eq!(ask(&mut port, 1119, 1), Some(0));
    let kept = approved(&mut port, 1120, &question(0, free, true));
    for flow in 2..5 {
        assert_eq!(ask(&mut port, 1120, flow), kept, "{flow}");
    }
    assert_eq!(ask(&mut port, 1219, 1), kept);
    let share = kept.unwrap();
    assert!((all / 5 - 2000..=all / 5).contains(&share), "{share}");
}

/// A flow that asks more than an eighth of a round trip after the grant didn't begin with it.
#[test]
fn a_later_flow_leaves_the_grant_as_it_is() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    assert_eq!(ask(&mut port, 17, 1), Some(0));
    assert_eq!(approved(&mut port, 100, &question(0, all, true)), Some(all));
}

#[test]
fn others_take_no_more_than_they_want() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    let others = approved(&mut port, 1, &question(1, 100_000, false));
    assert_eq!(others, Some(0));
    let kept = approved(&mut port, 100, &question(0, all, true)).unwrap();
    assert_eq!(kept, all - 100_000);
}

#[test]
fn alone_a_flow_keeps_what_it_has_and_strangers_are_left_alone() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    // In the second question, an earlier port lowered the rate.
    for (millis, flow, rate, kept) in [
        (100, 0, all, Some(all)),
        (110, 0, 5000, Some(5000)),
        (120, 5, all, None),
        (130, 0, 0, None),
    ] {
        let got = approved(&mut port, millis, &question(flow, rate, true));
        assert_eq!(got, kept, "{millis}");
    }
}

/// This applies to every law: when XCP was left to even out a start by itself, one of five files
/// ended at 16 s and four at 22 s.
#[test]
fn every_port_shares_a_start() {
    let xcp = XcpLink::new(at(0), CAPACITY, XcpLinkParams::default());
    let ports: [Box<dyn LinkController>; 3] = [
        Box::new(vcp()),
        Box::new(QuickStartLink::with_law(at(0), CAPACITY, 7, xcp)),
        Box::new(QuickStartLink::new(at(0), CAPACITY, 7, Passive)),
    ];
    for (kind, mut port) in ports.into_iter().enumerate() {
        let port = &mut *port;
        let all = ask(port, 0, 0).unwrap();
        for flow in 1..5 {
            assert_eq!(ask(port, 10, flow), Some(0));
        }
        let share = CAPACITY * 85 / 100 / 5;
        let kept = approved(port, 100, &question(0, all, true));
        assert_eq!(kept, Some(share), "{kind}");
        for flow in 1..5 {
            assert_eq!(ask(port, 101, flow), Some(share), "{kind} {flow}");
        }
        assert_eq!(port.metrics().grants.unwrap().lowered, 1, "{kind}");
    }
}

#[test]
fn a_flow_that_gives_nothing_back_leaves_nothing_for_others() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    for round in 0..3 {
        assert_eq!(ask(&mut port, 50 + 20 * round, 1), Some(0));
    }
    assert!(port.metrics().grants.unwrap().pending <= all);
}

/// Even if thousands ask, no more is approved at once than the port grants.
#[test]
fn a_crowd_is_promised_no_more_than_there_is() {
    let mut port = vcp();
    let all = ask(&mut port, 0, 0).unwrap();
    for n in 0..2000u32 {
        ask(&mut port, u64::from(n) / 20, 1 + n);
    }
    approved(&mut port, 100, &question(0, all, true)).unwrap();
    for n in 0..2000u32 {
        ask(&mut port, 101 + u64::from(n) / 20, 1 + n);
        let pending = port.metrics().grants.unwrap().pending;
        assert!(pending <= CAPACITY * 85 / 100, "{n}: {pending}");
    }
}

type Sender = QuickStart<VcpSender<Halving>>;

/// A VCP sender under the control of routers, which asked with packet 0.
fn asked() -> (Sender, QuickStartRequest) {
    let law = VcpSender::new("vcp", at(0), MTU, VcpParams::with_bise(), Halving);
    let mut sender = QuickStart::new(None, MTU, None, AfterGrant::Avoidance, law);
    sender.on_handshake_rtt(at(0), ms(RTT));
    let request = sender.ask(at(0), 77, &Limits::NONE).unwrap();
    assert_eq!(request.purpose, QuickStartPurpose::Start);
    for number in 0..10 {
        sender.on_sent(at(0), &sent(number, 1472));
    }
    let marked = VcpFeedback {
        t_rho: ms(200),
        hops: 1,
        bise: true,
        carried_r: true,
        ..codes([0, 1, 0, 0], 1472)
    };
    let ack = acked(0, 1472, ms(RTT));
    sender.on_feedback(at(RTT), &Feedback::Vcp(marked), &ack);
    (sender, request)
}

fn hear(sender: &mut Sender, millis: u64, number: u64, request: &QuickStartRequest, rate: u64) {
    let ack = acked(number, 1472, ms(RTT));
    let answer = approval(request, rate);
    sender.on_feedback(at(millis), &Feedback::QuickStart(answer), &ack);
    sender.on_ack(at(millis), &ack);
}

/// The same sender with a grant of 10⁷ bytes per second, which asked with packet 10 whether it may
/// keep it.
fn granted() -> (Sender, QuickStartRequest) {
    let (mut sender, request) = asked();
    hear(&mut sender, RTT, 0, &request, 10_000_000);
    assert!(sender.window() > 900_000, "{}", sender.window());
    assert!(sender.asks());
    let second = sender.ask(at(RTT), 78, &Limits::NONE).unwrap();
    assert_eq!(second.purpose, QuickStartPurpose::Keep);
    assert_eq!(second.rate, 10_000_000);
    for number in 10..600 {
        sender.on_sent(at(RTT + number / 10), &sent(number, 1472));
    }
    assert!(!sender.asks());
    (sender, second)
}

#[test]
fn a_sender_gives_back_what_routers_take_back() {
    let (mut sender, second) = granted();
    hear(&mut sender, 2 * RTT, 10, &second, 1_000_000);
    let window = sender.window();
    assert!((97_000..=100_000).contains(&window), "{window}");
    let metrics = quick_start(&sender);
    assert_eq!((metrics.lowered, metrics.granted), (1, 1_000_000));
    assert!(!sender.asks());
}

#[test]
fn what_proves_nothing_takes_nothing() {
    type Bend = fn(&mut QuickStartRequest, &mut u64);
    let cases: [Bend; 4] = [
        |request, _| request.nonce ^= 1,
        |_, rate| *rate = 0,
        |_, rate| *rate = 20_000_000,
        |_, _| {},
    ];
    for (index, bend) in cases.into_iter().enumerate() {
        let (mut sender, mut second) = granted();
        let window = sender.window();
        let mut rate = 1_000_000;
        bend(&mut second, &mut rate);
        // The last answer arrives too late.
        let millis = if index == 3 { 3 * RTT + 60 } else { 2 * RTT };
        hear(&mut sender, millis, 10, &second, rate);
        assert!(sender.window() >= window * 9 / 10, "{index}");
        assert_eq!(quick_start(&sender).lowered, 0, "{index}");
        assert!(!sender.asks(), "{index}");
    }
}

#[test]
fn a_denied_sender_asks_twice_more_and_gives_nothing_back() {
    let (mut denied, mut request) = asked();
    for round in 1..=2 {
        hear(&mut denied, round * RTT, 10 * (round - 1), &request, 0);
        assert!(denied.asks(), "{round}");
        let again = denied.ask(at(round * RTT), 78 + round, &Limits::NONE);
        request = again.unwrap();
        assert_eq!(request.purpose, QuickStartPurpose::Start);
        for number in 10 * round..10 * (round + 1) {
            denied.on_sent(at(round * RTT), &sent(number, 1472));
        }
    }
    hear(&mut denied, 3 * RTT, 20, &request, 0);
    assert!(!denied.asks());
    assert_eq!(quick_start(&denied).denied, 3);

    // If the rate left by another flow's grant is less than the first window, this is like a
    // denial.
    let (mut small, request) = asked();
    hear(&mut small, RTT, 0, &request, 10_000);
    assert!(small.asks() && small.window() < 50_000);

    let (mut granted, request) = asked();
    hear(&mut granted, RTT, 0, &request, 0);
    let second = granted.ask(at(RTT), 78, &Limits::NONE).unwrap();
    for number in 10..20 {
        granted.on_sent(at(RTT), &sent(number, 1472));
    }
    hear(&mut granted, 2 * RTT, 10, &second, 1_000_000);
    assert!(granted.window() > 90_000, "{}", granted.window());
    assert!(!granted.asks());
}

#[test]
fn nothing_is_started_with_where_the_first_window_is_lost() {
    for reported_before in [true, false] {
        let (mut sender, request) = asked();
        let lose = |sender: &mut Sender| {
            for number in 3..8 {
                sender.on_loss(at(RTT + 1), &lost(number, 9, ms(RTT)));
            }
        };
        if reported_before {
            lose(&mut sender);
        }
        hear(&mut sender, RTT, 0, &request, 10_000_000);
        if !reported_before {
            assert!(sender.window() > 900_000);
            lose(&mut sender);
        }
        assert!(sender.window() < 30_000, "{}", sender.window());
    }
}
