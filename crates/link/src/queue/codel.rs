//! CoDel (RFC 8289), which drops packets according to their queueing delay, with increasing
//! frequency while this delay stays too long.

use pathmark_cc::{Duration, Instant};

use super::{Depth, DropTail, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::stats::DropCause;

/// Parameters of [`CoDel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time for which the delay may stay above it before packets are dropped: about a long round
    /// trip.
    pub interval: Duration,
    /// Hard limit.
    pub limit: Limit,
}

impl CoDelConfig {
    /// The RFC's 5 ms and 100 ms.
    pub fn new(limit: Limit) -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit,
        }
    }
}

/// A FIFO that drops at its head.
#[derive(Debug)]
pub struct CoDel<P> {
    fifo: DropTail<P>,
    config: CoDelConfig,
    /// Largest packet seen. If no more than this waits, there is no standing queue.
    largest: u32,
    /// When the delay will have been above the target for an interval.
    due: Option<Instant>,
    dropping: bool,
    next_drop: Instant,
    /// Drops since dropping started, and the count that it started with.
    count: u64,
    count_before: u64,
}

/// Number of intervals within which dropping resumes at its earlier frequency.
const MEMORY: u32 = 16;

impl<P: Send> CoDel<P> {
    /// Creates an empty queue.
    pub fn new(config: CoDelConfig) -> Self {
        Self {
            fifo: DropTail::new(config.limit),
            config,
            largest: 0,
            due: None,
            dropping: false,
            next_drop: Instant::ZERO,
            count: 0,
            count_before: 0,
        }
    }

    /// Returns the packet at the head, and whether the delay has been too long for an interval.
    fn head(&mut self, now: Instant) -> (Option<Queued<P>>, bool) {
        let Some(item) = self.fifo.take() else {
            self.due = None;
            return (None, false);
        };
        let short = now - item.since < self.config.target
            || self.fifo.depth().bytes <= u64::from(self.largest);
        let late = match self.due {
            _ if short => {
                self.due = None;
                false
            }
            None => {
                self.due = Some(now + self.config.interval);
                false
            }
            Some(due) => now >= due,
        };
        (Some(item), late)
    }

    /// Time of the next drop: drops are an interval over the square root of their number apart.
    fn after(&self, from: Instant) -> Instant {
        from + spacing(self.config.interval, self.count)
    }
}

/// `interval` / √`count`, to one part in 2^16.
pub(super) fn spacing(interval: Duration, count: u64) -> Duration {
    let root_q16 = (count.clamp(1, 1 << 31) << 32).isqrt();
    let nanos = (interval.as_nanos() << 16) / u128::from(root_q16.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl<P: Send> Queue<P> for CoDel<P> {
    fn push(&mut self, now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        self.largest = self.largest.max(item.arrival.bytes);
        self.fifo.push(now, item, owner)
    }

    fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        let mut dropped = 0;
        let (mut item, mut late) = self.head(now);
        let mut discard = |item: Option<Queued<P>>| {
            if let Some(item) = item {
                dropped += u64::from(item.packets);
                owner.dropped(item.packet, DropCause::Early);
            }
        };
        if self.dropping {
            self.dropping = late;
            while self.dropping && now >= self.next_drop {
                discard(item);
                self.count += 1;
                (item, late) = self.head(now);
                self.dropping = late;
                if late {
                    self.next_drop = self.after(self.next_drop);
                }
            }
        } else if late {
            discard(item);
            (item, _) = self.head(now);
            self.dropping = true;
            let gained = self.count.saturating_sub(self.count_before);
            let recent = now < self.next_drop + self.config.interval * MEMORY;
            self.count = if gained > 1 && recent { gained } else { 1 };
            self.count_before = self.count;
            self.next_drop = self.after(now);
        }
        Popped { item, dropped }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        self.fifo.pop_youngest()
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        self.fifo.newest()
    }

    fn depth(&self) -> Depth {
        self.fifo.depth()
    }

    fn limit(&self) -> Limit {
        self.config.limit
    }

    fn set_limit(&mut self, limit: Limit) {
        self.config.limit = limit;
        self.fifo.set_limit(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Log, queued};

    #[test]
    fn drops_come_closer_with_the_root_of_their_number() {
        for count in [1u64, 2, 3, 10, 1000, 1_000_000] {
            let got = spacing(Duration::from_millis(100), count).as_secs_f64();
            let expected = 0.1 / (count as f64).sqrt();
            assert!(
                (got / expected - 1.0).abs() < 1.0 / 65_536.0,
                "{count}: {got}"
            );
        }
    }

    /// One packet in and one out per millisecond behind a standing queue. The expected times of
    /// the drops follow from the RFC's rule.
    #[test]
    fn a_standing_queue_is_worn_down_at_the_times_of_the_rule() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut queue = CoDel::new(CoDelConfig::new(Limit::Packets(1000)));
        let mut log = Log::default();
        for id in 0..100 {
            queue.push(at(0), queued(id, 1500, at(0)), &mut log);
        }
        let mut drops = Vec::new();
        for ms in 1..450 {
            queue.push(at(ms), queued(1000, 1500, at(ms)), &mut log);
            for _ in 0..queue.pop(at(ms), &mut log).dropped {
                drops.push(ms);
            }
        }
        // The delay exceeds 5 ms from 5 ms on, so the first drop is at 105 ms, and the next ones
        // after 100, 100/√2, 100/√3, 100/√4 and 100/√5 ms, each at the next whole millisecond.
        assert_eq!(drops, [105, 205, 276, 334, 384, 429]);
        assert_eq!(log.drops.len(), 6);
        assert!(
            log.drops
                .iter()
                .all(|(_, cause)| *cause == DropCause::Early)
        );
    }

    #[test]
    fn a_short_queue_and_a_last_packet_are_left_alone() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut queue = CoDel::new(CoDelConfig::new(Limit::Packets(2)));
        let mut log = Log::default();
        for ms in 0..1000 {
            queue.push(at(ms), queued(0, 1500, at(ms)), &mut log);
            let popped = queue.pop(at(ms + 50), &mut log);
            assert!(popped.item.is_some() && popped.dropped == 0);
        }
        for id in 0..3 {
            queue.push(at(2000), queued(id, 1500, at(2000)), &mut log);
        }
        assert_eq!(log.drops, [(2, DropCause::QueueFull)]);
    }
}
