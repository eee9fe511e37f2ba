//! Counters that survive lost, reordered and forged frames.

use pathmark_cc::Feedback;
use proptest::prelude::*;

use super::*;
use crate::connection::tests::questions::Question;
use crate::connection::tests::signal::TestSignal;
use crate::{Arrived, Counters, Ecn, Instant};

const PLAIN: TestSignal = TestSignal::shim(200);
/// It asks once.
const ASKING: Question = Question(PLAIN);

/// The counters of packets without a code.
fn totals(packets: u64) -> Counters {
    let mut counters = Counters::new();
    for value in [packets, 0, 0, 0, packets * SIZE, 0, 0, 0, 0] {
        counters.push(value);
    }
    counters
}

fn packets(feedback: Option<Feedback>) -> Option<u64> {
    feedback.map(|feedback| feedback.counted().0)
}

/// Returns the packets that a frame adds, which claims so many in its epoch.
fn claimed(returned: &mut Returned, number: u64, epoch: u64, claim: u64) -> Option<u64> {
    packets(returned.on_frame(number, epoch, &totals(claim), &PLAIN))
}

/// Size of each packet, in bytes.
const SIZE: u64 = 1200;

const fn arrived(number: u64) -> Arrived<'static> {
    Arrived {
        shim: None,
        ecn: Ecn::NotEct,
        ttl: None,
        bytes: SIZE,
        now: Instant::ZERO,
        number,
    }
}

#[test]
fn newest_frame_wins_and_impossible_ones_are_counted() {
    let mut returned = Returned::new();
    assert_eq!(claimed(&mut returned, 0, 0, 1), None);
    // Nothing was sent.
    assert_eq!(returned.disbelieved().unsent_epochs, 1);
    assert!(!returned.has_feedback());
    (0..10).for_each(|n| returned.on_sent(n, SIZE));
    assert_eq!(claimed(&mut returned, 5, 0, 3), Some(3));
    assert_eq!(claimed(&mut returned, 4, 0, 2), None, "older");
    assert_eq!(returned.disbelieved().total(), 1);
    assert_eq!(claimed(&mut returned, 6, 0, 7), Some(4));
    assert_eq!(claimed(&mut returned, 7, 0, 6), None);
    assert_eq!(claimed(&mut returned, 8, 0, 11), None);
    assert_eq!(returned.on_frame(8, 0, &Counters::new(), &PLAIN), None);
    let disbelieved = returned.disbelieved();
    assert_eq!(disbelieved.backwards, 1);
    assert_eq!(disbelieved.packets, 1);
    assert_eq!(disbelieved.form, 1);
    assert_eq!(claimed(&mut returned, 9, 0, 10), Some(3));
}

#[test]
fn an_epoch_begins_once_for_each_change_of_ours() {
    let mut returned = Returned::new();
    (0..10).for_each(|n| returned.on_sent(n, SIZE));
    assert_eq!(claimed(&mut returned, 1, 0, 5), Some(5));
    // Nothing has changed here.
    assert_eq!(claimed(&mut returned, 2, 7, 2), None);
    assert_eq!(returned.disbelieved().uncalled_epochs, 1);
    assert_eq!(claimed(&mut returned, 3, 0, 6), Some(1));
    // A challenge is answered with a new epoch, in which older packets don't count again.
    returned.on_challenge();
    assert_eq!(claimed(&mut returned, 4, 7, 4), None);
    assert_eq!(claimed(&mut returned, 5, 7, 3), Some(3));
    assert_eq!(claimed(&mut returned, 6, 0, 7), None, "over");
    assert_eq!(claimed(&mut returned, 7, 8, 1), None);
    assert_eq!(returned.disbelieved().uncalled_epochs, 2);
    // The sender moves, so the counts of the old path are void.
    returned.on_path_change(10);
    assert!(!returned.has_feedback());
    returned.on_sent(10, SIZE);
    assert_eq!(claimed(&mut returned, 8, 7, 3), None);
    assert_eq!(claimed(&mut returned, 9, 11, 1), None, "not sent yet");
    assert_eq!(returned.disbelieved().unsent_epochs, 1);
    assert_eq!(claimed(&mut returned, 10, 10, 1), Some(1));
}

#[test]
fn only_news_is_returned() {
    let mut counting = Counting::new(&PLAIN);
    assert!(counting.poll().is_none());
    counting.on_packet(&arrived(3));
    counting.on_packet(&arrived(4));
    let (epoch, counters) = counting.poll().unwrap();
    assert_eq!((epoch, counters), (3, totals(2)));
    counting.on_sent(counters);
    assert!(counting.poll().is_none());
    // A packet from before the epoch arrives late.
    counting.on_packet(&arrived(2));
    assert!(counting.poll().is_none());
    counting.on_packet(&arrived(5));
    assert_eq!(counting.poll(), Some((3, totals(3))));
}

/// An answer fits into one frame. Some of the repetitions get through, and count once.
#[test]
fn an_answer_goes_back_several_times_and_counts_once() {
    let mut counting = Counting::new(&ASKING);
    let mut returned = Returned::new();
    returned.on_sent(3, SIZE);
    counting.on_packet(&arrived(3));
    let mut frames = 0;
    let mut counted = 0;
    for number in 0..10 {
        let Some((epoch, counters)) = counting.poll() else {
            break;
        };
        counting.on_sent(counters);
        frames += 1;
        // The first one is lost.
        if number > 0 {
            counted += packets(returned.on_frame(number, epoch, &counters, &ASKING)).unwrap_or(0);
        }
    }
    assert_eq!((frames, counted), (4, 1));
    assert_eq!(returned.disbelieved().total(), 0);
    // The next question is answered equally often.
    counting.on_packet(&arrived(4));
    for _ in 0..4 {
        let (_, counters) = counting.poll().unwrap();
        assert_eq!(counters, totals(2));
        counting.on_sent(counters);
    }
    assert!(counting.poll().is_none());
}

proptest! {
    /// Whichever frames are lost or reordered, the differences add up to the total of the newest
    /// one that arrived.
    #[test]
    fn lost_frames_lose_nothing(order in prop::collection::vec(0u64..50, 1..60)) {
        let mut returned = Returned::new();
        for n in 0..1000 {
            returned.on_sent(n, SIZE);
        }
        let mut sum = 0;
        for &number in &order {
            sum += claimed(&mut returned, number, 0, number * 7).unwrap_or(0);
        }
        prop_assert_eq!(sum, order.iter().max().unwrap() * 7);
        prop_assert_eq!(returned.disbelieved().total(), 0);
    }
}

/// Each kind of rejected frame counts once in the sum, and the sums of several signals are added.
#[test]
fn disbelieved_frames_of_all_kinds_add_up() {
    let all = Disbelieved {
        form: 1,
        backwards: 2,
        packets: 4,
        sums: 8,
        unsent_epochs: 16,
        uncalled_epochs: 32,
    };
    let none = Disbelieved::default();
    assert_eq!((none.total(), all.total()), (0, 63));
    assert_eq!((all.plus(&none), none.plus(&all)), (all, all));
    assert_eq!(all.plus(&all).total(), 126);
}

#[test]
fn what_was_not_believed_stays_counted_on_another_path() {
    let mut returned = Returned::new();
    returned.on_sent(0, SIZE);
    assert!(claimed(&mut returned, 1, 0, 2).is_none());
    let before = *returned.disbelieved();
    assert_eq!((before.packets, before.total()), (1, 1));
    returned.on_path_change(1);
    assert_eq!(*returned.disbelieved(), before);
    // From here on, frames count again.
    returned.on_sent(1, SIZE);
    assert!(!returned.has_feedback());
    assert!(claimed(&mut returned, 2, 1, 1).is_some());
    assert!(returned.has_feedback());
}
