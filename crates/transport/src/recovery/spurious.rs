//! Losses remembered for a while, to notice when one was none.

use core::ops::RangeInclusive;

use super::{
    holes::{Holes, Sweep},
    reordering::Cause,
};
use crate::{Duration, Instant};

/// Losses remembered at most; beyond, the oldest are forgotten.
const MAX_REMEMBERED: usize = 1 << 15;

#[derive(Clone, Copy, Debug)]
struct Remembered {
    declared_at: Instant,
    /// Which loss event it belongs to.
    event: u32,
    cause: Cause,
}

/// Losses of one round trip, which a controller answers once.
#[derive(Clone, Copy, Debug)]
struct Event {
    id: u32,
    /// Newest packet when the event began; losses up to here belong to it.
    until: u64,
    lost: u64,
    recovered: u64,
}

/// Declared losses of the recent past.
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

    /// Remembers the loss of `number`, above all before it. True if it begins a loss event.
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

    /// Takes what `range` acknowledges after all, and tells each with its cause.
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

    /// Ends the descent of one ACK frame. True if it completed the last loss event: every loss was
    /// none.
    pub(super) fn close(&mut self, sweep: &Sweep) -> bool {
        self.holes.close(sweep);
        // Losses that follow begin an event of their own.
        self.event.take_if(|e| e.recovered == e.lost).is_some()
    }

    /// Forgets losses declared more than `age` ago.
    pub(super) fn forget(&mut self, now: Instant, age: Duration) {
        while self
            .holes
            .front()
            .is_some_and(|(_, _, r)| now - r.declared_at > age)
        {
            self.holes.pop();
        }
    }

    /// The space is discarded, or the path is left.
    pub(super) fn clear(&mut self) {
        self.holes.clear();
        self.event = None;
    }
}
