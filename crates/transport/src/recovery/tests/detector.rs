//! A single packet number space: its counts, the ends of loss runs and loss events, and the
//! state that it forgets.

use super::*;
use crate::Ecn;

/// A space whose path has a round trip of 100 ms, measured at 100 ms. Its time threshold is
/// 112.5 ms, and three probe timeouts are 975 ms with a peer's delay of 25 ms.
struct Space {
    detector: LossDetector<()>,
    rtt: RttEstimator,
    next: u64,
    lost: Vec<u64>,
}

impl Space {
    fn new() -> Self {
        let mut rtt = RttEstimator::new();
        rtt.update(at(100), ms(100), Duration::ZERO);
        Self {
            detector: LossDetector::new(),
            rtt,
            next: 0,
            lost: Vec::new(),
        }
    }

    fn send(&mut self, now: u64) -> u64 {
        self.send_as(packet(at(now), 1200, ()))
    }

    fn send_many(&mut self, count: u32, now: u64) {
        for _ in 0..count {
            self.send(now);
        }
    }

    fn send_as(&mut self, sent: SentPacket<()>) -> u64 {
        let number = self.next;
        self.next += 1;
        assert!(self.detector.on_sent(number, sent));
        number
    }

    fn ack(&mut self, now: u64, ranges: &[(u64, u64)]) -> (Newly, NewlyLost) {
        let ranges = ranges.iter().map(|&(first, last)| first..=last);
        let newly = self.detector.on_ack(ranges, |_, _| {}).unwrap();
        (newly, self.detect(now))
    }

    fn detect(&mut self, now: u64) -> NewlyLost {
        let lost = &mut self.lost;
        self.detector
            .detect(at(now), &self.rtt, ms(25), |number, _| lost.push(number))
    }
}

#[test]
fn the_probe_timer_counts_from_what_asked_for_an_ack_and_was_recorded() {
    let mut space = Space::new();
    space.next = 4;
    space.send(200);
    space.send_as(bare(210));
    assert_eq!(space.detector.last_ack_eliciting(), Some(at(200)));
    assert!(!space.detector.on_sent(3, packet(at(220), 1200, ())));
    assert_eq!(space.detector.last_ack_eliciting(), Some(at(200)));
}

#[test]
fn an_ack_advances_only_if_its_largest_number_is_new() {
    // [9000 13.4.2.1 older-acks]
    let mut space = Space::new();
    space.send_many(4, 200);
    assert!(space.ack(300, &[(0, 0)]).0.advanced);
    assert!(space.ack(300, &[(0, 1)]).0.advanced);
    assert!(!space.ack(300, &[(0, 1)]).0.advanced);
    assert!(!space.ack(300, &[(0, 0)]).0.advanced);
    assert_eq!(space.detector.largest_acked(), Some(1));
    assert!(space.ack(300, &[(3, 3)]).0.advanced);
    assert_eq!(space.detector.largest_acked(), Some(3));
}

/// A frame of thousands of ranges costs no more than the ranges that can still matter.
#[test]
fn ranges_are_read_as_far_down_as_something_is_unresolved() {
    let mut space = Space::new();
    space.send_many(4000, 200);
    // All packets are resolved, but the loss of 3001 may have been spurious.
    space.ack(300, &[(3002, 3999), (0, 3000)]);
    let mut read = 0;
    let ranges = (0..1000u64).map(|n| {
        read += 1;
        let last = 3999 - 4 * n;
        last - 2..=last
    });
    space.detector.on_ack(ranges, |_, _| {}).unwrap();
    assert!(read < 260, "{read}");
}

/// Packets and questions are pending at the same time, and the largest one in an ACK may be
/// either.
#[test]
fn the_largest_packet_of_an_ack_may_be_a_question() {
    for question in [1, 2] {
        let mut space = Space::new();
        for n in 0..6 {
            let mut sent = packet(at(200 + n), 1200, ());
            if n == question {
                sent.probe = Probe::Question;
            }
            space.send_as(sent);
        }
        let (_, lost) = space.ack(302, &[(3, 3), (0, 0)]);
        assert_eq!(lost.packets, 0);
        let (newly, _) = space.ack(303, &[(0, 3)]);
        assert_eq!(newly.counted, 2);
        let largest = newly.largest.map(|(number, sent_at, _)| (number, sent_at));
        assert_eq!(largest, Some((2, at(202))));
    }
}

#[test]
fn what_congestion_control_counts_of_an_ack() {
    let mut space = Space::new();
    let marked = |now, ecn| SentPacket {
        ecn,
        ..packet(at(now), 1200, ())
    };
    space.send_as(marked(200, Ecn::Ect0));
    space.send_as(marked(200, Ecn::Ect1));
    space.send_as(bare(200));
    let (newly, _) = space.ack(300, &[(0, 2)]);
    assert_eq!((newly.packets, newly.counted, newly.bytes), (3, 2, 2400));
    assert_eq!((newly.ect0, newly.ect1), (1, 1));
    // Packets of a path that was left don't count.
    space.send_as(marked(310, Ecn::Ect0));
    let other = PathNumber::default().next();
    space.detector.change_path(other, false);
    let (newly, _) = space.ack(400, &[(0, 3)]);
    assert_eq!((newly.packets, newly.counted, newly.ect0), (1, 0, 0));
    assert!(newly.ack_eliciting && newly.largest.is_none());
}

#[test]
fn what_congestion_control_counts_of_losses() {
    let mut space = Space::new();
    space.send_many(3, 200);
    space.send(201);
    space.send_many(2, 202);
    // It is ack-eliciting, but doesn't use the window.
    let mut unbounded = packet(at(202), 1200, ());
    unbounded.in_flight = false;
    space.send_as(unbounded);
    space.send_many(3, 203);
    let (_, lost) = space.ack(303, &[(8, 9), (3, 3)]);
    assert_eq!(space.lost, [0, 1, 2, 4, 5, 6]);
    assert_eq!((lost.packets, lost.counted, lost.bytes), (6, 5, 6000));
    assert_eq!(lost.ranges, 2);
    assert_eq!(lost.largest.map(|(number, ..)| number), Some(5));
}

#[test]
fn an_ack_without_acknowledgement_holds_no_timer() {
    let mut space = Space::new();
    space.send_as(bare(200));
    space.send(200);
    space.ack(300, &[(1, 1)]);
    assert_eq!(space.detector.sent().iter().count(), 0);
    assert_eq!(space.detector.loss_time(), None);
}

/// Five packets 300 ms apart and a sixth, which is acknowledged: four are lost immediately,
/// over 900 ms, and the fifth at 2313 ms, which makes 1200.
fn long_run() -> Space {
    let mut space = Space::new();
    for n in 0..5 {
        space.send(1000 + 300 * n);
    }
    space.send(2210);
    let (_, lost) = space.ack(2310, &[(5, 5)]);
    assert_eq!(space.lost, [0, 1, 2, 3]);
    assert!(!lost.persistent_congestion);
    space
}

#[test]
fn a_run_of_losses_ends_with_a_loss_that_was_none() {
    assert!(long_run().detect(2313).persistent_congestion);
    let mut space = long_run();
    let (newly, _) = space.ack(2311, &[(5, 5), (2, 2)]);
    assert_eq!(newly.spurious, 1);
    let lost = space.detect(2313);
    assert_eq!((lost.packets, lost.persistent_congestion), (1, false));
}

/// A packet that only contains padding is in flight, but the receiver need not acknowledge it
/// in time, so no run of losses begins with it.
#[test]
fn a_run_of_losses_begins_with_what_asked_for_an_ack() {
    // [9002 7.6.2 eliciting-ends]
    for (ack_eliciting, established) in [(true, true), (false, false)] {
        let mut space = Space::new();
        let mut first = packet(at(1000), 1200, ());
        first.ack_eliciting = ack_eliciting;
        space.send_as(first);
        space.send(2000);
        space.send_many(3, 2010);
        let (_, lost) = space.ack(2110, &[(4, 4)]);
        assert_eq!(space.lost, [0, 1]);
        assert_eq!(lost.persistent_congestion, established);
    }
}

/// An ACK that leaves no hole says nothing about earlier holes.
#[test]
fn a_run_of_losses_does_not_end_with_an_ack_above_it() {
    let mut space = long_run();
    space.send(2211);
    space.ack(2311, &[(5, 6)]);
    assert!(space.detect(2313).persistent_congestion);
}

#[test]
fn a_loss_event_reaches_to_what_was_sent_by_then() {
    let mut space = Space::new();
    space.send_many(4, 200);
    space.ack(300, &[(3, 3)]);
    assert_eq!(space.lost, [0]);
    // 4 was sent after the event began, so its loss is a separate event.
    space.send_many(4, 301);
    space.ack(401, &[(7, 7), (1, 3)]);
    assert_eq!(space.lost, [0, 4]);
    let (newly, _) = space.ack(402, &[(7, 7), (1, 4)]);
    assert_eq!((newly.spurious, newly.event_undone), (1, true));
}

#[test]
fn sixteen_loss_events_in_a_row_narrow_the_thresholds() {
    let mut space = Space::new();
    space.send_many(8, 200);
    space.ack(300, &[(7, 7)]);
    // 0 was overtaken by seven packets, so the threshold is eight.
    space.ack(301, &[(0, 0)]);
    assert_eq!(space.detector.reordering().packets(), 8);
    for event in 1..=16 {
        assert_eq!(space.detector.reordering().packets(), 8, "{event}");
        let now = 1000 * event;
        let first = space.send(now);
        space.send_many(8, now);
        space.ack(now + 100, &[(first + 1, first + 8)]);
        assert_eq!(space.lost.last(), Some(&first));
    }
    assert_eq!(space.detector.reordering().packets(), 4);
}

#[test]
fn a_late_packet_widens_the_time_threshold_once_per_round_trip() {
    let mut space = Space::new();
    let threshold = |space: &Space| space.detector.reordering().time(&space.rtt);
    // Each is overtaken by one packet, lost by time, and acknowledged later.
    let mut late = |now: u64| {
        let number = space.send(now);
        space.send(now);
        space.ack(now + 100, &[(number + 1, number + 1)]);
        space.detect(now + 250);
        assert_eq!(space.lost.last(), Some(&number));
        let (newly, _) = space.ack(now + 251, &[(number, number + 1)]);
        assert_eq!(newly.spurious, 1);
        threshold(&space)
    };
    assert_eq!(late(1000), Duration::from_micros(125_000));
    // All were sent after the threshold grew.
    assert_eq!(late(2000), Duration::from_micros(137_500));
    assert_eq!(late(3000), Duration::from_micros(150_000));
}

/// Remembered losses are discarded with the path, and with the keys.
#[test]
fn what_is_forgotten() {
    // [9002 6.2.2 discarded-keys-reset]
    let with_losses = || {
        let mut space = Space::new();
        space.send_many(8, 200);
        space.ack(300, &[(7, 7)]);
        space.ack(301, &[(7, 7), (0, 0)]);
        assert_eq!(space.detector.remembered(), 4);
        assert_eq!(space.detector.reordering().packets(), 8);
        assert!(space.detector.loss_time().is_some());
        space
    };
    let mut left = with_losses();
    let other = PathNumber::default().next();
    left.detector.change_path(other, false);
    assert_eq!(left.detector.remembered(), 0);
    assert_eq!(left.detector.reordering().packets(), 3);
    let mut drained = with_losses();
    let mut open = Vec::new();
    drained.detector.drain(|number, _| open.push(number));
    assert_eq!(open, [5, 6]);
    assert_eq!(drained.detector.remembered(), 0);
    assert_eq!(drained.detector.loss_time(), None);
    assert_eq!(drained.detector.last_ack_eliciting(), None);
    assert_eq!(drained.detect(5000).packets, 0);
}
