//! Arbitrary inputs in any order do not panic, and leave a usable window and pace.

use proptest::prelude::*;

use crate::base::{Duration, Instant};
use crate::law::{Controller, Limit, PacketState, Sent};
use crate::standard::bbr::sender::Bbr;
use crate::testing::{acked, lost};

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 1u64..100_000, any::<u64>()]
}

fn any_time() -> impl Strategy<Value = Duration> {
    any_size().prop_map(Duration::from_nanos)
}

proptest! {
    #[test]
    fn any_events_leave_a_usable_window(
        mtu in any::<u16>(),
        events in prop::collection::vec(
            (0u8..8, any_size(), any_size(), any_size(), any_time()),
            0..300,
        ),
    ) {
        let mut bbr = Bbr::new(Instant::ZERO, mtu, None);
        for (kind, a, b, c, time) in events {
            let now = Instant::from_nanos(c);
            match kind {
                0 | 1 => {
                    let limit = if a % 2 == 0 { Limit::Window } else { Limit::Application };
                    let sent = Sent {
                        packet_number: a,
                        bytes: b,
                        in_flight: c,
                        limit,
                        signal: false,
                    };
                    bbr.on_sent(now, &sent);
                }
                2 | 3 => {
                    let mut news = acked(a, b, time);
                    news.state = PacketState {
                        standard: c,
                        ..PacketState::default()
                    };
                    news.in_flight_before = a;
                    news.sent_at = Instant::from_nanos(b);
                    bbr.on_ack(now, &news);
                }
                4 => {
                    let mut news = lost(a, b, time);
                    news.bytes = b;
                    news.state = PacketState {
                        standard: c,
                        ..PacketState::default()
                    };
                    bbr.on_loss(now, &news);
                }
                5 => bbr.on_persistent_congestion(now),
                6 => bbr.on_spurious_loss(now),
                _ => {
                    bbr.on_handshake_rtt(now, time);
                    bbr.take_over(now, a, time, time);
                    bbr.on_mtu(b as u16);
                }
            }
            prop_assert!(bbr.window() >= 1);
            prop_assert!(bbr.pacing_rate().is_some_and(|pace| pace >= 1));
        }
    }
}
