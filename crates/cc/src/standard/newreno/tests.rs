//! Grows by exactly one datagram per round trip.

use proptest::prelude::*;

use super::*;
use crate::testing::{acked, ms};

proptest! {
    #[test]
    fn growth_adds_up_to_the_exact_sum(
        mtu in 512u64..=9000,
        window_packets in 2u64..1 << 30,
        acks in prop::collection::vec(1u64..100, 1..200),
    ) {
        // [9002 7.3.3 additive-increase]
        let window = mtu * window_packets;
        let mut reno = Reno::default();
        let mut grown = 0u128;
        let mut bytes = 0u128;
        for packets in acks {
            let ack = acked(1, packets * mtu, ms(100));
            grown += u128::from(reno.on_ack(Instant::ZERO, &ack, window, mtu));
            bytes += u128::from(ack.bytes);
        }
        prop_assert_eq!(grown, bytes * u128::from(mtu) / u128::from(window));
    }
}
