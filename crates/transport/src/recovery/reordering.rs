//! How much reordering loss detection tolerates, learned from spurious losses among those of the
//! recent past.
//!
//! The thresholds start at those of RFC 9002 §6.1 (3 packets, 9/8 RTT) and widen as in RFC 8985
//! §6.2: the packet threshold to the observed extent, and the time threshold by one eighth of an
//! RTT per round trip with a spurious loss, up to 2 RTT. Sixteen consecutive loss events without a
//! spurious loss narrow both again.

use core::ops::RangeInclusive;

use super::holes::{Holes, Sweep};
use super::{GRANULARITY, RttEstimator};
use crate::{Duration, Instant};

/// RFC 9002 §6.1.1: kPacketThreshold.
const INITIAL_PACKETS: u64 = 3;
/// Beyond this limit, only time decides. It bounds the packets that a sender must track below
/// the largest acknowledged one.
const MAX_PACKETS: u64 = 1 << 15;
/// RFC 9002 §6.1.2: kTimeThreshold is 9/8, that is, one eighth more than the RTT.
const INITIAL_EIGHTHS: u32 = 1;
/// Minimum of the time threshold of a question for a starting rate, well within the two round
/// trips for which its sender waits for the answer.
const QUESTION_EIGHTHS: u32 = 4;
/// RFC 8985 §6.2 limits the reordering window to one smoothed RTT.
const MAX_EIGHTHS: u32 = 8;
/// Loss events without a spurious loss before the thresholds narrow (RFC 8985 §6.2: 16
/// recoveries).
const CALM: u8 = 16;

/// Why a packet was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Enough later packets were acknowledged.
    Packets,
    /// It was outstanding for too long after a later one was acknowledged.
    Time,
}

/// Loss detection thresholds of one path.
#[derive(Clone, Debug)]
pub struct Reordering {
    packets: u64,
    eighths: u32,
    /// Largest packet number that was sent before the time threshold last grew.
    widened_at: Option<u64>,
    calm: u8,
}

impl Default for Reordering {
    fn default() -> Self {
        Self::new()
    }
}

impl Reordering {
    /// Creates the thresholds of RFC 9002.
    pub const fn new() -> Self {
        Self {
            packets: INITIAL_PACKETS,
            eighths: INITIAL_EIGHTHS,
            widened_at: None,
            calm: 0,
        }
    }

    /// Returns the packet threshold: a packet is lost once one this much later is acknowledged.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the time threshold: a packet is lost this long after it was sent if a later one
    /// is acknowledged.
    pub fn time(&self, rtt: &RttEstimator) -> Duration {
        Self::eighths_over(rtt, self.eighths)
    }

    /// Returns the time threshold of a question for a starting rate. It may wait in a separate
    /// queue, so later packets are not evidence of its loss.
    pub(super) fn question_time(&self, rtt: &RttEstimator) -> Duration {
        Self::eighths_over(rtt, self.eighths.max(QUESTION_EIGHTHS))
    }

    fn eighths_over(rtt: &RttEstimator, eighths: u32) -> Duration {
        // [9002 6.1.2 granularity]
        (rtt.longest() * (8 + eighths) / 8).max(GRANULARITY)
    }

    /// Records that packet `number`, which was declared lost for `cause`, was acknowledged when
    /// `largest` was the largest acknowledged one. `last_sent` is the newest packet number.
    pub(super) fn on_spurious(&mut self, cause: Cause, number: u64, largest: u64, last_sent: u64) {
        self.calm = 0;
        match cause {
            Cause::Packets => {
                let extent = largest.saturating_sub(number).saturating_add(1);
                self.packets = self.packets.max(extent.min(MAX_PACKETS));
            }
            Cause::Time if self.widened_at.is_none_or(|at| number > at) => {
                self.widened_at = Some(last_sent);
                self.eighths = (self.eighths + 1).min(MAX_EIGHTHS);
            }
            Cause::Time => {}
        }
    }

    pub(super) fn on_loss_event(&mut self) {
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.packets = (self.packets / 2).max(INITIAL_PACKETS);
            self.eighths = INITIAL_EIGHTHS;
        }
    }
}

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

/// Remembers recent losses to detect spurious losses.
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
    use crate::Instant;

    #[test]
    fn no_threshold_is_below_the_granularity_of_timers() {
        // [9002 6.1.2 granularity]
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::ZERO, Duration::from_micros(80), Duration::ZERO);
        assert_eq!(Reordering::new().time(&rtt), GRANULARITY);
    }

    #[test]
    fn widens_with_what_was_seen_and_narrows_after_calm() {
        let mut rtt = RttEstimator::new();
        rtt.update(Instant::ZERO, Duration::from_millis(80), Duration::ZERO);
        let mut r = Reordering::new();
        assert_eq!((r.packets(), r.time(&rtt)), (3, Duration::from_millis(90)));
        r.on_spurious(Cause::Packets, 10, 29, 100);
        assert_eq!((r.packets(), r.time(&rtt)), (20, Duration::from_millis(90)));
        // Twice in a round trip counts only once.
        r.on_spurious(Cause::Time, 10, 29, 100);
        r.on_spurious(Cause::Time, 11, 29, 100);
        assert_eq!(r.time(&rtt), Duration::from_millis(100));
        for n in 2..20 {
            r.on_spurious(Cause::Time, 101 * n, u64::MAX, 101 * n + 1);
        }
        assert_eq!(r.time(&rtt), Duration::from_millis(160));
        r.on_spurious(Cause::Packets, 0, u64::MAX, u64::MAX);
        assert_eq!(r.packets(), MAX_PACKETS);
        for _ in 0..CALM {
            r.on_loss_event();
        }
        assert_eq!(r.packets(), MAX_PACKETS / 2);
        assert_eq!(r.time(&rtt), Duration::from_millis(90));
    }

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
