use proptest::prelude::*;

use super::*;

fn most(packets: u64) -> Countable {
    Countable {
        packets,
        bytes: packets.saturating_mul(1500),
        longest: 1500,
    }
}
use crate::Repr;

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
        3,
        1,
        1,
        3,
        3603,
        100,
        10,
        10,
        1000 + 65_536 + 65_536,
        1250,
        0,
        3 | 6 << 2,
        0xBEEF,
        77,
        62,
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
    assert_eq!(
        feedback.unmarked_hop,
        Some(true),
        "three IP hops, none marked the latest"
    );
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
    assert_eq!(
        totals.encode(),
        [1, 0, 1, 1, 10, 0, 20, 30, 65_536, 0, 0, 0, 0, 0, 0]
    );
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

/// A sender's handling of FEEDBACK frames, which are ordered by the packet number of the packet
/// that carried them.
#[derive(Default)]
struct Sender {
    last: Option<(usize, Totals)>,
    packets: [u64; 4],
    bytes: [u64; 4],
    sum_r: u64,
}

impl Sender {
    fn on_feedback(&mut self, number: usize, counters: &[u64], sent: u64) {
        let older = self.last.map_or(Totals::default(), |(_, totals)| totals);
        if self.last.is_some_and(|(last, _)| number <= last) {
            return;
        }
        let newer = Totals::decode(counters).unwrap();
        let feedback = newer.since(&older, &most(sent), None).unwrap();
        for code in 0..4 {
            self.packets[code] += feedback.packets[code];
            self.bytes[code] += feedback.bytes[code];
        }
        self.sum_r += feedback.sum_r;
        self.last = Some((number, newer));
    }
}

proptest! {
    /// FEEDBACK frames may be lost, duplicated or late. As long as the last one arrives, the
    /// differences must add up to exactly the counts.
    #[test]
    fn lost_and_late_feedback_loses_nothing(
        packets in packets(),
        mut order in proptest::collection::vec(any::<prop::sample::Index>(), 0..100),
    ) {
        let mut totals = Totals::default();
        let mut frames = Vec::new();
        let (mut counted, mut bytes, mut sum_r) = ([0u64; 4], [0u64; 4], 0u64);
        for &(code, hops, r, size) in &packets {
            count(&mut totals, &shim(code, hops, true, r), size);
            frames.push(totals.encode());
            let code = if hops == 0 { 0 } else { usize::from(code) };
            counted[code] += 1;
            bytes[code] += size;
            if code == 1 {
                sum_r += if r == u16::MAX { 65_536 } else { u64::from(r) };
            }
        }
        let last = frames.len() - 1;
        let mut sender = Sender::default();
        let middle = order.len() / 2;
        for (i, index) in order.drain(..).enumerate() {
            if i == middle {
                sender.on_feedback(last, &frames[last], packets.len() as u64);
            }
            let number = index.index(frames.len());
            sender.on_feedback(number, &frames[number], packets.len() as u64);
        }
        sender.on_feedback(last, &frames[last], packets.len() as u64);
        prop_assert_eq!(sender.packets, counted);
        prop_assert_eq!(sender.bytes, bytes);
        prop_assert_eq!(sender.sum_r, sum_r);
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

    /// For any claims of a peer, nothing may panic, and accepted counters must not exceed the sent
    /// packets.
    #[test]
    fn arbitrary_counters(
        older in proptest::collection::vec(0..1u64 << 62, 15),
        newer in proptest::collection::vec(
            prop_oneof![0..300u64, 0..1u64 << 62, any::<u64>()], 0..18,
        ),
        sent: u64,
    ) {
        let older = Totals::decode(&older).unwrap_or_default();
        if let Ok(feedback) = Totals::decode(&newer).and_then(
            |newer| newer.since(&older, &most(sent), Some(64)),
        ) {
            prop_assert!(
                feedback.packets.iter().map(|&n| u128::from(n)).sum::<u128>() <= u128::from(sent),
            );
            prop_assert!(feedback.sum_r <= feedback.packets[1].saturating_mul(65_536));
        }
    }
}
