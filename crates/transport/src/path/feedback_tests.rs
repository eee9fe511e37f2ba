//! Counters that survive lost, reordered and forged frames, with a signal that counts packets.

use pathmark_cc::{Countable, Feedback, Request, VcpFeedback};
use proptest::prelude::*;

use super::*;
use crate::{Arrived, BadFeedback, Breach, Counters, Ecn, Instant, Meter, Signal};

/// Counts packets. It may ask once.
#[derive(Debug)]
struct Counted {
    asks: bool,
}

const PLAIN: Counted = Counted { asks: false };
const ASKING: Counted = Counted { asks: true };

#[derive(Debug, Default)]
struct Packets(u64);

impl Meter for Packets {
    fn on_packet(&mut self, _: &Arrived<'_>) {
        self.0 += 1;
    }

    fn counters(&self) -> Option<Counters> {
        (self.0 > 0).then(|| totals(self.0))
    }
}

impl Signal for Counted {
    fn kind(&self) -> u8 {
        200
    }

    fn shim_len(&self) -> usize {
        if self.asks { 16 } else { 0 }
    }

    fn asks_once(&self) -> bool {
        self.asks
    }

    fn fill(&self, _: &Request, _: &mut [u8]) {}

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(Packets::default())
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let bad = |breach| BadFeedback {
            breach,
            message: "cannot be",
        };
        let value = |c: &Counters| c.as_slice().first().copied().ok_or(bad(Breach::Form));
        let new = value(newer)?;
        let more = new.checked_sub(older.map_or(Ok(0), value)?);
        let more = more.ok_or(bad(Breach::Backwards))?;
        if new > sent.packets {
            return Err(bad(Breach::Packets));
        }
        assert!(sent.bytes <= sent.packets * sent.longest);
        let mut vcp = VcpFeedback::default();
        vcp.packets[1] = more;
        vcp.bytes[1] = more * SIZE;
        Ok(Feedback::Vcp(vcp))
    }
}

fn totals(n: u64) -> Counters {
    crate::connection::tests::signal::counters([n])
}

fn packets(feedback: Option<Feedback>) -> Option<u64> {
    feedback.map(|f| match f {
        Feedback::Vcp(vcp) => vcp.packets[1],
        _ => unreachable!("the signal above makes no other"),
    })
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
    let wrong = returned.disbelieved();
    assert_eq!((wrong.backwards, wrong.packets, wrong.form), (1, 1, 1));
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

/// A peer could claim 1,000,000 LOW codes for 1000 sent packets by changing the epoch in each
/// frame.
#[test]
fn an_epoch_in_each_frame_counts_no_packet_twice() {
    let mut returned = Returned::new();
    (0..1000).for_each(|n| returned.on_sent(n, SIZE));
    let mut counted = 0;
    for epoch in 0..1000 {
        returned.on_challenge();
        for claim in [1000, 1000 - epoch, 1] {
            counted += claimed(&mut returned, 2 * epoch + 1, epoch, claim).unwrap_or(0);
        }
    }
    assert_eq!(counted, 1000);
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

    /// Whatever a peer reports, and in any order, each packet counts at most once, and only in an
    /// epoch in which it was sent.
    #[test]
    fn no_packet_counts_twice(words in prop::collection::vec(sender_event(), 1..300)) {
        let mut returned = Returned::new();
        let (mut next, mut sent, mut accepted) = (0, 0, 0);
        for (number, word) in words.into_iter().enumerate() {
            match word {
                SenderEvent::Sent(numbers) => {
                    // Not every packet carries the signal.
                    next += numbers;
                    returned.on_sent(next, SIZE);
                    next += 1;
                    sent += 1;
                }
                SenderEvent::Moved => {
                    returned.on_path_change(next);
                    (sent, accepted) = (0, 0);
                }
                SenderEvent::Challenged => returned.on_challenge(),
                SenderEvent::Claimed(back, claim, late) => {
                    let epoch = next.saturating_sub(back);
                    let number = (number as u64).saturating_sub(late);
                    if let Some(more) = claimed(&mut returned, number, epoch, claim) {
                        accepted += more;
                        prop_assert!(claim <= back);
                    }
                }
            }
            prop_assert!(accepted <= sent, "{} of {}", accepted, sent);
        }
    }
}

/// Events at a sender.
#[derive(Clone, Copy, Debug)]
enum SenderEvent {
    /// A packet with the signal, after this many without.
    Sent(u64),
    Moved,
    Challenged,
    /// A frame: the distance of its epoch from the next packet, the number of packets that it
    /// claims, and the number of steps by which it is late.
    Claimed(u64, u64, u64),
}

fn sender_event() -> impl Strategy<Value = SenderEvent> {
    prop_oneof![
        8 => (0..3u64).prop_map(SenderEvent::Sent),
        1 => Just(SenderEvent::Moved),
        1 => Just(SenderEvent::Challenged),
        8 => (0..20u64, 0..30u64, 0..2u64).prop_map(|(e, n, l)| SenderEvent::Claimed(e, n, l)),
    ]
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
