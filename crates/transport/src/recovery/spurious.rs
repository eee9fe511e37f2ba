//! Remembers recent losses to detect spurious losses.

use core::ops::RangeInclusive;

use super::{
    holes::{Holes, Sweep},
    reordering::Cause,
};
use crate::{Duration, Instant};

/// Maximum number of losses; beyond this limit, the oldest are forgotten.
const MAX_REMEMBERED: usize = 1 << 15;

#[derive(Clone, Copy, Debug)]
struct Remembered {
    declared_at: Instant,
    event: u32,
    cause: Cause,
}

/// The losses of one round trip, to which a controller responds once.
#[derive(Clone, Copy, Debug)]
struct Event {
    id: u32,
    /// Newest packet when the event began. Losses up to this number belong to it.
    until: u64,
    lost: u64,
    recovered: u64,
}

#[derive(Debug)]
pub(super) struct Losses {
    holes: Holes<Remembered>,
    event: Option<Event>,
    next_event: u32,
}

impl Losses {
    pub(super) const fn new() -> Self {
        Self {
            holes: Holes::new(),
            event: None,
            next_event: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.holes.len()
    }

    pub(super) fn sweep(&self) -> Sweep {
        self.holes.sweep()
    }

    /// Remembers the loss of `number`, which must be larger than all previous numbers. Returns
    /// true if it begins a loss event.
    pub(super) fn push(&mut self, now: Instant, number: u64, cause: Cause, last_sent: u64) -> bool {
        let current = self.event.filter(|e| number <= e.until);
        let begins = current.is_none();
        let mut event = current.unwrap_or_else(|| {
            self.next_event = self.next_event.wrapping_add(1);
            Event {
                id: self.next_event,
                until: last_sent,
                lost: 0,
                recovered: 0,
            }
        });
        event.lost += 1;
        self.event = Some(event);
        if self.holes.len() == MAX_REMEMBERED {
            self.holes.pop();
        }
        self.holes.push(
            number,
            Remembered {
                declared_at: now,
                event: event.id,
                cause,
            },
        );
        begins
    }

    /// Removes the losses that `range` acknowledges, and passes each one to `each` with its
    /// cause.
    pub(super) fn take(
        &mut self,
        sweep: &mut Sweep,
        range: RangeInclusive<u64>,
        mut each: impl FnMut(u64, Cause),
    ) {
        let event = &mut self.event;
        self.holes
            .take(sweep, *range.start(), *range.end(), |number, r| {
                if let Some(event) = event.as_mut().filter(|e| e.id == r.event) {
                    event.recovered += 1;
                }
                each(number, r.cause);
            });
    }

    /// Ends the sweep of an ACK frame. Returns true if it completed the last loss event, that
    /// is, every loss in it was spurious.
    pub(super) fn close(&mut self, sweep: &Sweep) -> bool {
        self.holes.close(sweep);
        // Later losses begin a new event.
        self.event.take_if(|e| e.recovered == e.lost).is_some()
    }

    pub(super) fn forget(&mut self, now: Instant, age: Duration) {
        while self
            .holes
            .front()
            .is_some_and(|(_, _, r)| now - r.declared_at > age)
        {
            self.holes.pop();
        }
    }

    /// Forgets everything, because the space is discarded or the path changes.
    pub(super) fn clear(&mut self) {
        self.holes.clear();
        self.event = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAUSE: Cause = Cause::Packets;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Acknowledges these numbers, descending. Returns true if the last event was spurious.
    fn acked(losses: &mut Losses, numbers: &[u64]) -> bool {
        let mut sweep = losses.sweep();
        let mut found = Vec::new();
        for n in numbers {
            losses.take(&mut sweep, *n..=*n, |number, _| found.push(number));
        }
        assert_eq!(found, numbers);
        losses.close(&sweep)
    }

    #[test]
    fn an_event_is_what_was_sent_when_it_began() {
        let mut losses = Losses::new();
        assert!(losses.push(at(0), 3, CAUSE, 10));
        assert!(!losses.push(at(0), 5, CAUSE, 20));
        assert!(!losses.push(at(1), 10, CAUSE, 30), "the last of them");
        assert!(losses.push(at(2), 11, CAUSE, 30));
        assert_eq!(losses.len(), 4);
        // Losses of the previous event don't concern this one.
        assert!(!acked(&mut losses, &[10, 5, 3]));
        assert!(acked(&mut losses, &[11]));
        // That event is over, so a later loss begins another event.
        assert!(losses.push(at(3), 12, CAUSE, 30));
        assert!(!losses.push(at(3), 13, CAUSE, 30));
        assert!(!acked(&mut losses, &[12]));
        assert!(acked(&mut losses, &[13]));
        assert_eq!(losses.len(), 0);
    }

    #[test]
    fn what_is_old_or_left_is_forgotten() {
        let mut losses = Losses::new();
        for n in 0..4 {
            losses.push(at(10 * n), n, CAUSE, 100);
        }
        let age = Duration::from_millis(20);
        losses.forget(at(30), age);
        assert_eq!(losses.len(), 3, "one is older than 20 ms");
        losses.clear();
        assert_eq!(losses.len(), 0);
        assert!(losses.push(at(40), 5, CAUSE, 100), "an event of its own");
        assert!(acked(&mut losses, &[5]));
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let mut losses = Losses::new();
        let most = MAX_REMEMBERED as u64;
        for n in 0..most + 10 {
            losses.push(at(0), n, CAUSE, n + 5);
        }
        assert_eq!(losses.len(), MAX_REMEMBERED);
        let mut sweep = losses.sweep();
        let mut found = 0;
        losses.take(&mut sweep, 0..=most + 10, |_, _| found += 1);
        assert_eq!(found, most);
    }
}
