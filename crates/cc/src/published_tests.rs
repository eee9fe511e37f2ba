//! The papers' senders: the effects of losses, and that no rule of this library controls their
//! window.

use proptest::prelude::*;

use crate::base::Instant;
use crate::law::{Acked, Controller, Lost, PacketState, Sent, UNPACED};
use crate::names::Algorithm;
use crate::signals::{Feedback, VcpFeedback, XcpFeedback};
use crate::supervise::RetransmissionTimeout;
use crate::testing::{at, codes, ms, sent, stamped};

const MTU: u64 = 1000;

/// Packet `number`, with `packets` other packets in flight.
fn flying(number: u64, packets: u64) -> Sent {
    Sent {
        in_flight: (packets + 1) * MTU,
        ..sent(number, MTU)
    }
}

fn acked(largest: u64, in_flight: u64) -> Acked {
    Acked {
        in_flight_before: in_flight * MTU,
        ..crate::testing::acked(largest, MTU, ms(100))
    }
}

fn lost(numbers: core::ops::RangeInclusive<u64>, last_sent: u64) -> Lost {
    let packets = numbers.end() - numbers.start() + 1;
    Lost {
        bytes: packets * MTU,
        packets,
        first_state: PacketState {
            explicit: *numbers.start(),
            ..PacketState::default()
        },
        in_flight_before: 20 * MTU,
        ..crate::testing::lost(*numbers.end(), last_sent, ms(100))
    }
}

/// Packets 0 to 20 are sent at 0, and packet 0 is acknowledged 100 ms later.
fn begun(sack: bool) -> RetransmissionTimeout {
    let mut timer = RetransmissionTimeout::new(sack);
    for number in 0..=20 {
        timer.on_sent(at(0), &flying(number, number));
    }
    assert!(!timer.on_ack(at(100), &acked(0, 21)));
    timer
}

/// Milliseconds until the timeout, if it occurs while each packet from `next` is acknowledged, one
/// per 10 ms.
fn until_timeout(timer: &mut RetransmissionTimeout, next: u64) -> Option<u64> {
    (0..200).find_map(|step| {
        let now = 120 + step * 10;
        let late = timer.on_ack(at(now), &acked(next + step, 20));
        late.then_some(now)
    })
}

#[test]
fn one_loss_is_repaired_without_a_timeout() {
    for sack in [false, true] {
        let mut timer = begun(sack);
        assert!(timer.on_loss(&lost(1..=1, 20), MTU), "a fast retransmit");
        assert!(!timer.holds_back());
        assert_eq!(until_timeout(&mut timer, 21), None);
    }
}

#[test]
fn two_losses_of_a_window_wait_for_the_timeout_without_sack() {
    for (sack, waits) in [(false, true), (true, false)] {
        let mut timer = begun(sack);
        assert!(timer.on_loss(&lost(1..=2, 20), MTU));
        timer.on_sent(at(110), &flying(21, 20));
        let _ = timer.on_ack(at(110), &acked(21, 20));
        assert_eq!(timer.holds_back(), waits);
        // One sample of 100 ms: 100 ms + 4 · 50 ms after the repair was acknowledged.
        assert_eq!(until_timeout(&mut timer, 22), waits.then_some(410));
        assert!(!timer.holds_back());
    }
}

#[test]
fn a_lost_repair_waits_for_the_timeout() {
    for sack in [false, true] {
        let mut timer = begun(sack);
        assert!(timer.on_loss(&lost(1..=1, 20), MTU));
        timer.on_sent(at(110), &flying(21, 20));
        timer.on_sent(at(110), &flying(22, 20));
        let again = timer.on_loss(&lost(21..=21, 22), MTU);
        assert!(!again, "no second retransmit");
        assert_eq!(until_timeout(&mut timer, 23), Some(400));
    }
}

/// In QUIC, a loss that is declared leaves the flight, which is then empty while a TCP still waits:
/// only the timeout ends this.
#[test]
fn an_empty_flight_does_not_end_the_wait() {
    let mut timer = begun(false);
    assert!(timer.on_loss(&lost(1..=20, 20), MTU));
    timer.on_sent(at(110), &flying(21, 0));
    assert!(!timer.on_ack(at(210), &acked(21, 1)), "all in flight");
    assert!(timer.holds_back());
    // 300 ms after the repair was acknowledged.
    assert_eq!(until_timeout(&mut timer, 22), Some(510));
    assert_eq!(timer.timeouts(), 1);
}

/// A packet that is sent with nothing else in flight doesn't restart the timer of a loss.
#[test]
fn a_packet_alone_does_not_restart_the_timer_of_a_loss() {
    let mut timer = begun(false);
    assert!(timer.on_loss(&lost(1..=20, 20), MTU));
    timer.on_sent(at(350), &flying(21, 0));
    assert!(!timer.on_time(at(399)));
    assert!(timer.on_time(at(400)));
}

#[test]
fn acknowledgements_out_of_order_cause_no_timeout() {
    let mut timer = begun(false);
    for step in 0..60 {
        let now = 110 + 10 * step;
        let number = 1 + if step % 2 == 0 { step + 1 } else { step - 1 };
        timer.on_sent(at(now), &flying(21 + step, 20));
        assert!(!timer.on_ack(at(now), &acked(number, 21)), "{step}");
    }
}

#[test]
fn silence_is_a_timeout_and_the_next_one_takes_twice_as_long() {
    let mut timer = begun(true);
    assert!(!timer.on_time(at(399)));
    assert!(timer.on_time(at(400)));
    // Earlier packets are sent again, so their losses have no effect.
    assert!(!timer.on_loss(&lost(1..=20, 20), MTU));
    assert!(!timer.on_time(at(999)));
    assert!(timer.on_time(at(1000)));
}

/// RFC 6298, sections 2.1, 2.5 and 5.5.
#[test]
fn without_any_acknowledgement_timeouts_double_up_to_a_minute() {
    let mut timer = RetransmissionTimeout::new(false);
    timer.on_sent(at(0), &flying(0, 0));
    let steps = (0..2000).map(|step| step * 100);
    let timeouts: Vec<u64> = steps.filter(|now| timer.on_time(at(*now))).collect();
    let seconds = [1, 3, 7, 15, 31, 63, 123, 183];
    assert_eq!(timeouts, seconds.map(|second| second * 1000));
}

/// Late acknowledgements of the original packets don't restart the timer, and only packets after
/// those sent again give an RTT, which ends the doubling (RFC 6298, sections 3 and 5.7).
#[test]
fn a_spurious_timeout_doubles_the_next_until_an_rtt_is_measured() {
    for measured in [false, true] {
        let mut timer = begun(true);
        assert!(timer.on_time(at(400)));
        assert!(!timer.on_ack(at(500), &acked(20, 21)));
        for number in 21..=42 {
            timer.on_sent(at(500), &flying(number, number - 20));
        }
        assert!(!timer.on_ack(at(610), &acked(41, 21)), "again");
        if measured {
            assert!(!timer.on_ack(at(610), &acked(42, 21)));
        }
        // 100 ms + 200 ms, or twice 100 ms + 4 · 50 ms.
        let due = if measured { 910 } else { 1210 };
        assert!(!timer.on_time(at(due - 1)));
        assert!(timer.on_time(at(due)));
    }
}

#[test]
fn nothing_in_flight_is_no_silence() {
    let mut timer = RetransmissionTimeout::new(false);
    timer.on_sent(at(0), &sent(0, MTU));
    assert!(!timer.on_ack(at(100), &acked(0, 1)));
    assert!(!timer.on_time(at(10_000)));
    timer.on_sent(at(10_000), &sent(1, MTU));
    assert!(!timer.on_time(at(10_200)));
}

const PUBLISHED: &[&str] = &[
    "xcp[paper]",
    "xcp[paper,sack]",
    "xcp[paper,form=compact]",
    "xcp-i[paper]",
    "vcp[paper]",
    "vcp[paper,sack]",
    "vcp+bise[paper]",
    "vcp+wlte[paper]",
    "vcp+bise+wlte[paper]",
];

fn law(text: &str) -> Box<dyn Controller> {
    let algorithm = Algorithm::parse(text).unwrap();
    assert!(!algorithm.asks_start());
    let mut law = algorithm.controller(Instant::ZERO, 1000);
    law.on_handshake_rtt(Instant::ZERO, ms(100));
    law
}

/// A fast retransmit halves the window of VCP and leaves the others unchanged; a timeout sets all
/// windows to one packet.
#[test]
fn losses_do_what_the_papers_say() {
    for text in PUBLISHED {
        let mut law = law(text);
        for number in 0..=20 {
            let _ = law.on_sent(at(0), &flying(number, number));
        }
        assert_eq!(law.window(), 2 * MTU, "{text}");
        assert_eq!(law.pacing_rate(), Some(UNPACED), "{text}");
        let grant = Feedback::Xcp(stamped((480_000 << 16) / 8));
        let low = Feedback::Vcp(VcpFeedback {
            bise: true,
            ..codes([0, 20, 0, 0], MTU)
        });
        for round in 0..30 {
            law.on_feedback(at(100 + round), &grant, &acked(0, 21));
            law.on_feedback(at(100 + round), &low, &acked(0, 21));
        }
        law.on_ack(at(130), &acked(0, 21));
        let before = law.window();
        assert!(before >= 4 * MTU, "{text}: {before}");
        law.on_loss(at(130), &lost(1..=1, 20));
        let halves = text.starts_with("vcp") && !text.contains("wlte");
        let after = if halves { before / 2 } else { before };
        let window = law.metrics().window;
        assert!(window.abs_diff(after) <= 1, "{text}: {before} {window}");
        law.on_probe_timeout(at(600));
        assert_eq!(law.window(), MTU, "{text}");
    }
}

#[test]
fn rules_of_this_library_do_not_go_with_a_papers_sender() {
    for text in [
        "xcp[paper,loss=ignore]",
        "xcp[paper,naive]",
        "xcp[paper,start=quick-start]",
        "vcp[paper,start=quick-start]",
        "vcp[paper,fallback=bbr]",
        "xcp[sack]",
        "vcp[sack]",
    ] {
        assert!(Algorithm::parse(text).is_err(), "{text}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Acked(u64),
    Lost(u64),
    Marked,
    Fed {
        delta: i64,
        codes: [u64; 4],
        hop: Option<bool>,
        uncounted: bool,
    },
    Silence,
    Persistent,
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1u64..20).prop_map(Event::Acked),
        (1u64..20).prop_map(Event::Lost),
        Just(Event::Marked),
        any::<(i32, [u8; 4], Option<bool>, bool)>().prop_map(|(delta, codes, hop, uncounted)| {
            Event::Fed {
                delta: i64::from(delta) << 16,
                codes: codes.map(u64::from),
                hop,
                uncounted,
            }
        }),
        Just(Event::Silence),
        Just(Event::Persistent),
        Just(Event::Restart),
    ]
}

proptest! {
    /// Whatever happens, a paper's sender reports its own law, no fallback and no request for a
    /// starting rate, and keeps a window of a packet.
    #[test]
    fn no_rule_of_ours_ever_has_the_window(events in prop::collection::vec(event(), 1..120)) {
        for text in PUBLISHED {
            let mut law = law(text);
            let (mut now, mut next, mut flight) = (0, 0, 0u64);
            for event in &events {
                now += 37;
                for _ in 0..4 {
                    flight += 1;
                    let _ = law.on_sent(at(now), &flying(next, flight));
                    next += 1;
                }
                match event {
                    Event::Acked(packets) => {
                        law.on_ack(at(now), &acked(next.saturating_sub(*packets), flight));
                        flight = flight.saturating_sub(*packets);
                    }
                    Event::Lost(packets) => {
                        let from = next.saturating_sub(*packets);
                        law.on_loss(at(now), &lost(from..=next, next));
                        flight = flight.saturating_sub(*packets);
                    }
                    Event::Marked => law.on_congestion_experienced(at(now), at(now), next),
                    Event::Fed { delta, codes, hop, uncounted } => {
                        let xcp = Feedback::Xcp(XcpFeedback {
                            delta: *delta,
                            packets: codes[0],
                            stamped: codes[1],
                            unmarked_hop: *hop,
                            uncounted: *uncounted,
                            ..XcpFeedback::default()
                        });
                        let vcp = Feedback::Vcp(VcpFeedback {
                            packets: *codes,
                            bytes: codes.map(|packets| packets * MTU),
                            unmarked_hop: *hop,
                            ..VcpFeedback::default()
                        });
                        law.on_feedback(at(now), &xcp, &acked(next, flight));
                        law.on_feedback(at(now), &vcp, &acked(next, flight));
                    }
                    Event::Silence => {
                        now += 5_000;
                        law.on_probe_timeout(at(now));
                    }
                    Event::Persistent => law.on_persistent_congestion(at(now)),
                    Event::Restart => law.on_restart(at(now), ms(3_000)),
                }
                let metrics = law.metrics();
                let own = text.split(['[', '-']).next().unwrap_or_default();
                prop_assert!(metrics.explicit && metrics.fallback.is_none(), "{text}");
                prop_assert_eq!(metrics.ruling, own);
                prop_assert!(!law.asks() && metrics.quick_start.is_none());
                prop_assert!(law.window() >= MTU);
                prop_assert_eq!(law.pacing_rate(), Some(UNPACED));
            }
        }
    }
}
