use core::ops::RangeInclusive;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::ack;
use super::*;

fn the_ack(payload: &[u8]) -> Ack<'_> {
    match frames(payload)[..] {
        [Frame::Ack(ack)] => ack,
        ref other => panic!("{other:?}"),
    }
}

/// Runs of consecutive numbers, descending, found one number at a time.
fn runs(numbers: &BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
    for &n in numbers.iter().rev() {
        match runs.last_mut() {
            Some(run) if *run.start() == n + 1 => *run = n..=*run.end(),
            _ => runs.push(n..=n),
        }
    }
    runs
}

#[test]
fn known_bytes() {
    // [9000 19.3 both-types]
    // 10, 8 and 7, 3: first range 0; gap 0 (9 missing), 2 packets; gap 2 (4, 5, 6 missing), 1
    // packet.
    let bytes = [0x02, 10, 0x44, 0x00, 2, 0, 0, 1, 2, 0];
    let ack = the_ack(&bytes);
    assert_eq!((ack.largest, ack.delay, ack.ecn), (10, 1024, None));
    assert!(ack.ranges().eq([10..=10, 7..=8, 3..=3]));
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    assert_eq!(ack::encode(&mut w, ack.ranges(), 1024, None, 32), Ok(3));
    assert_eq!(w.written(), bytes);

    let (ect0, ect1, ce) = (5, 0, 70);
    let ecn = EcnCounts { ect0, ect1, ce };
    let bytes = [0x03, 2, 0, 0, 2, 5, 0, 0x40, 70];
    let ack = the_ack(&bytes);
    assert_eq!(ack.ecn, Some(ecn));
    assert!(ack.ranges().eq([0..=2]));
    let mut w = Writer::new(&mut buffer);
    ack::encode(&mut w, ack.ranges(), 0, Some(ecn), 32).unwrap();
    assert_eq!(w.written(), bytes);
}

#[test]
fn ranges_below_zero_are_refused() {
    // [9000 19.3.1 negative]
    for bytes in [
        &[0x02, 3, 0, 0, 4][..],
        &[0x02, 3, 0, 1, 2, 0, 0], // smallest 1, next would be −1
        &[0x02, 9, 0, 1, 0, 0, 8], // next 7, 9 packets
        &[0x02, 9, 0, 1, 0, 9, 0],
    ] {
        let error = error(bytes);
        assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
        assert_eq!(error.frame_type, types::ACK);
    }
    // The range includes packet number 0.
    let ack = [0x02, 3, 0, 1, 0, 1, 0];
    assert!(the_ack(&ack).ranges().eq([3..=3, 0..=0]));
}

#[test]
fn a_count_beyond_the_payload_costs_nothing() {
    let mut bytes = vec![0x02, 10, 0];
    bytes.extend((varint::MAX | 3 << 62).to_be_bytes());
    bytes.push(0);
    assert_eq!(error(&bytes).code, TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn ranges_that_cannot_be_are_not_written() {
    let mut buffer = [0; 64];
    for ranges in [
        &[][..],
        &[5..=7, 5..=6],
        &[5..=7, 4..=4], // touching
        &[5..=7, 9..=9],
        #[expect(clippy::reversed_empty_ranges, reason = "the point")]
        &[7..=5],
    ] {
        let mut w = Writer::new(&mut buffer);
        let result = ack::encode(&mut w, ranges.iter().cloned(), 0, None, 64);
        assert_eq!((result, w.position()), (Err(WriteError::AckRanges), 0));
    }
}

proptest! {
    #[test]
    fn acknowledges_the_set_it_was_given(
        numbers in proptest::collection::btree_set(0u64..400, 1..200),
        base in 0..varint::MAX - 400, delay in 0..=varint::MAX, ecn: Option<(u32, u32, u32)>,
    ) {
        let numbers: BTreeSet<u64> = numbers.into_iter().map(|n| n + base).collect();
        let runs = runs(&numbers);
        let ecn = ecn.map(|(ect0, ect1, ce)| EcnCounts {
            ect0: ect0.into(), ect1: ect1.into(), ce: ce.into(),
        });
        let mut buffer = [0; 4096];
        let mut w = Writer::new(&mut buffer);
        let taken = ack::encode(&mut w, runs.iter().cloned(), delay, ecn, 4096);
        prop_assert_eq!(taken, Ok(runs.len()));
        let ack = the_ack(w.written());
        prop_assert_eq!((ack.largest, ack.delay, ack.ecn), (*numbers.last().unwrap(), delay, ecn));
        let back: BTreeSet<u64> = ack.ranges().flatten().collect();
        prop_assert_eq!(back, numbers);
        prop_assert_eq!(Frame::Ack(ack).len(), w.written().len());
    }

    #[test]
    fn a_limit_is_filled_and_never_passed(
        numbers in proptest::collection::btree_set(0u64..100_000, 1..200), limit in 0usize..300,
    ) {
        let runs = runs(&numbers);
        let mut buffer = [0; 4096];
        let mut w = Writer::new(&mut buffer);
        match ack::encode(&mut w, runs.iter().cloned(), 7, None, limit) {
            Ok(taken) => {
                prop_assert!(w.position() <= limit);
                prop_assert!(the_ack(w.written()).ranges().eq(runs.iter().take(taken).cloned()));
                if taken < runs.len() {
                    let mut w = Writer::new(&mut buffer);
                    let more = runs.iter().take(taken + 1).cloned();
                    ack::encode(&mut w, more, 7, None, 4096).unwrap();
                    prop_assert!(w.position() > limit);
                }
            }
            Err(error) => {
                prop_assert_eq!((error, w.position()), (WriteError::NoRoom, 0));
                prop_assert!(limit < 12);
            }
        }
    }

    #[test]
    fn whatever_decodes_is_descending_with_gaps(
        bytes in proptest::collection::vec(any::<u8>(), 4..80),
    ) {
        let bytes = [&[0x02][..], &bytes].concat();
        if let Some(Ok(Frame::Ack(ack))) = Frames::new(&bytes).next() {
            let mut below = None;
            for range in ack.ranges() {
                prop_assert!(range.start() <= range.end());
                prop_assert!(below.is_none_or(|below: u64| range.end() + 1 < below));
                below = Some(*range.start());
            }
        }
    }
}
