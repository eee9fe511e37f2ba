//! Counters that survive lost, reordered and forged frames, with a signal that counts packets.

use pathmark_cc::{Feedback, Request, VcpFeedback};
use proptest::prelude::*;

use super::*;
use crate::{Arrived, BadFeedback, Counters, Ecn, Meter, Signal};

#[derive(Debug)]
struct Plain;

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

impl Signal for Plain {
    fn kind(&self) -> u8 {
        200
    }

    fn shim_len(&self) -> usize {
        0
    }

    fn fill(&self, _: &Request, _: &mut [u8]) {}

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(Packets::default())
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: u64,
    ) -> Result<Feedback, BadFeedback> {
        let value = |c: &Counters| c.as_slice().first().copied().ok_or(BadFeedback("empty"));
        let new = value(newer)?;
        let more = new
            .checked_sub(older.map_or(Ok(0), value)?)
            .ok_or(BadFeedback("backwards"))?;
        if new > sent {
            return Err(BadFeedback("more than was sent"));
        }
        let mut vcp = VcpFeedback::default();
        vcp.packets[1] = more;
        Ok(Feedback::Vcp(vcp))
    }
}

fn totals(n: u64) -> Counters {
    let mut counters = Counters::new();
    counters.push(n);
    counters
}

fn packets(feedback: Option<Feedback>) -> Option<u64> {
    feedback.map(|f| match f {
        Feedback::Vcp(vcp) => vcp.packets[1],
        _ => unreachable!("the signal above makes no other"),
    })
}

const ARRIVED: Arrived<'static> = Arrived {
    shim: None,
    ecn: Ecn::NotEct,
    ttl: None,
    bytes: 1200,
};

#[test]
fn newest_frame_wins_and_impossible_ones_are_counted() {
    let mut returned = Returned::new();
    assert_eq!(returned.on_frame(0, 0, &totals(1), &Plain), None);
    assert_eq!(
        (returned.bad(), returned.heard()),
        (1, false),
        "nothing was sent"
    );
    for n in 0..10 {
        returned.on_sent(n);
    }
    assert_eq!(
        packets(returned.on_frame(5, 0, &totals(3), &Plain)),
        Some(3)
    );
    assert_eq!(returned.on_frame(4, 0, &totals(2), &Plain), None, "older");
    assert_eq!(returned.bad(), 1);
    assert_eq!(
        packets(returned.on_frame(6, 0, &totals(7), &Plain)),
        Some(4)
    );
    assert_eq!(returned.on_frame(7, 0, &totals(6), &Plain), None);
    assert_eq!(returned.on_frame(8, 0, &totals(11), &Plain), None);
    assert_eq!(returned.on_frame(8, 0, &Counters::new(), &Plain), None);
    assert_eq!(returned.bad(), 4);
    assert_eq!(
        packets(returned.on_frame(9, 0, &totals(10), &Plain)),
        Some(3)
    );
}

#[test]
fn epochs_follow_the_path_whoever_noticed_the_change() {
    let mut returned = Returned::new();
    for n in 0..10 {
        returned.on_sent(n);
    }
    assert_eq!(
        packets(returned.on_frame(1, 0, &totals(5), &Plain)),
        Some(5)
    );
    // The receiver saw another address (NAT rebinding): its counters start again.
    assert_eq!(
        packets(returned.on_frame(2, 7, &totals(2), &Plain)),
        Some(2)
    );
    assert_eq!(
        returned.on_frame(3, 0, &totals(6), &Plain),
        None,
        "epoch over"
    );
    // The sender moves: what was counted on the old path says nothing any more.
    returned.on_path_change(10);
    assert!(!returned.heard());
    returned.on_sent(10);
    assert_eq!(returned.on_frame(4, 7, &totals(3), &Plain), None);
    assert_eq!(
        returned.on_frame(5, 11, &totals(1), &Plain),
        None,
        "not sent yet"
    );
    assert_eq!(returned.bad(), 1);
    assert_eq!(
        packets(returned.on_frame(6, 10, &totals(1), &Plain)),
        Some(1)
    );
}

#[test]
fn only_news_is_returned() {
    let mut counting = Counting::new(Plain.meter());
    assert!(counting.poll().is_none());
    counting.on_packet(3, &ARRIVED);
    counting.on_packet(2, &ARRIVED);
    let (epoch, counters) = counting.poll().unwrap();
    assert_eq!((epoch, counters), (3, totals(2)));
    counting.on_sent(counters);
    assert!(counting.poll().is_none());
    counting.on_packet(4, &ARRIVED);
    assert_eq!(counting.poll(), Some((3, totals(3))));
}

proptest! {
    /// Whatever frames are lost or reordered, differences add up to the total of the newest that arrived.
    #[test]
    fn lost_frames_lose_nothing(order in prop::collection::vec(0u64..50, 1..60)) {
        let mut returned = Returned::new();
        for n in 0..1000 {
            returned.on_sent(n);
        }
        let mut sum = 0;
        for &number in &order {
            sum += packets(returned.on_frame(number, 0, &totals(number * 7), &Plain)).unwrap_or(0);
        }
        prop_assert_eq!(sum, order.iter().max().unwrap() * 7);
        prop_assert_eq!(returned.bad(), 0);
    }
}
