use super::*;

const fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0, ect1, ce })
}

fn send(v: &mut EcnValidation, mark: Ecn) {
    v.on_sent(v.next, mark);
}

fn send_many(v: &mut EcnValidation, count: u64) {
    for _ in 0..count {
        send(v, Ecn::Ect0);
    }
}

fn lose(v: &mut EcnValidation, mark: Ecn) {
    v.on_lost(Instant::ZERO, v.next - 1, mark);
}

fn ack(v: &mut EcnValidation, ect0: u64, ect1: u64, counts: Option<EcnCounts>) -> u64 {
    ack_at(v, Instant::ZERO, ect0, ect1, counts)
}

/// An ACK frame for the newest packets.
fn ack_at(
    v: &mut EcnValidation,
    now: Instant,
    ect0: u64,
    ect1: u64,
    counts: Option<EcnCounts>,
) -> u64 {
    for _ in 0..ect0 {
        v.on_acked(v.next - 1, Ecn::Ect0);
    }
    for _ in 0..ect1 {
        v.on_acked(v.next - 1, Ecn::Ect1);
    }
    let (largest, next) = (v.next - 1, v.next);
    let ack = EcnAck {
        ect0,
        ect1,
        counts,
        largest,
        next,
    };
    v.on_ack(now, &ack)
}

fn tested(packets: u64) -> EcnValidation {
    tested_with(Ecn::Ect0, packets)
}

fn tested_with(mark: Ecn, packets: u64) -> EcnValidation {
    let mut v = EcnValidation::new(mark);
    for _ in 0..packets {
        let mark = v.mark();
        send(&mut v, mark);
    }
    v
}

#[test]
fn marks_that_survive() {
    let mut v = tested(12);
    assert_eq!((v.state(), v.mark()), (EcnState::Unknown, Ecn::NotEct));
    assert_eq!(ack(&mut v, 4, 0, counts(4, 0, 0)), 0);
    assert_eq!((v.state(), v.mark()), (EcnState::Capable, Ecn::Ect0));
    assert_eq!(ack(&mut v, 6, 0, counts(7, 0, 3)), 3);
    // Since an ACK was lost, the counts increase by more than this one acknowledges.
    send_many(&mut v, 2);
    assert_eq!(ack(&mut v, 1, 0, counts(8, 0, 4)), 1);
    assert_eq!(v.state(), EcnState::Capable);
    let mut received = EcnReceived::default();
    assert_eq!(received.counts(), None);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::Ect1] {
        received.on_packet(ecn);
    }
    assert_eq!(received.counts(), counts(2, 1, 1));
}

#[test]
fn paths_that_meddle() {
    // [9000 13.4.2.2 disable]
    let fails = |ect0, reported, failure| {
        let mut v = tested(10);
        assert_eq!(ack(&mut v, ect0, 0, reported), 0);
        assert_eq!(v.state(), EcnState::Failed(failure));
        assert_eq!(v.mark(), Ecn::NotEct);
        assert_eq!(ack(&mut v, 1, 0, counts(100, 0, 100)), 0);
    };
    fails(4, None, EcnFailure::Missing);
    fails(4, counts(3, 0, 0), EcnFailure::Bleached);
    fails(4, counts(0, 4, 0), EcnFailure::Remarked);
    fails(4, counts(11, 0, 0), EcnFailure::Remarked);
    fails(4, counts(5, 0, 6), EcnFailure::Remarked);
    let mut v = tested(10);
    ack(&mut v, 5, 0, counts(5, 0, 0));
    ack(&mut v, 1, 0, counts(4, 0, 2));
    assert_eq!(v.state(), EcnState::Failed(EcnFailure::Backwards));
}

#[test]
fn counts_go_on_over_a_change_of_path() {
    let mut old = tested(12);
    ack(&mut old, 8, 0, counts(7, 0, 1));
    let mut new = EcnValidation::new(Ecn::Ect0);
    new.follow(&old);
    for _ in 0..10 {
        assert_eq!(new.mark(), Ecn::Ect0);
        send(&mut new, Ecn::Ect0);
    }
    assert_eq!(new.state(), EcnState::Unknown);
    // Two of the old path's packets arrive late, together with three of the new one's.
    assert_eq!(ack(&mut new, 3, 0, counts(11, 0, 2)), 1);
    assert_eq!(new.state(), EcnState::Capable);

    // A path that failed continues its counts for the next one.
    let mut failed = tested(10);
    ack(&mut failed, 10, 0, counts(0, 10, 0));
    ack(&mut failed, 0, 0, counts(0, 10, 0));
    let mut new = EcnValidation::new(Ecn::Ect0);
    new.follow(&failed);
    send(&mut new, Ecn::Ect0);
    assert_eq!(ack(&mut new, 1, 0, counts(0, 11, 0)), 0);
    assert!(matches!(new.state(), EcnState::Failed(_)));
}

#[test]
fn a_path_that_drops_marked_packets() {
    let mut v = tested(10);
    for _ in 0..9 {
        lose(&mut v, Ecn::Ect0);
    }
    lose(&mut v, Ecn::NotEct);
    assert_eq!(v.state(), EcnState::Unknown);
    lose(&mut v, Ecn::Ect0);
    assert_eq!(v.state(), EcnState::Failed(EcnFailure::Dropped));
}

/// A path that let marks through begins to drop them. After the third probe timeout, packets aren't
/// marked anymore, even once one is acknowledged. Marked packets are tried after 30 s, 60 s and so
/// on.
#[test]
fn a_path_that_begins_to_drop_marked_packets() {
    let at = |s: u64| Instant::from_millis(1000 * s);
    let mut v = tested(10);
    ack(&mut v, 10, 0, counts(10, 0, 0));
    send_many(&mut v, 5);
    v.on_probe_timeout(1);
    v.on_probe_timeout(2);
    assert_eq!(v.mark(), Ecn::Ect0);
    v.on_probe_timeout(3);
    assert_eq!((v.state(), v.mark()), (EcnState::Unknown, Ecn::NotEct));
    send(&mut v, Ecn::NotEct);
    ack(&mut v, 0, 0, counts(10, 0, 0));
    for _ in 0..5 {
        assert_eq!(v.state(), EcnState::Unknown);
        v.on_lost(at(1), 10, Ecn::Ect0);
    }
    assert_eq!(v.state(), EcnState::Failed(EcnFailure::Dropped));
    let mut waits = Vec::new();
    let mut last = 1;
    for now in 1..3000 {
        v.poll(at(now));
        if v.mark() == Ecn::Ect0 {
            assert!(v.is_tried());
            send(&mut v, Ecn::Ect0);
            assert!(!v.is_tried() && v.mark() == Ecn::NotEct);
            v.on_lost(at(now), v.next - 1, Ecn::Ect0);
            waits.push(now - last);
            last = now;
        }
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600, 600]);
    // Eventually, one arrives.
    v.poll(at(10_000));
    send(&mut v, Ecn::Ect0);
    assert_eq!(ack(&mut v, 1, 0, counts(11, 0, 0)), 0);
    assert_eq!((v.state(), v.mark()), (EcnState::Capable, Ecn::Ect0));
}

/// Marked packets seemed to be dropped, but the cause was an outage.
#[test]
fn marks_that_arrive_after_all_go_on() {
    let mut v = tested(10);
    ack(&mut v, 10, 0, counts(10, 0, 0));
    send_many(&mut v, 2);
    v.on_probe_timeout(3);
    assert_eq!(v.mark(), Ecn::NotEct);
    lose(&mut v, Ecn::Ect0);
    assert_eq!(ack(&mut v, 1, 0, counts(11, 0, 0)), 0);
    assert_eq!((v.state(), v.mark()), (EcnState::Capable, Ecn::Ect0));
    // If no marked packet is in flight, marks can't be the cause.
    v.on_probe_timeout(9);
    assert_eq!(v.state(), EcnState::Capable);
    // An ACK frame that doesn't increase the largest number has no counts to check, so it isn't a
    // result.
    send(&mut v, Ecn::Ect0);
    v.on_probe_timeout(3);
    v.on_acked(v.next - 1, Ecn::Ect0);
    assert_eq!((v.state(), v.mark()), (EcnState::Testing, Ecn::Ect0));
}

/// CE on 64 consecutive packets over eight round trips. A single packet without CE is enough to
/// continue.
#[test]
fn a_path_that_marks_everything() {
    let rounds = |each: u64, intact_in: Option<u64>| {
        let mut v = tested(10);
        ack(&mut v, 10, 0, counts(10, 0, 0));
        let (mut ect0, mut ce) = (10, 0);
        for round in 0..100 {
            send_many(&mut v, each);
            let one = u64::from(intact_in.is_some_and(|n| round % n == 0));
            ect0 += one;
            ce += each - one;
            let new = ack(&mut v, each, 0, counts(ect0, 0, ce));
            if v.state() != EcnState::Capable {
                assert_eq!(v.state(), EcnState::Failed(EcnFailure::AllCe));
                assert_eq!(new, 0);
                return Some((round + 1, v, ce));
            }
            assert_eq!(new, each - one);
        }
        None
    };
    assert_eq!(rounds(1000, None).map(|r| r.0), Some(8));
    assert_eq!(rounds(8, None).map(|r| r.0), Some(8));
    assert_eq!(rounds(2, None).map(|r| r.0), Some(32));
    assert!(rounds(1000, Some(7)).is_none());
    // A trial that returns with CE shows that nothing has changed.
    let (_, mut v, ce) = rounds(2, None).unwrap();
    let at = |s: u64| Instant::from_millis(1000 * s);
    v.poll(at(31));
    send(&mut v, Ecn::Ect0);
    assert_eq!(ack_at(&mut v, at(31), 1, 0, counts(10, 0, ce + 1)), 0);
    assert_eq!(v.state(), EcnState::Failed(EcnFailure::AllCe));
    v.poll(at(80));
    assert_eq!(v.mark(), Ecn::NotEct);
    v.poll(at(91));
    send(&mut v, Ecn::Ect0);
    assert_eq!(ack_at(&mut v, at(91), 1, 0, counts(11, 0, ce + 1)), 0);
    assert_eq!(v.state(), EcnState::Capable);
}

/// Validation with the other codepoint works alike.
#[test]
fn paths_are_validated_with_either_codepoint() {
    for (reported, state) in [
        (counts(0, 4, 0), EcnState::Capable),
        (counts(0, 1, 3), EcnState::Capable),
        (None, EcnState::Failed(EcnFailure::Missing)),
        (counts(0, 3, 0), EcnState::Failed(EcnFailure::Bleached)),
        (counts(4, 0, 0), EcnState::Failed(EcnFailure::Remarked)),
    ] {
        let mut v = tested_with(Ecn::Ect1, 12);
        assert_eq!(v.state(), EcnState::Unknown);
        ack(&mut v, 0, 4, reported);
        assert_eq!(v.state(), state, "{reported:?}");
    }
}

/// RFC 9000 §A.4: a path is capable once one of its marked packets was acknowledged. Counts of the
/// previous path don't suffice.
#[test]
fn acknowledgements_of_other_packets_validate_nothing() {
    let mut old = tested(12);
    ack(&mut old, 8, 0, counts(8, 0, 0));
    let mut new = EcnValidation::new(Ecn::Ect0);
    new.follow(&old);
    send_many(&mut new, 10);
    assert_eq!(ack(&mut new, 0, 0, counts(9, 0, 1)), 1);
    assert_eq!(ack(&mut new, 0, 0, None), 0);
    assert_eq!(new.state(), EcnState::Unknown);
    // Its marks may therefore still turn out to be dropped.
    for _ in 0..10 {
        lose(&mut new, Ecn::Ect0);
    }
    assert_eq!(new.state(), EcnState::Failed(EcnFailure::Dropped));
}
