//! Questions for a starting rate are lost only by time, and have no effect on other packets.

use proptest::prelude::*;

use super::sender::Sender;
use super::*;

/// Sends a question at 200 ms and then `count` packets, with or without shims. Returns the
/// question's number.
fn asking(count: u64, shims: bool) -> (Sender, u64) {
    let mut s = Sender::settled();
    let question = s.ask(200);
    for _ in 0..count {
        match shims {
            true => s.send_shim(200, true),
            false => s.send(200, SpaceId::Data),
        };
    }
    s.out.clear();
    (s, question)
}

#[test]
fn what_overtakes_a_question_does_not_condemn_it() {
    for (count, shims) in [(3, true), (10, true), (3, false), (10, false), (40, false)] {
        let (mut s, question) = asking(count, shims);
        s.ack(300, SpaceId::Data, &[(question + 1, question + count)]);
        assert!(s.lost().is_empty(), "{count} {shims}");
        // It arrives after all, a quarter of a round trip late.
        let outcome = s.ack(325, SpaceId::Data, &[(question, question + count)]);
        assert_eq!(outcome.newly.packets, 1);
        assert_eq!((s.lost(), s.recovery.deadline()), (vec![], None));
        assert_eq!(s.recovery.bytes_in_flight(), 0);
    }
}

#[test]
fn a_lost_question_is_found_by_time_and_reported_apart() {
    let (mut s, question) = asking(10, true);
    s.ack(300, SpaceId::Data, &[(question + 1, question + 10)]);
    // One and a half round trips.
    assert_eq!(s.recovery.deadline(), Some(at(350)));
    assert!(matches!(s.fire(349), Timeout::None));
    let Timeout::Lost(loss) = s.fire(350) else {
        panic!("nothing is lost")
    };
    assert_eq!((loss.packets, loss.question), (1, Some(question)));
    assert!(loss.lost.is_none() && !loss.persistent_congestion);
    assert_eq!(s.lost(), [question]);
    assert_eq!(s.recovery.bytes_in_flight(), 0);
    // The peer acknowledges it a second later, which has no effect.
    let late = s.ack(1300, SpaceId::Data, &[(question, question + 10)]);
    assert_eq!((late.newly.packets, late.newly.spurious), (0, 0));
    assert!(!late.newly.event_undone);
}

#[test]
fn losses_around_a_question_are_found_at_once() {
    let mut s = Sender::settled();
    for _ in 0..2 {
        s.send_shim(200, true);
    }
    let question = s.ask(200);
    for _ in 0..6 {
        s.send_shim(200, true);
    }
    s.out.clear();
    // The packets on both sides of the question are lost, and the question itself is overtaken.
    let outcome = s.ack(300, SpaceId::Data, &[(question + 4, question + 4)]);
    let around = [question - 2, question - 1, question + 1];
    assert_eq!(s.lost(), around);
    let lost = outcome.loss.lost.unwrap();
    assert_eq!((lost.packets, lost.largest), (3, question + 1));
    assert_eq!((lost.bytes, outcome.loss.question), (3600, None));
    // The others after it are lost at 9/8 of a round trip, and the question later.
    let due = Instant::from_micros(312_500);
    assert_eq!(s.recovery.deadline(), Some(due));
    assert!(matches!(s.fire(313), Timeout::Lost(l) if l.packets == 2));
    assert_eq!(s.recovery.deadline(), Some(at(350)));
}

#[test]
fn a_question_that_overtakes_condemns_nothing() {
    for shims in [true, false] {
        let mut s = Sender::settled();
        let first = s.send_shim(200, true);
        for _ in 0..9 {
            match shims {
                true => s.send_shim(200, true),
                false => s.send(200, SpaceId::Data),
            };
        }
        let question = s.ask(200);
        s.out.clear();
        s.ack(300, SpaceId::Data, &[(question, question)]);
        assert!(s.lost().is_empty(), "{shims}");
        // They only wait for a probe timeout after the last packet.
        let probe = s.recovery.deadline();
        assert!(probe > Some(at(400)), "{probe:?}");
        s.ack(310, SpaceId::Data, &[(first, question)]);
        assert_eq!((s.lost(), s.recovery.deadline()), (vec![], None));
    }
}

#[test]
fn each_of_two_questions_has_its_own_time() {
    let mut s = Sender::settled();
    let first = s.ask(200);
    s.send_shim(200, true);
    let second = s.ask(260);
    s.send_shim(260, true);
    s.out.clear();
    s.ack(300, SpaceId::Data, &[(first + 1, first + 1)]);
    let ranges = [(second + 1, second + 1), (first + 1, first + 1)];
    s.ack(345, SpaceId::Data, &ranges);
    // The round trip of 85 ms doesn't affect the first: 1.5 of the smoothed 100 ms.
    let due = s.recovery.deadline().unwrap();
    assert!(due > at(345) && due <= at(350), "{due:?}");
    assert!(matches!(s.fire(350), Timeout::Lost(l) if l.question == Some(first)));
    assert_eq!(s.lost(), [first]);
    let due = s.recovery.deadline().unwrap();
    assert!(due > at(400) && due <= at(410), "{due:?}");
    s.ack(360, SpaceId::Data, &[(second, second + 1)]);
    assert_eq!((s.lost(), s.recovery.deadline()), (vec![first], None));
    // If two are found together, the later one is reported.
    let (mut s, first) = asking(1, true);
    let second = s.ask(201);
    s.send_shim(201, true);
    let ranges = [(second + 1, second + 1), (first + 1, first + 1)];
    s.ack(300, SpaceId::Data, &ranges);
    assert!(matches!(s.fire(360), Timeout::Lost(l) if l.question == Some(second)));
}

#[test]
fn a_question_alone_is_probed_for_and_not_lost() {
    let (mut s, question) = asking(0, true);
    let probe = s.recovery.deadline().unwrap();
    assert_eq!(probe, at(200 + 325), "as of any other packet");
    assert!(matches!(s.fire(525), Timeout::Probe(SpaceId::Data)));
    assert!(s.lost().is_empty());
    // The probe's acknowledgement reveals the loss.
    let number = s.send_shim(525, true);
    let outcome = s.ack(625, SpaceId::Data, &[(number, number)]);
    assert_eq!(outcome.loss.question, Some(question));
}

#[test]
fn losses_around_an_acknowledged_question_are_no_persistent_congestion() {
    for asks in [false, true] {
        let mut s = Sender::settled();
        for n in 0..20 {
            match asks && n == 10 {
                true => s.ask(1000 + 60 * n),
                false => s.send(1000 + 60 * n, SpaceId::Data),
            };
        }
        let last = s.send(2200, SpaceId::Data);
        let ranges = [(last, last), (11, 11)];
        let ranges = if asks { &ranges[..] } else { &ranges[..1] };
        let outcome = s.ack(2300, SpaceId::Data, ranges);
        assert_eq!(outcome.loss.persistent_congestion, !asks);
    }
}

/// Two detectors for the same packets, one of which has also sent questions.
#[derive(Default)]
struct Twins {
    with: LossDetector<u64>,
    without: LossDetector<u64>,
    questions: BTreeSet<u64>,
    next: u64,
}

impl Twins {
    fn send(&mut self, now: Instant, question: bool, shim: bool) {
        let number = self.next;
        self.next += 1;
        let mut sent = packet(now, 1000, number);
        sent.shim = shim || question;
        if question {
            self.questions.insert(number);
            sent.probe = Probe::Question;
        } else {
            assert!(self.without.on_sent(number, sent));
        }
        assert!(self.with.on_sent(number, sent));
    }
}

/// One step: packets to send (a question, a shim), or an acknowledgement from `back` below the
/// newest downwards, and the time since the previous step.
type Step = (Result<Vec<(bool, bool)>, (u8, Vec<bool>)>, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packets = (prop::bool::weighted(0.15), prop::bool::weighted(0.6));
    let send = prop::collection::vec(packets, 1..20).prop_map(Ok);
    let bits = prop::collection::vec(prop::bool::weighted(0.6), 1..60);
    let ack = (0u8..30, bits).prop_map(Err);
    prop::collection::vec((prop_oneof![send, ack], 0u32..60_000), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The fates of questions don't affect those of other packets.
    #[test]
    fn other_packets_fare_as_if_nothing_had_been_asked(steps in steps()) {
        let mut twins = Twins::default();
        let mut rtt = RttEstimator::new();
        rtt.update(at(1), ms(50), Duration::ZERO);
        let mut now = at(1);
        for (step, wait) in steps {
            now += Duration::from_micros(u64::from(wait));
            match step {
                Ok(packets) => for (question, shim) in packets {
                    twins.send(now, question, shim);
                },
                Err((back, bits)) => {
                    let Some(top) = twins.next.checked_sub(1 + u64::from(back)) else { continue };
                    let bits = (0..=top).rev().zip(&bits);
                    let all = bits.filter(|(_, bit)| **bit).map(|(n, _)| n);
                    let all: BTreeSet<u64> = all.collect();
                    let others: BTreeSet<u64> = &all - &twins.questions;
                    let sink = |n, p: SentPacket<u64>| assert_eq!(n, p.frames);
                    twins.with.on_ack(ranges(&all), sink).unwrap();
                    twins.without.on_ack(ranges(&others), sink).unwrap();
                }
            }
            let (mut with, mut without) = (Vec::new(), Vec::new());
            let found = twins.with.detect(now, &rtt, ms(25), |n, p| with.push((n, p.probe)));
            let expected = twins.without.detect(now, &rtt, ms(25), |n, _| without.push(n));
            let questions = with.iter().filter(|(_, probe)| *probe == Probe::Question).count();
            let others = with.iter().filter(|(_, probe)| *probe == Probe::Nothing);
            prop_assert_eq!(others.map(|(n, _)| *n).collect::<Vec<_>>(), without);
            prop_assert_eq!(found.packets, expected.packets + questions as u64);
            prop_assert_eq!((found.counted, found.bytes), (expected.counted, expected.bytes));
            prop_assert_eq!(found.largest, expected.largest);
            prop_assert_eq!(found.question.is_some(), questions > 0);
            prop_assert!(!found.persistent_congestion || expected.persistent_congestion);
            // Its deadline may be earlier than theirs and a probe's.
            let due = (twins.with.loss_time(), twins.without.loss_time());
            prop_assert!(due.0 == due.1 || due.0.is_some_and(|d| due.1.is_none_or(|w| d < w)));
            let (with, without) = (twins.with.reordering(), twins.without.reordering());
            prop_assert_eq!(with.packets(), without.packets());
            prop_assert_eq!(with.time(&rtt), without.time(&rtt));
        }
    }
}
