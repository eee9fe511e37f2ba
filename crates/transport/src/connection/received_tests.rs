//! The contents of ACK frames, when they are due, and how much space they may take.

use core::ops::RangeInclusive;

use super::*;
use crate::wire::Frame;
use crate::wire::frame::{EcnCounts, Frames};

/// Bytes of a packet before its ACK frame.
const BEFORE_ACK: usize = 20;

/// An ACK frame as decoded by the peer.
struct AckFields {
    ranges: Vec<RangeInclusive<u64>>,
    delay: u64,
    ecn: Option<EcnCounts>,
    bytes: usize,
}

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn receiver() -> Received {
    Received::new(SpaceId::Data, Duration::from_millis(25), None)
}

/// Receives the ack-eliciting packet `number`.
fn get(received: &mut Received, now: Instant, number: u64, bytes: usize) {
    received.on_packet(now, number, true, Ecn::NotEct, bytes);
}

fn ack(received: &mut Received, now: Instant, exponent: u8) -> AckFields {
    let mut room = [0; 1200];
    let mut w = Writer::new(&mut room);
    w.put_zeros(BEFORE_ACK).unwrap();
    received.write_ack(now, &mut w, exponent, 1100).unwrap();
    let frame = &w.written()[BEFORE_ACK..];
    match Frames::new(frame).next() {
        Some(Ok(Frame::Ack(ack))) => AckFields {
            ranges: ack.ranges().collect(),
            delay: ack.delay,
            ecn: ack.ecn,
            bytes: frame.len(),
        },
        other => panic!("{other:?}"),
    }
}

/// Every field has its maximum size.
#[test]
fn an_acknowledgement_of_very_large_counts_fits_what_is_left_in_any_case() {
    let mut received = receiver();
    received.credit = 0;
    let far = (1 << 62) - 10;
    received.ranges.insert(1);
    received.ranges.insert(far);
    let (delay, ranges) = (&mut received.delay, &received.ranges);
    delay.on_packet(Instant::ZERO, far, true, false, ranges);
    received.ecn = EcnReceived::with_counts(1 << 40);
    let mut room = [0; 1200];
    let mut w = Writer::new(&mut room);
    let late = Instant::ZERO + Duration::from_secs(1 << 40);
    assert_eq!(received.write_ack(late, &mut w, 0, 600), Some(far));
}

/// RFC 9000 §19.3: the delay is in microseconds, after multiplication by two to the power of
/// `ack_delay_exponent`.
#[test]
fn an_ack_tells_how_long_its_largest_packet_was_held_back() {
    // [9000 13.2.5 own-delay]
    for (exponent, delay) in [(0, 8000), (3, 1000), (10, 7)] {
        let mut received = receiver();
        get(&mut received, at(100), 5, 1200);
        let frame = ack(&mut received, at(108), exponent);
        assert_eq!((frame.ranges, frame.delay), (vec![5..=5], delay));
    }
}

/// RFC 9000 §13.2.1: a CE mark is acknowledged immediately, unlike another single packet.
#[test]
fn a_mark_of_congestion_is_acknowledged_at_once() {
    for (ecn, at_once) in [
        (Ecn::NotEct, false),
        (Ecn::Ect0, false),
        (Ecn::Ect1, false),
        (Ecn::Ce, true),
    ] {
        let mut received = receiver();
        received.on_packet(at(100), 0, true, ecn, 1200);
        assert_eq!(received.delay.due(at(100)), at_once, "{ecn:?}");
    }
}

/// RFC 9000 §13.4.1: marks are reported regardless of the packets that this side sends.
#[test]
fn marks_are_reported() {
    // [9000 13.4.1 marks-reported]
    let mut received = receiver();
    for (number, ecn) in [(0, Ecn::Ect0), (1, Ecn::Ect1), (2, Ecn::Ce), (3, Ecn::Ect0)] {
        received.on_packet(at(100), number, true, ecn, 1200);
    }
    let frame = ack(&mut received, at(100), 3);
    let counts = frame.ecn.unwrap();
    assert_eq!(frame.ranges, [0..=3]);
    assert_eq!((counts.ect0, counts.ect1, counts.ce), (2, 1, 1));
}

/// There are at most 64 ranges, or four times as many as began since the last ACK. If there are
/// more, each is contained in four ACKs.
#[test]
fn ranges_that_began_lately_are_reported_four_times() {
    let mut received = receiver();
    let (mut number, now) = (0, at(100));
    for (gaps, reported) in [(150, 151), (20, 80), (17, 68), (16, 64), (5, 64)] {
        // Of consecutive packets, only the first begins a range.
        for _ in 0..100 {
            get(&mut received, now, number, 1200);
            number += 1;
        }
        for _ in 0..gaps {
            number += 1;
            get(&mut received, now, number, 1200);
            number += 1;
        }
        let ranges = ack(&mut received, now, 3).ranges;
        assert_eq!(ranges.len(), reported, "after {gaps} gaps");
        assert_eq!(*ranges[0].end(), number - 1);
    }
}

/// Returns the bytes of ACKs that were due immediately after packets that arrive 10 µs apart, each
/// after a gap, and the number of these packets.
fn spent(received: &mut Received, bytes: usize) -> (usize, usize) {
    let mut spent = 0;
    let mut now = at(100);
    const PACKETS: usize = 4000;
    for n in 0..PACKETS {
        now += Duration::from_micros(10);
        get(received, now, 2 * n as u64, bytes);
        if received.delay.due(now) {
            spent += ack(received, now, 3).bytes + OVERHEAD;
        }
    }
    (spent, PACKETS)
}

/// ACKs and their headers may take a quarter of the bytes received and the initial credit of 4 KiB.
/// If there are gaps to report, they use it up. An ACK that was postponed is sent after 25 ms.
#[test]
fn acks_may_take_a_quarter_of_what_came_and_do() {
    for bytes in [40, 43, 100] {
        let mut received = receiver();
        let (spent, packets) = spent(&mut received, bytes);
        let may = packets * (bytes / 4) + 4096;
        let most = LEAST + OVERHEAD;
        assert!(spent <= may + 2 * most, "{spent} of {may}, {bytes}");
        assert!(spent + 2 * most >= may, "{spent} of {may}, {bytes}");
        assert!(received.postponed() > 1000);
        // Packets that aren't ack-eliciting don't postpone any ACK.
        let before = received.postponed();
        for n in 0..50 {
            received.on_packet(at(200), 10_000 + n, false, Ecn::NotEct, 0);
        }
        assert_eq!(received.postponed(), before);
    }
}

/// RFC 9000 Appendix A.3: numbers are expanded using one more than the largest.
#[test]
fn the_newest_packet_is_the_one_after_all_others() {
    let mut received = receiver();
    assert_eq!(received.expected(), 0);
    assert!(received.is_newest(0));
    get(&mut received, at(1), 7, 1200);
    assert_eq!(received.expected(), 8);
    let newest = [6, 7, 8].map(|number| received.is_newest(number));
    assert_eq!(newest, [false, false, true]);
}

/// At least 256 ranges and at most 4096. The room is halved if an eighth would be enough.
#[test]
fn room_for_ranges_is_asked_for_and_given_back() {
    let filled = |limit: usize, held: u64| {
        let mut received = receiver();
        assert_eq!(received.room_for_ranges(), 256);
        assert_eq!(received.set_ranges(limit), (256 * 16, limit * 16));
        for n in 0..held {
            get(&mut received, at(1), 2 * n, 0);
        }
        received.wanted_ranges()
    };
    assert_eq!(filled(256, 0), None);
    assert_eq!(filled(256, 255), None);
    assert_eq!(filled(256, 256), Some(512));
    assert_eq!(filled(2048, 2048), Some(4096));
    assert_eq!(filled(4096, 5000), None);
    assert_eq!(filled(4096, 512), None);
    assert_eq!(filled(4096, 511), Some(2048));
    assert_eq!(filled(512, 0), Some(256));
}

/// ACKs of packets of the usual size aren't postponed. The handshake waits for its
/// acknowledgements, however much they take.
#[test]
fn acks_of_full_packets_and_of_the_handshake_are_never_postponed() {
    for (space, bytes) in [(SpaceId::Data, 1200), (SpaceId::Handshake, 20)] {
        let mut received = Received::new(space, Duration::from_millis(25), None);
        let (spent, packets) = spent(&mut received, bytes);
        assert!(spent >= packets * OVERHEAD, "{space:?}");
        assert_eq!(received.postponed(), 0, "{space:?}");
    }
}
