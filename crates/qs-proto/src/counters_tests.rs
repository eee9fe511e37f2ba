use pathmark_shim::quick_start::{Function, RttOctave};

use super::*;
use crate::support::{changed, sent};

fn arrived(rate: u64, qs_ttl: u8) -> Repr {
    Repr {
        function: Function::Request,
        rate: Rate::floor(rate),
        qs_ttl,
        rtt: RttOctave::default(),
        nonce: 77,
    }
}

#[test]
fn the_latest_answer_goes_back() {
    let mut totals = Totals::default();
    assert!(totals.is_empty());
    totals.count(&arrived(1 << 20, 250), 1200, Some(4));
    let first = totals;
    let answer = first.since(&Totals::default(), &sent(1, 1200)).unwrap();
    assert_eq!((answer.packets, answer.bytes), (1, 1200));
    assert_eq!(answer.rate, 1 << 20);
    assert_eq!(answer.ttl_difference, Some(10));
    assert_eq!((answer.nonce, answer.nonce_bits), (77, 6));
    totals.count(&arrived(0, 0), 1000, None);
    let answer = totals.since(&first, &sent(2, 1200)).unwrap();
    assert_eq!((answer.packets, answer.bytes, answer.rate), (1, 1000, 0));
    assert_eq!(answer.ttl_difference, None);
    assert_eq!(Totals::decode(&totals.encode()), Ok(totals));
}

#[test]
fn a_report_counts_nothing() {
    let mut totals = Totals::default();
    let report = changed(arrived(1, 1), |repr| repr.function = Function::Report);
    totals.count(&report, 1200, Some(60));
    assert!(totals.is_empty());
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(Totals::decode(&[1; 4]), Err(COUNT));
    for bad in [
        [1, 1200, 1 << 16, 0, 0],
        [1, 1200, 0, 257, 0],
        [1, 1200, 0, 0, 1 << 48],
        [1 << 62, 1200, 0, 0, 0],
    ] {
        assert_eq!(Totals::decode(&bad), Err(RANGE), "{bad:?}");
    }
    let totals = |packets, bytes| Totals::decode(&[packets, bytes, 9, 1, 0]).unwrap();
    let none = Totals::default();
    for (newer, older, why) in [
        (totals(2, 2400), none, MORE_THAN_SENT),
        (totals(1, 1201), none, SUM),
        (totals(1, 0), none, SUM),
        (totals(0, 1), none, SUM),
        (totals(0, 0), totals(1, 100), BACKWARDS),
    ] {
        assert_eq!(newer.since(&older, &sent(1, 1200)), Err(why));
    }
}
