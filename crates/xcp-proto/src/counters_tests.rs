use pathmark_cc::XcpRequest;
use pathmark_shim::frame;
use proptest::prelude::*;

use super::*;
use crate::header::{Form, Repr};
use crate::support::sent;

fn most(packets: u64) -> Countable {
    sent(packets, 2000)
}

/// An arriving header.
fn header(delta: i64, stamped: bool, xcp_ttl: u8, router: u16) -> Vec<u8> {
    let mut request = XcpRequest::default();
    (request.delta, request.covers) = (delta, 1);
    let mut repr = Repr::initial(Form::V4, Some(&request), 64);
    (repr.stamped, repr.xcp_ttl, repr.router) = (stamped, xcp_ttl, router);
    let mut out = vec![0; 36];
    assert_eq!(repr.emit(&mut out), Some(36));
    out
}

fn count(totals: &mut Totals, shim: &[u8], congested: bool) {
    let packet = Packet::parse(shim).unwrap();
    totals.count(&packet, 1000, Some(62), congested);
}

#[test]
fn what_counts() {
    let mut totals = Totals::default();
    assert!(totals.is_empty());
    count(&mut totals, &header(500, false, 64, 0), false);
    count(&mut totals, &header(700, true, 63, 9), false);
    count(&mut totals, &header(-200, true, 63, 9), false);
    // With congestion elsewhere on the path, positive changes must not count.
    count(&mut totals, &header(10_000, true, 62, 5), true);
    count(&mut totals, &header(-50, true, 62, 5), true);
    let mut minimal = [0; 36];
    let len = Repr::initial(Form::V4, None, 64).emit(&mut minimal);
    assert_eq!(len, Some(36));
    count(&mut totals, &minimal, false);

    let encoded = |totals: &Totals| totals.encode().collect::<Vec<_>>();
    assert_eq!(encoded(&totals), [5, 4, 5000, 450, 62, 63, 5]);
    let feedback = totals
        .since(&Totals::default(), &most(5), Some(64))
        .unwrap();
    let counts = (feedback.packets, feedback.stamped, feedback.bytes);
    assert_eq!((feedback.delta, counts), (450, (5, 4, 5000)));
    assert_eq!((feedback.hops, feedback.router), (2, 5));
    let (unmarked, rewritten) = (feedback.unmarked_hop, feedback.ttl_rewritten);
    assert_eq!((unmarked, rewritten), (Some(false), false));
    assert!(!feedback.uncounted && !feedback.translated);
    assert_eq!(feedback.corruption_ppm, 0);

    // There must be an eighth counter once a router has another law, if it bounds the flow, or a
    // cloud that it does not know, which counts as a hop without feedback, or declares loss by
    // corruption.
    for (n, bits, ttl, eighth, flags) in [
        (6, 0x40, 62, 8, (0, true, false, Some(false))),
        (7, 0x20, 63, 16, (0, false, true, Some(true))),
        (8, 5, 62, 5, (50_000, false, false, Some(false))),
    ] {
        let mut shim = header(0, true, 62, 5);
        shim[4] |= bits;
        frame::renew_check(shim.first_chunk_mut::<36>().unwrap());
        count(&mut totals, &shim, false);
        let expected = [n, n - 1, 1000 * n, 450, ttl, 63, 5, eighth];
        assert_eq!(encoded(&totals), expected);
        let through = Totals::decode(&expected).unwrap();
        let feedback = through
            .since(&Totals::default(), &most(n), Some(64))
            .unwrap();
        let (ppm, translated) = (feedback.corruption_ppm, feedback.translated);
        let found = (ppm, translated, feedback.uncounted, feedback.unmarked_hop);
        assert_eq!(found, flags);
    }
    // A header of the compact form has no room for the loss, and must not revoke it.
    let mut compact = Repr::initial(Form::Compact, Some(&XcpRequest::default()), 64);
    (compact.stamped, compact.xcp_ttl, compact.router) = (true, 62, 5);
    let mut thin = [0; 16];
    assert_eq!(compact.emit(&mut thin), Some(16));
    count(&mut totals, &thin, false);
    assert_eq!(encoded(&totals), [9, 8, 9000, 450, 62, 63, 5, 5]);
}

#[test]
fn hops_that_are_no_xcp_routers_show() {
    for (ttl, xcp_ttl, expected) in [
        (Some(62), 64, Some(true)),
        (Some(62), 63, Some(true)),
        (Some(62), 62, Some(false)),
        (Some(200), 62, None),
        (None, 62, None),
    ] {
        let mut totals = Totals::default();
        let shim = header(1, true, xcp_ttl, 1);
        totals.count(&Packet::parse(&shim).unwrap(), 100, ttl, false);
        let feedback = totals
            .since(&Totals::default(), &most(1), Some(64))
            .unwrap();
        assert_eq!(feedback.unmarked_hop, expected, "{ttl:?} {xcp_ttl}");
        assert_eq!(feedback.ttl_rewritten, ttl == Some(200));
    }
}

#[test]
fn the_sum_goes_round_and_below_zero() {
    let mut totals = Totals {
        sum: CEILING - 5,
        ..Totals::default()
    };
    let older = totals;
    for _ in 0..20 {
        count(&mut totals, &header(i64::MAX, true, 63, 1), false);
    }
    assert_eq!(totals.sum, (CEILING - 5 + (20 << 56)) & CEILING);
    let delta = totals.since(&older, &most(20), None).unwrap().delta;
    assert_eq!(delta, 20 << 56);
    for _ in 0..25 {
        count(&mut totals, &header(i64::MIN, true, 63, 1), false);
    }
    let delta = totals.since(&older, &most(45), None).unwrap().delta;
    assert_eq!(delta, -5 << 56);
}

#[test]
fn what_cannot_be() {
    let good = [4, 3, 4000, 100, 62, 63, 5];
    let with = |index: usize, value: u64| {
        let mut counters = good;
        counters[index] = value;
        Totals::decode(&counters)
    };
    let older = Totals::decode(&[2, 2, 2000, 50, 63, 63, 4]).unwrap();
    let since = |index, value| {
        with(index, value)
            .unwrap()
            .since(&older, &most(4), Some(64))
    };
    assert!(since(3, 100).is_ok());
    assert_eq!(Totals::decode(&good[..6]), Err(COUNT));
    for (counters, read) in [
        ([4, 3, 4000, 100, 62, 63, 5, 7, 0].as_slice(), Err(COUNT)),
        (&[4, 3, 4000, 100, 62, 63, 5, 32], Err(RANGE)),
        (&[4, 3, 4000, 100, 62, 63, 5, 1 << 40], Err(RANGE)),
        (&[4, 3, 4000, 100, 62, 63, 5, 0], Totals::decode(&good)),
    ] {
        assert_eq!(Totals::decode(counters), read, "{counters:?}");
    }
    assert_eq!(with(3, 1 << 62), Err(RANGE));
    assert_eq!(with(4, 256), Err(RANGE));
    assert_eq!(with(5, 257), Err(RANGE));
    assert_eq!(with(6, 65_536), Err(RANGE));
    assert_eq!(since(0, 5), Err(MORE_THAN_SENT));
    assert_eq!(since(1, 5), Err(MORE_THAN_SENT));
    assert_eq!(since(0, 3).unwrap().packets, 1);
    assert_eq!(since(1, 1), Err(BACKWARDS));
    assert_eq!(since(2, 1), Err(BACKWARDS));
    assert_eq!(since(2, 2001), Err(SUM));
    assert_eq!(since(2, 200_000), Err(SUM));
    // One more stamped packet may add at most 2⁵⁶.
    assert!(since(3, 50 + (1 << 56)).is_ok());
    assert_eq!(since(3, 51 + (1 << 56)), Err(SUM));
}

proptest! {
    /// Whichever states a sender sees, including the last one, its differences must add up to
    /// the total.
    #[test]
    fn nothing_is_lost(
        packets in proptest::collection::vec(
            (-(1i64 << 56)..1 << 56, any::<bool>(), any::<bool>(), any::<bool>()), 1..60,
        ),
    ) {
        let mut totals = Totals::default();
        let (mut older, mut learned, mut expected) = (Totals::default(), 0, 0);
        let mut stamped = 0;
        let last = packets.len() - 1;
        for (index, (delta, is_stamped, congested, seen)) in packets.into_iter().enumerate() {
            count(&mut totals, &header(delta, is_stamped, 63, 1), congested);
            if is_stamped {
                stamped += 1;
                expected += if congested { delta.min(0) } else { delta };
            }
            // A difference cannot hold more than 31 headers of 2⁵⁶.
            if seen || index == last || index % 16 == 0 {
                let through = Totals::decode(&totals.encode().collect::<Vec<_>>()).unwrap();
                let feedback = through.since(&older, &most(index as u64 + 1), Some(64)).unwrap();
                learned += i128::from(feedback.delta);
                older = through;
            }
        }
        prop_assert_eq!(learned, i128::from(expected));
        prop_assert_eq!(older.stamped, stamped);
    }
}
