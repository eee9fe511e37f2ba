//! The contents of rings of sent packets, and how long they are kept.

use super::*;

/// A pure ACK, or one with an ack-eliciting frame.
fn acknowledgement(eliciting: bool) -> SentPacket<()> {
    SentPacket {
        ack_eliciting: eliciting,
        in_flight: eliciting,
        ..packet(Instant::ZERO, 40, ())
    }
}

#[test]
fn numbers_may_have_gaps_but_never_fall() {
    // [9000 12.3 numbers-ascend]
    let mut sent = SentPackets::new();
    assert!(sent.insert(5, packet(Instant::ZERO, 100, 'a')));
    assert!(sent.insert(6, packet(Instant::ZERO, 100, 'b')));
    assert!(sent.insert(9, packet(Instant::ZERO, 100, 'c')));
    assert!(!sent.insert(9, packet(Instant::ZERO, 100, 'd')));
    assert_eq!((sent.next_number(), sent.bytes_in_flight()), (10, 300));
    assert_eq!(sent.span(), 5);
    let unresolved: Vec<_> = sent.iter().map(|(n, p)| (n, p.frames)).collect();
    assert_eq!(unresolved, [(5, 'a'), (6, 'b'), (9, 'c')]);
    assert!(sent.get(7).is_none() && sent.get(4).is_none() && sent.get(10).is_none());
    assert!(sent.never_sent(0, 4) && sent.never_sent(8, 8) && sent.never_sent(9, 10));
    assert!(!sent.never_sent(5, 6) && !sent.never_sent(9, 9));
    assert_eq!(sent.remove(6).map(|p| p.frames), Some('b'));
    assert!(sent.remove(6).is_none());
    assert_eq!(sent.remove(5).map(|p| p.frames), Some('a'));
    assert_eq!((sent.base(), sent.span()), (9, 1));
    assert_eq!(sent.remove(9).map(|p| p.frames), Some('c'));
    assert_eq!((sent.next_number(), sent.bytes_in_flight()), (10, 0));
}

#[test]
fn acks_without_acknowledgement_stay_bounded() {
    let mut sent = SentPackets::new();
    for n in 0..100_000 {
        assert!(sent.insert(n, acknowledgement(n % 1000 == 0)));
        if n % 1000 == 500 {
            sent.remove(n - 500);
        }
    }
    assert!(sent.span() <= UNCUT, "{}", sent.span());
    assert_eq!(sent.ack_eliciting(), 0);
}

/// A peer sends forever and acknowledges nothing. Ack-eliciting packets are kept, but those
/// sent since aren't.
#[test]
fn a_packet_without_acknowledgement_keeps_no_others() {
    let mut sent = SentPackets::new();
    for n in 0..100_000 {
        assert!(sent.insert(n, acknowledgement(n % 10_000 == 7)));
    }
    assert!(sent.span() <= UNCUT + 10, "{}", sent.span());
    assert!(sent.ring.capacity() <= 2 * UNCUT);
    let asked: Vec<u64> = (0..10).map(|i| 10_000 * i + 7).collect();
    let left = |sent: &SentPackets<()>| {
        let asking = sent.iter().filter(|(_, packet)| packet.ack_eliciting);
        asking.map(|(number, _)| number).collect::<Vec<_>>()
    };
    assert_eq!((left(&sent), sent.base()), (asked.clone(), 7));
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (400, 10));
    assert!(sent.get(10_007).is_some() && sent.get(10_008).is_none());
    assert!(sent.remove(10_007).is_some() && sent.remove(10_007).is_none());
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (360, 9));
    sent.change_path(PathNumber(2), false);
    assert!(sent.get(7).is_some_and(|packet| !sent.is_on_path(packet)));
    let mut drained = Vec::new();
    sent.drain(|number, packet| {
        assert!(packet.is_off_path() && !packet.in_flight);
        drained.extend(packet.ack_eliciting.then_some(number));
    });
    assert_eq!(drained, [&asked[..1], &asked[2..]].concat());
    assert_eq!((sent.span(), sent.ack_eliciting()), (0, 0));
    assert_eq!(sent.next_number(), 100_000);
}

/// Packets that count towards bytes in flight are kept even if they aren't ack-eliciting, like
/// padding (RFC 9002 §2), and so are ack-eliciting ones on another path. Otherwise, they would
/// be missing from the window forever.
#[test]
fn nothing_that_was_counted_is_forgotten() {
    let mut sent = SentPackets::new();
    let as_in = |eliciting, in_flight| SentPacket {
        ack_eliciting: eliciting,
        in_flight,
        ..packet(Instant::ZERO, 40, ())
    };
    let mut kept = Vec::new();
    for n in 0..10_000 {
        let kind = match n % 1000 {
            1 => (true, true),
            2 => (false, true),
            3 => (true, false),
            _ => (false, false),
        };
        if kind != (false, false) {
            kept.push(n);
        }
        assert!(sent.insert(n, as_in(kind.0, kind.1)));
    }
    assert!(sent.span() <= 4 * UNCUT, "{}", sent.span());
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (800, 20));
    for n in kept {
        assert!(sent.remove(n).is_some(), "{n}");
    }
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (0, 0));
}

/// A single old packet before an acknowledged window isn't a reason to forget any.
#[test]
fn a_full_ring_is_not_cut() {
    let mut sent = SentPackets::new();
    for n in 0..10_000 {
        assert!(sent.insert(n, packet(Instant::ZERO, 1200, ())));
    }
    assert_eq!((sent.base, sent.span(), sent.aside.len()), (0, 10_000, 0));
}

#[test]
fn memory_comes_back_after_a_burst() {
    let mut sent = SentPackets::new();
    for round in 0..3u64 {
        let burst = if round == 0 { 10_000 } else { 10 };
        let from = sent.next_number();
        for n in from..from + burst {
            assert!(sent.insert(n, packet(Instant::ZERO, 1200, ())));
        }
        for n in from..from + burst {
            assert!(sent.remove(n).is_some());
        }
    }
    assert!(sent.ring.capacity() <= 4 * KEPT_CAPACITY);
}

#[test]
fn leaving_a_path_empties_its_flight_but_forgets_nothing() {
    let mut sent = SentPackets::new();
    sent.insert(0, packet(Instant::ZERO, 1200, ()));
    sent.change_path(PathNumber(2), false);
    sent.insert(1, packet(Instant::ZERO, 700, ()));
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (700, 2));
    assert!(sent.remove(0).is_some_and(|p| p.is_off_path()));
    assert_eq!(sent.bytes_in_flight(), 700);
    let mut left = Vec::new();
    sent.drain(|n, _| left.push(n));
    assert_eq!((left, sent.bytes_in_flight()), (vec![1], 0));
}

/// Padding that isn't ack-eliciting counts towards bytes in flight, and is forgotten with the
/// path.
#[test]
fn what_only_counted_is_forgotten_with_its_path() {
    let mut sent = SentPackets::new();
    let padding = SentPacket {
        ack_eliciting: false,
        ..packet(Instant::ZERO, 40, ())
    };
    for n in 0..2 * UNCUT as u64 {
        if n == UNCUT as u64 / 2 {
            sent.change_path(PathNumber(2), false);
        }
        assert!(sent.insert(n, padding));
    }
    let left: Vec<u64> = sent.iter().map(|(number, _)| number).collect();
    assert_eq!(left.len() as u64 * 40, sent.bytes_in_flight());
    assert_eq!(left[0], UNCUT as u64 / 2);
    for n in left {
        let removed = sent.remove(n).unwrap();
        assert!(removed.in_flight && !removed.is_off_path());
    }
    assert_eq!(sent.bytes_in_flight(), 0);
}

/// A kept path has separate bytes in flight, regardless of other paths.
#[test]
fn a_return_finds_what_is_still_in_flight() {
    let mut sent = SentPackets::new();
    let [home, away, other] = [1, 2, 3].map(PathNumber);
    for n in 0..3 {
        sent.insert(n, packet(Instant::ZERO, 1200, ()));
    }
    sent.change_path(away, true);
    assert_eq!(sent.bytes_in_flight(), 0);
    sent.insert(3, packet(Instant::ZERO, 500, ()));
    let removed = sent.remove(1).unwrap();
    assert!(removed.is_off_path() && !removed.in_flight);
    // A third path, because of which the second isn't kept.
    sent.change_path(other, false);
    sent.insert(4, packet(Instant::ZERO, 300, ()));
    assert_eq!(sent.bytes_in_flight(), 300);
    sent.change_path(home, true);
    assert_eq!(sent.bytes_in_flight(), 2400);
    let removed = sent.remove(0).unwrap();
    assert!(!removed.is_off_path() && removed.in_flight);
    assert!(sent.remove(3).is_some_and(|p| p.is_off_path()));
    assert_eq!(sent.bytes_in_flight(), 1200);
    sent.change_path(other, true);
    assert_eq!(sent.bytes_in_flight(), 300);
    sent.insert(5, packet(Instant::ZERO, 300, ()));
    // Numbers may be reused, so packets of the second path lose their number.
    sent.insert(6, packet(Instant::ZERO, 200, ()));
    sent.change_path(away, true);
    sent.forget_left();
    sent.change_path(home, false);
    assert!(sent.get(2).is_some_and(|p| p.is_off_path()));
    sent.change_path(other, false);
    assert_eq!(sent.bytes_in_flight(), 800);
    sent.drain(|_, _| {});
    sent.change_path(home, true);
    assert_eq!((sent.bytes_in_flight(), sent.ack_eliciting()), (0, 0));
}
