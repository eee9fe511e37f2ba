//! Tests of the sender.

mod fallback;

use proptest::prelude::*;

use super::XcpSender;
use super::request::{Asked, Wish};
use super::steering::Steering;
use crate::base::Instant;
use crate::law::{Acked, Controller, Limits, Sent};
use crate::signals::{Feedback, XcpFeedback, XcpRequest};
use crate::testing::{acked, at, lost, ms, sent, stamped};
use crate::xcp::params::{XcpLoss, XcpParams};

const MTU: u16 = 1500;

fn granted(delta: i64, packets: u64) -> Feedback {
    Feedback::Xcp(XcpFeedback {
        packets,
        stamped: packets,
        bytes: packets * 1500,
        hops: 1,
        ..stamped(delta)
    })
}

fn request(sender: &XcpSender) -> XcpRequest {
    sender.request().xcp.expect("an XCP sender asks")
}

/// Sends packet `number`, and delivers `delta` for it a round trip later.
fn round(sender: &mut XcpSender, now: Instant, number: u64, delta: i64) {
    round_with(sender, now, number, &granted(delta, 1));
}

fn round_with(sender: &mut XcpSender, now: Instant, number: u64, feedback: &Feedback) {
    let mut acked = acked(number, 1500, ms(100));
    acked.state = sender.on_sent(now, &sent(number, 1500));
    sender.on_feedback(now + ms(100), feedback, &acked);
    sender.on_ack(now + ms(100), &acked);
}

/// Feedback about a stamped packet of a path on which TTLs show a hop without XCP, or not.
fn shown(unmarked_hop: bool, delta: i64) -> Feedback {
    Feedback::Xcp(XcpFeedback {
        unmarked_hop: Some(unmarked_hop),
        ..stamped(delta)
    })
}

fn with_loss(loss: XcpLoss) -> XcpSender {
    sender(XcpParams {
        loss,
        ..XcpParams::default()
    })
}

fn sender(params: XcpParams) -> XcpSender {
    let mut sender = XcpSender::new(Instant::ZERO, MTU, params);
    sender.on_handshake_rtt(Instant::ZERO, ms(100));
    sender
}

#[test]
fn the_request_says_what_the_sender_has_and_wants() {
    let wish = Wish {
        srtt: ms(100),
        window: 15_000,
        desired: 12_500_000,
        mtu: 1500,
        bytes: 1500,
        covers: 1,
    };
    let request = wish.request();
    assert_eq!(request.delta, 1_235_000 << 16);
    assert_eq!(request.rtt_us, 100_000);
    // 10 ms in 2^-40 s.
    assert_eq!(request.x, (10 << 40) / 1000);
    assert_eq!((request.window, request.packet), (15_000, 1500));
    let content = Wish { desired: 0, ..wish };
    assert_eq!(content.request().delta, 0);
}

#[test]
fn before_the_round_trip_is_known_nothing_is_asked() {
    let fresh = XcpSender::new(Instant::ZERO, MTU, XcpParams::default());
    let asked = request(&fresh);
    assert_eq!((asked.rtt_us, asked.x, asked.delta), (0, 0, 0));
    assert_eq!(asked.covers, 1);
}

/// After an interruption, the smoothed round trip is that of packets that waited. The first
/// feedback for a packet that did not wait counts for at most twice its own round trip.
#[test]
fn the_first_feedback_after_an_interruption_counts_for_its_own_round_trip() {
    let mut sender = sender(XcpParams::default());
    let mut now = Instant::ZERO;
    let mut tell = |number: u64, rtt: u64, srtt: u64, delta: i64| {
        now += ms(rtt);
        let mut acked = acked(number, 1500, ms(rtt));
        (acked.state, acked.srtt) = (sender.on_sent(now, &sent(number, 1500)), ms(srtt));
        let before = sender.window();
        sender.on_feedback(now, &granted(delta, 1), &acked);
        sender.on_ack(now, &acked);
        sender.window() as i64 - before as i64
    };
    for number in 0..8 {
        tell(number, 5000, 5000, 0);
    }
    // 100 kB/s more over 20 ms are 2 kB; over 4.4 s they would be 440 kB.
    let grown = tell(8, 20, 4400, 100_000 << 16);
    assert!((2_000..=4_000).contains(&grown), "{grown}");
}

#[test]
fn the_window_follows_what_is_granted() {
    let mut sender = sender(XcpParams::default());
    let before = sender.window();
    round(&mut sender, Instant::ZERO, 0, 10_000 << 16);
    assert_eq!(sender.window(), before + 1000);
    assert!(sender.metrics().explicit);
    round(&mut sender, at(100), 1, -(1 << 50));
    let window = request(&sender).window;
    assert_eq!(window, u64::from(MTU), "never below a packet");
}

#[test]
fn a_small_window_has_room_for_the_packet_that_it_holds_a_part_of() {
    let mut sender = sender(XcpParams::default());
    round(&mut sender, Instant::ZERO, 0, 0);
    sender.on_persistent_congestion(Instant::ZERO);
    // 1.9 packets: two may be in flight, at the rate of 1.9.
    round(&mut sender, at(100), 7, 13_500 << 16);
    assert_eq!(request(&sender).window, 2850);
    assert_eq!(sender.window() / u64::from(MTU), 2);
    let pace = sender.pacing_rate().unwrap();
    assert!((28_500..=30_000).contains(&pace), "{pace}");
    // 2.8 packets: three.
    round(&mut sender, at(200), 8, 13_500 << 16);
    assert_eq!(sender.window() / u64::from(MTU), 3);
    assert_eq!(request(&sender).window, 4200);
}

#[test]
fn a_header_stands_for_the_packets_without_one() {
    let mut sender = sender(XcpParams {
        every: 4,
        ..XcpParams::default()
    });
    assert_eq!(sender.signal_every(), 4);
    let with = request(&sender);
    let _ = sender.on_sent(Instant::ZERO, &sent(0, 1500));
    for number in 1..4 {
        let mut packet = sent(number, 1500);
        packet.signal = false;
        let _ = sender.on_sent(Instant::ZERO, &packet);
    }
    let next = request(&sender);
    assert_eq!((with.covers, next.covers), (1, 4));
    assert!(next.x.abs_diff(4 * with.x) <= 4);
    assert!(next.delta.abs_diff(4 * with.delta) <= 4);
}

#[test]
fn the_least_limit_is_told_and_no_more_is_asked_than_fits_it() {
    let mut sender = sender(XcpParams::default());
    round(&mut sender, Instant::ZERO, 0, 1 << 40);
    let own = request(&sender);
    assert_eq!(own.window, sender.window());
    let limits = Limits {
        peer: 64_000,
        ..Limits::NONE
    };
    sender.on_limits(Instant::ZERO, &limits);
    let header = request(&sender);
    assert_eq!((header.window, header.delta), (64_000, 0));
    assert_eq!(header.x, (100 << 40) / 1000 * 1500 / 64_000);
    // If there is more room than the window, the request covers it.
    let limits = Limits {
        buffer: own.window + 10_000,
        ..Limits::NONE
    };
    sender.on_limits(Instant::ZERO, &limits);
    let header = request(&sender);
    let want = 100_000.0 * 1500.0 / own.window as f64;
    assert!((header.delta as f64 / 65_536.0 - want).abs() < 1.0);
    // The paper's sender still states its window, and requests everything.
    let mut naive = self::sender(XcpParams {
        naive: true,
        ..XcpParams::default()
    });
    naive.on_limits(Instant::ZERO, &limits);
    assert_eq!(request(&naive).window, naive.window());
    assert!(request(&naive).delta > 1 << 40);
}

/// Behind a visible hop without feedback, the window is at most a few times the bytes that have
/// arrived. Routers that do not see a grant being used would give it again in each round trip.
#[test]
fn a_grant_that_may_not_be_used_yet_is_not_asked_for_again() {
    let mut sender = sender(XcpParams::default());
    let shown = |unmarked_hop, delta| match shown(unmarked_hop, delta) {
        Feedback::Xcp(feedback) => Feedback::Xcp(XcpFeedback {
            hops: 1,
            ..feedback
        }),
        other => other,
    };
    assert!(request(&sender).delta > 0);
    round_with(&mut sender, Instant::ZERO, 0, &shown(false, 1 << 40));
    round_with(&mut sender, Instant::ZERO, 1, &shown(true, 0));
    // Of 1.7 MB granted.
    assert_eq!(sender.window(), 40 * 1500);
    assert_eq!(request(&sender).delta, 0);
    // Everything was sent, and arrives.
    let mut number = 2;
    for turn in 1..9 {
        let now = at(100 * turn);
        for _ in 0..sender.window() / 1500 {
            round_with(&mut sender, now, number, &shown(true, 0));
            number += 1;
        }
    }
    assert!(sender.window() > 1_500_000);
    assert!(request(&sender).delta > 0);
}

#[test]
fn nobody_is_believed_who_grants_more_than_was_asked() {
    let mut sender = sender(XcpParams::default());
    let limits = Limits {
        application: 20_000,
        ..Limits::NONE
    };
    sender.on_limits(Instant::ZERO, &limits);
    let before = sender.window();
    round(&mut sender, Instant::ZERO, 0, 1 << 55);
    // 200 kB/s were desired, over ten packets; the first requested a tenth of the missing rate.
    let asked = (200_000.0 - before as f64 * 10.0) * 1500.0 / before as f64;
    let grown = (sender.window() - before) as f64;
    assert!((grown - asked / 10.0).abs() <= 1.0, "{grown} {asked}");
}

#[test]
fn unstamped_packets_are_no_feedback_and_cubic_rules() {
    let mut sender = sender(XcpParams::default());
    let mut cubic = crate::standard::CubicController::cubic(MTU, None);
    let feedback = Feedback::Xcp(XcpFeedback {
        stamped: 0,
        ..stamped(0)
    });
    for number in 0..20 {
        let now = at(100 * number);
        let acked = acked(number, 1500, ms(100));
        let _ = sender.on_sent(now, &sent(number, 1500));
        sender.on_feedback(now, &feedback, &acked);
        let _ = cubic.on_sent(now, &sent(number, 1500));
        sender.on_ack(now, &acked);
        cubic.on_ack(now, &acked);
        assert_eq!(sender.window(), cubic.window());
    }
    assert_eq!(sender.metrics().ruling, "cubic");
}

#[test]
fn losses_mean_what_the_policy_says() {
    for (loss, unmarked_hop, cuts) in [
        (XcpLoss::Hybrid, false, false),
        // There is a hop without feedback, but a single loss does not show that it is the
        // bottleneck.
        (XcpLoss::Hybrid, true, false),
        (XcpLoss::Ignore, true, false),
        (XcpLoss::Fallback, false, true),
    ] {
        let mut sender = with_loss(loss);
        round_with(&mut sender, Instant::ZERO, 0, &shown(unmarked_hop, 1 << 36));
        let before = sender.window();
        sender.on_loss(at(100), &lost(1, 9, ms(100)));
        assert_eq!(sender.window() < before, cuts, "{loss:?} {unmarked_hop}");
        assert_eq!(sender.metrics().explicit, !cuts);
    }
}

/// A bound that only a search for hops without feedback could lift does not apply without this
/// search.
#[test]
fn who_ignores_loss_uses_what_is_granted_past_a_hop_that_is_no_router() {
    let [clear, behind] = [false, true].map(|unmarked_hop| {
        let mut sender = with_loss(XcpLoss::Ignore);
        for number in 0..40 {
            let feedback = shown(unmarked_hop, 1 << 32);
            round_with(&mut sender, at(100 * number), number, &feedback);
        }
        sender.window()
    });
    assert!(clear > 100 * 1500, "{clear}");
    assert_eq!(clear, behind);
}

#[test]
fn standard_control_rules_until_routers_would_leave_less() {
    let mut sender = with_loss(XcpLoss::Fallback);
    round(&mut sender, Instant::ZERO, 0, 1 << 36);
    sender.on_loss(at(100), &lost(1, 1, ms(100)));
    assert!(!sender.metrics().explicit);
    // Routers give, so they would leave more, and the halved window remains.
    for number in 2..6 {
        round(&mut sender, at(100 * number), number, 1 << 30);
        assert!(!sender.metrics().explicit, "{number}");
    }
    // Routers take during a whole round trip.
    for number in 6..10 {
        round(&mut sender, at(100 * number), number, -(1 << 32));
    }
    assert!(sender.metrics().explicit);
}

#[test]
fn persistent_congestion_leaves_one_packet_and_voids_what_was_granted_before() {
    let mut sender = sender(XcpParams::default());
    round(&mut sender, Instant::ZERO, 0, 1 << 36);
    let mut old = acked(5, 1500, ms(100));
    old.state = sender.on_sent(at(200), &sent(5, 1500));
    sender.on_persistent_congestion(at(900));
    assert_eq!(request(&sender).window, 1500);
    sender.on_feedback(at(950), &granted(1 << 36, 1), &old);
    assert_eq!(request(&sender).window, 1500);
    round(&mut sender, at(1000), 6, 10_000 << 16);
    assert_eq!(request(&sender).window, 2500);
}

#[test]
fn idleness_ages_the_window() {
    let mut sender = sender(XcpParams::default());
    round(&mut sender, Instant::ZERO, 0, 900_000 << 16);
    let before = sender.window();
    assert!(before > 100_000, "{before}");
    sender.on_restart(at(500), ms(200));
    assert_eq!(sender.window() - 14_720, (before - 14_720) / 4);
    sender.on_restart(at(60_000), ms(60_000));
    assert_eq!(sender.window(), 14_720);
}

proptest! {
    /// For any pattern of acknowledgements, the window changes by the sum of the feedback
    /// multiplied by the RTT, exact to a unit.
    #[test]
    fn sums_are_exact(
        deltas in prop::collection::vec(0i64..1 << 40, 1..200),
        rtt_us in 1u64..65_000_000,
    ) {
        let rtt = crate::base::Duration::from_micros(rtt_us);
        let mut window = Steering::new(Instant::ZERO, 1500);
        for delta in &deltas {
            window.apply(*delta, rtt, 1500);
        }
        let sum: i128 = deltas.iter().map(|&delta| i128::from(delta)).sum();
        let want = (1500 << 16) + sum * i128::from(rtt_us) / 1_000_000;
        prop_assert!((window.q16() - want).abs() <= 1);
    }

    /// The sum of grants never exceeds the sum of requests.
    #[test]
    fn grants_stay_below_wishes(
        wishes in prop::collection::vec((0i64..1 << 50, any::<i64>(), any::<bool>()), 1..100),
    ) {
        let mut asked = Asked::default();
        let (mut wished, mut had) = (0i128, 0i128);
        for (wish, grant, acked) in wishes {
            asked.on_sent(wish);
            wished += i128::from(wish);
            if acked {
                asked.on_ack(asked.state());
                let given = asked.grant(grant);
                prop_assert!(given <= grant.max(0));
                had += i128::from(given.max(0));
            }
        }
        prop_assert!(had <= wished);
        asked.on_ack(u64::MAX / 3);
    }

    /// Any feedback in any order leaves a window between one packet and the requested one, and does
    /// not panic.
    #[test]
    fn nothing_breaks_it(
        events in prop::collection::vec(
            (0u8..10, any::<i64>(), 1u64..5000, any::<bool>()),
            1..300,
        ),
    ) {
        let mut sender = XcpSender::new(Instant::ZERO, MTU, XcpParams::default());
        let (mut now, mut number) = (Instant::ZERO, 0);
        for (kind, value, gap, flag) in events {
            now += crate::base::Duration::from_micros(gap * 100);
            let rtt = ms(gap % 700 + 1);
            match kind {
                0..=3 => {
                    number += 1;
                    let packet = Sent { signal: flag, ..sent(number, 1500) };
                    let state = sender.on_sent(now, &packet);
                    if flag {
                        let acked = Acked {
                            state,
                            window_limited: value > 0,
                            ..acked(number, 1500, rtt)
                        };
                        sender.on_feedback(now, &granted(value, 1), &acked);
                        sender.on_ack(now, &acked);
                    }
                }
                4 => {
                    let nothing = Acked { packets: 0, ..acked(number, 0, rtt) };
                    sender.on_feedback(now, &granted(value, gap), &nothing);
                }
                5 => sender.on_loss(now, &lost(number, number, rtt)),
                6 => sender.on_persistent_congestion(now),
                7 => sender.on_restart(now, rtt),
                8 => sender.on_congestion_experienced(now, now, number),
                _ => {
                    let peer = value.unsigned_abs() >> (gap % 60);
                    sender.on_limits(now, &Limits { peer, ..Limits::NONE });
                }
            }
            let window = sender.window();
            prop_assert!((1500..=1 << 57).contains(&window), "{window}");
            let header = request(&sender);
            prop_assert!(header.delta >= 0);
            prop_assert!(sender.pacing_rate().is_none_or(|rate| rate > 0));
        }
    }
}
