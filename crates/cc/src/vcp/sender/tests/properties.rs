//! Arbitrary events for a sender.

use proptest::prelude::*;

use super::{MTU, RTT, at, codes, sender};
use crate::base::{Duration, Instant};
use crate::law::Controller;
use crate::names::Algorithm;
use crate::signals::{Feedback, VcpFeedback};
use crate::testing::{acked, lost, ms, sent};
use crate::vcp::wlte::Wlte;

proptest! {
    /// No order of events and no field's value takes a controller below its minimum, to invalid
    /// values, or to a panic.
    #[test]
    fn any_events_are_survived(
        name in prop::sample::select(Algorithm::NAMES),
        mtu in 512u16..=9000,
        events in prop::collection::vec(
            (0u8..10, any::<u64>(), any::<u64>(), any::<u64>(), 0u32..64),
            1..200,
        ),
    ) {
        let mut controller = Algorithm::parse(name).unwrap().controller(at(0), mtu);
        let mut now = Instant::ZERO;
        let mut floor = u64::from(mtu);
        for (kind, a, b, c, shift) in events {
            now += Duration::from_nanos(a >> shift);
            let mut ack = acked(a >> shift, b >> shift, Duration::from_nanos(c >> shift));
            ack.packets = b >> shift;
            ack.min_rtt = Duration::from_nanos(b >> shift);
            ack.window_limited = a & 1 == 0;
            match kind {
                0 => { let _ = controller.on_sent(now, &sent(a >> shift, b >> shift)); }
                1 | 2 => controller.on_ack(now, &ack),
                3 | 4 => controller.on_feedback(now, &Feedback::Vcp(VcpFeedback {
                    packets: [a >> shift & 1, b >> shift, c >> shift, a >> shift],
                    bytes: [a, b, c, a],
                    sum_r: c,
                    t_rho: Duration::from_nanos(b >> shift),
                    hops: 1,
                    bise: c & 1 == 0,
                    ..VcpFeedback::default()
                }), &ack),
                5 => {
                    let srtt = Duration::from_nanos(c >> shift);
                    controller.on_loss(now, &lost(a >> shift, b >> shift, srtt));
                }
                6 => controller.on_congestion_experienced(now, Instant::from_nanos(a >> shift), b),
                7 => controller.on_persistent_congestion(now),
                8 => controller.on_spurious_loss(now),
                _ => {
                    controller.on_restart(now, Duration::from_nanos(b));
                    let smaller = mtu / 2 + 256;
                    controller.on_mtu(smaller);
                    floor = floor.min(u64::from(smaller));
                }
            }
            prop_assert!(controller.window() >= floor);
            prop_assert!(controller.window() < 1 << 58);
            prop_assert!(controller.pacing_rate().is_none_or(|rate| rate >= 1));
            let metrics = controller.metrics();
            prop_assert_eq!(metrics.window, controller.window());
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Event {
    /// Time since the previous event.
    after: u64,
    /// 0 to 3: acknowledged packets with this code; 4: without feedback; 5: a loss.
    kind: usize,
    packets: u64,
    /// Queueing delay in milliseconds.
    queued: u64,
}

proptest! {
    /// With any feedback, delays and losses, a sender that has data sends at least a packet per
    /// round trip, whose acknowledgement carries the next feedback.
    #[test]
    fn no_word_and_no_trial_stops_a_sender(
        events in proptest::collection::vec(
            (
                prop_oneof![1 => Just(0u64), 6 => 1..200u64, 1 => 200..20_000u64],
                0..6usize,
                prop_oneof![0..3u64, 0..40u64],
                prop_oneof![Just(0), 0..400u64, 200..300u64],
            ),
            1..200,
        ),
    ) {
        let events = events.into_iter().map(|(after, kind, packets, queued)| {
            Event { after, kind, packets, queued }
        });
        let mut sender = sender(Wlte::default());
        let (mut now, mut number) = (0, 0);
        for event in events {
            now += event.after;
            let srtt = RTT + ms(event.queued);
            for _ in 0..event.packets {
                number += 1;
                sender.on_sent(at(now), &sent(number, MTU));
            }
            if event.kind == 5 {
                if event.packets > 0 {
                    let mut loss = lost(number, number, srtt);
                    loss.packets = event.packets;
                    loss.min_rtt = RTT;
                    sender.on_loss(at(now), &loss);
                }
            } else {
                let mut ack = acked(number, event.packets * MTU, srtt);
                ack.packets = event.packets;
                ack.min_rtt = RTT;
                ack.forward_delay = Some(ms(event.queued));
                if event.kind < 4 {
                    let mut packets = [0; 4];
                    packets[event.kind] = event.packets;
                    sender.on_feedback(at(now), &codes(packets), &ack);
                }
                sender.on_ack(at(now), &ack);
            }
            let round = u128::from(srtt.as_nanos() as u64);
            if let Some(pace) = sender.pacing_rate() {
                let bytes = u128::from(pace) * round / 1_000_000_000;
                prop_assert!(bytes + 10 >= u128::from(MTU) / 5, "{bytes} bytes per round trip");
            }
            prop_assert!(sender.window() >= MTU);
        }
    }
}
