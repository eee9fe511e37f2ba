//! Counters of the datagrams of a flow.

use core::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Duration;

/// Upper bounds of the classes by which waiting times are counted, milliseconds.
const WAITS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// Counters of a flow's queue, which can be read at any time.
#[derive(Debug, Default)]
pub struct QueueCounters {
    marked: AtomicU64,
    pub(super) dropped: AtomicU64,
    waits: [AtomicU64; WAITS.len() + 1],
    waited_micros: AtomicU64,
    busy_micros: AtomicU64,
}

/// Totals of [`QueueCounters`], for one or several flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Sent datagrams that the queue marked.
    pub marked: u64,
    /// Datagrams that the queue dropped.
    pub dropped: u64,
    /// Sent datagrams by waiting time: one class up to each of [`QueueCounts::BOUNDS`], and one
    /// for longer times.
    pub waits: [u64; WAITS.len() + 1],
    /// Sum of all waiting times.
    pub waited: Duration,
    /// Time during which at least one datagram of a flow waited, summed over flows.
    pub busy: Duration,
}

impl QueueCounts {
    /// Upper bounds of the classes of waiting times, milliseconds.
    pub const BOUNDS: [u64; WAITS.len()] = WAITS;
}

impl AddAssign for QueueCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.marked += other.marked;
        self.dropped += other.dropped;
        self.waited += other.waited;
        self.busy += other.busy;
        for (sum, more) in self.waits.iter_mut().zip(other.waits) {
            *sum += more;
        }
    }
}

impl QueueCounters {
    /// Returns the totals so far.
    pub fn counts(&self) -> QueueCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waits = self.waits.each_ref().map(of);
        QueueCounts {
            sent: waits.iter().sum(),
            marked: of(&self.marked),
            dropped: of(&self.dropped),
            waits,
            waited: Duration::from_micros(of(&self.waited_micros)),
            busy: Duration::from_micros(of(&self.busy_micros)),
        }
    }

    /// Records that a datagram was sent. `busy` is the part of its waiting time after the
    /// previous one was sent.
    pub(super) fn on_sent(&self, (waited, busy): (Duration, Duration), is_marked: bool) {
        if is_marked {
            add(&self.marked, 1);
        }
        let above = |bound: &u64| waited > Duration::from_millis(*bound);
        if let Some(waits) = self.waits.get(WAITS.partition_point(above)) {
            add(waits, 1);
        }
        for (counter, time) in [(&self.waited_micros, waited), (&self.busy_micros, busy)] {
            add(counter, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        }
    }
}

pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up() {
        let counters = QueueCounters::default();
        let ms = Duration::from_millis;
        counters.on_sent((ms(7), ms(7)), true);
        counters.on_sent((ms(1_000), ms(995)), false);
        add(&counters.dropped, 3);
        let mut totals = QueueCounts::default();
        for _ in 0..2 {
            totals += counters.counts();
        }
        let QueueCounts {
            sent,
            marked,
            dropped,
            waits,
            waited,
            busy,
        } = totals;
        assert_eq!((sent, marked, dropped), (4, 2, 6));
        assert_eq!(waits, [0, 0, 0, 2, 0, 0, 0, 0, 0, 2]);
        assert_eq!((waited, busy), (ms(2_014), ms(2_004)));
    }
}
