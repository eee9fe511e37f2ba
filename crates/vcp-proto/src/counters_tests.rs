use proptest::prelude::*;

use super::*;
use crate::Repr;
use crate::support::sent;

fn most(packets: u64) -> Countable {
    sent(packets, 1500)
}

fn shim(code: u8, hops: u8, carries_r: bool, r: u16) -> [u8; 16] {
    Repr {
        code: VcpCode::from_bits(code),
        bise: true,
        carries_r,
        translated: hops > 1,
        corruption: 6,
        hops,
        router: 0xBEEF,
        r,
        t_rho_ms: 1250,
        load_128: 77,
        rtt_class: 40,
    }
    .emit()
}

fn count(totals: &mut Totals, shim: &[u8; 16], bytes: u64) {
    totals.count_shim(Some(&Packet::parse(shim).unwrap()), bytes, Some(61));
}

#[test]
fn known_totals() {
    let mut totals = Totals::default();
    assert!(totals.is_empty());
    count(&mut totals, &shim(1, 2, true, 1000), 1200);
    count(&mut totals, &shim(1, 2, true, R_ONE), 1201);
    count(&mut totals, &shim(1, 2, false, 1000), 1202);
    count(&mut totals, &shim(2, 2, true, 1000), 100);
    count(&mut totals, &shim(3, 2, true, 1000), 10);
    count(&mut totals, &shim(0, 2, true, 1000), 3);
    totals.count_shim(None, 2, Some(9));
    count(&mut totals, &shim(1, 0, true, R_ONE), 5);
    let expected = [
        3, 1, 1, 3, 3603, 100, 10, 10, 132_072, 1250, 0, 27, 0xBEEF, 77, 62,
    ];
    assert_eq!(totals.encode(), expected);
    assert_eq!(Totals::decode(&expected), Ok(totals));

    let feedback = totals
        .since(&Totals::default(), &most(8), Some(64))
        .unwrap();
    assert_eq!(feedback.packets, [3, 3, 1, 1]);
    assert_eq!(feedback.bytes, [10, 3603, 100, 10]);
    assert_eq!(feedback.sum_r, 132_072);
    assert_eq!(feedback.t_rho, Duration::from_millis(1250));
    assert_eq!(feedback.router, 0xBEEF);
    assert_eq!(feedback.corruption_ppm, 100_000);
    let hop = feedback.unmarked_hop;
    assert_eq!(hop, Some(true), "three IP hops, none marked the latest");
}

#[test]
fn ttl_tells_unmarked_hops() {
    let mut totals = Totals::default();
    count(&mut totals, &shim(1, 3, true, 1), 100);
    let unmarked = |sent_ttl| {
        let feedback = totals
            .since(&Totals::default(), &most(1), sent_ttl)
            .unwrap();
        feedback.unmarked_hop
    };
    assert_eq!(unmarked(Some(64)), Some(false));
    assert_eq!(unmarked(Some(65)), Some(true));
    assert_eq!(unmarked(Some(60)), None, "TTL grew on the way");
    assert_eq!(unmarked(None), None);
}

#[test]
fn ecn_codes_count_as_they_are() {
    let mut totals = Totals::default();
    totals.count_ecn(VcpCode::Low, 10, None);
    totals.count_ecn(VcpCode::Over, 20, None);
    totals.count_ecn(VcpCode::None, 30, None);
    let expected = [1, 0, 1, 1, 10, 0, 20, 30, 65_536, 0, 0, 0, 0, 0, 0];
    assert_eq!(totals.encode(), expected);
}

#[test]
fn impossible_counters() {
    let mut older = Totals::default();
    count(&mut older, &shim(1, 2, true, 1000), 1200);
    let mut newer = older;
    count(&mut newer, &shim(1, 2, true, 1000), 1200);
    count(&mut newer, &shim(2, 2, true, 1000), 1200);
    let good = newer.encode();
    let check = |index: usize, value: u64, sent: u64| {
        let mut counters = good;
        counters[index] = value;
        Totals::decode(&counters).and_then(|newer| newer.since(&older, &most(sent), None))
    };
    assert!(check(0, 2, 3).is_ok());
    assert_eq!(check(0, 2, 2), Err(MORE_THAN_SENT));
    assert_eq!(check(0, 0, 3), Err(BACKWARDS));
    assert_eq!(check(4, 0, 3), Err(BACKWARDS));
    assert_eq!(check(8, 0, 3), Err(BACKWARDS));
    assert_eq!(check(4, 1200, 3), Err(SUM), "a packet without bytes");
    assert_eq!(check(4, 1200 + 65_536, 3), Err(SUM));
    assert_eq!(check(8, 1000 + 65_537, 3), Err(SUM));
    for (index, limit) in [(9, 65_536), (10, 256), (12, 65_536), (13, 256), (14, 257)] {
        assert!(check(index, limit - 1, 3).is_ok(), "{index}");
        assert_eq!(check(index, limit, 3), Err(RANGE), "{index}");
    }
    assert_eq!(Totals::decode(&good[..14]), Err(COUNT));
    assert_eq!(Totals::decode(&[0; 16]), Err(COUNT));
    assert_eq!(check(0, CEILING, u64::MAX), Err(SUM));
    assert_eq!(check(0, u64::MAX, u64::MAX - 1), Err(MORE_THAN_SENT));
}

#[test]
fn totals_stop_at_the_ceiling() {
    let mut counters = [0; LEN];
    counters[0] = CEILING;
    counters[4] = CEILING - 5;
    counters[8] = CEILING - 5;
    let mut totals = Totals::decode(&counters).unwrap();
    count(&mut totals, &shim(1, 1, true, R_ONE), 1200);
    let [n1, _, _, _, b1, _, _, _, sum_r, ..] = totals.encode();
    assert_eq!([n1, b1, sum_r], [CEILING; 3]);
}

/// An arriving packet: code, hop count, r, size.
fn packets() -> impl Strategy<Value = Vec<(u8, u8, u16, u64)>> {
    proptest::collection::vec((0..4u8, 0..4u8, any::<u16>(), 16..1500u64), 1..200)
}

proptest! {
    /// FEEDBACK frames may be lost, duplicated or late. As long as the last one arrives, the
    /// differences must add up to exactly the counts.
    #[test]
    fn lost_and_late_feedback_loses_nothing(
        packets in packets(),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..100),
    ) {
        let mut totals = Totals::default();
        let mut frames = Vec::new();
        for &(code, hops, r, size) in &packets {
            count(&mut totals, &shim(code, hops, true, r), size);
            frames.push(totals.encode());
        }
        let most = most(packets.len() as u64);
        let numbers = |feedback: &VcpFeedback| -> Vec<u64> {
            [&feedback.packets[..], &feedback.bytes, &[feedback.sum_r]].concat()
        };
        let last = frames.len() - 1;
        let mut order: Vec<_> = order.iter().map(|index| index.index(frames.len())).collect();
        order.insert(order.len() / 2, last);
        order.push(last);
        let (mut latest, mut older, mut sums) = (None, Totals::default(), vec![0; 9]);
        for number in order {
            // Frames are ordered by the numbers of the packets that carried them.
            if latest >= Some(number) {
                continue;
            }
            let newer = Totals::decode(&frames[number]).unwrap();
            let feedback = newer.since(&older, &most, None).unwrap();
            for (sum, more) in sums.iter_mut().zip(numbers(&feedback)) {
                *sum += more;
            }
            (latest, older) = (Some(number), newer);
        }
        let whole = totals.since(&Totals::default(), &most, None).unwrap();
        prop_assert_eq!(sums, numbers(&whole));
    }

    #[test]
    fn round_trip(packets in packets(), ttl: Option<u8>) {
        let mut totals = Totals::default();
        for (code, hops, r, size) in packets {
            let shim = shim(code, hops, true, r);
            totals.count_shim(Some(&Packet::parse(&shim).unwrap()), size, ttl);
        }
        prop_assert_eq!(Totals::decode(&totals.encode()), Ok(totals));
    }
}
