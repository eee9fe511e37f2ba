//! The classes of a separated port: their queues, their recent rates, and the part of its share
//! that the class with feedback leaves unused while the other waits.
//!
//! Because a control law aims slightly below its capacity, and its flows' rates vary below this
//! target, its queue usually stays empty. If the class has the link to itself, this is the price of
//! a short queue. However, if packets of the other class always wait, that class takes the rest, so
//! flows that obey would get less than flows that do not. Therefore, while the other class waits,
//! the law gets a bonus on its share: the part that it recently left unused, at most 1/16. The
//! bonus decreases as soon as the law's class has a queue.

use pathmark_cc::Instant;

use crate::flows::WHOLE_Q16;
use crate::queue::{Depth, DropTail, FULL_PACKET, Limit, Owner, Popped, Queue, Queued};

/// Minimum room of a class, in full packets.
const LEAST_PACKETS: u64 = 8;
/// Bytes that a class may hold regardless of its share, as long as the other holds at least as
/// many. If this were less than a packet, no packet of the class could enter a buffer that the
/// other one fills.
const KEPT_BYTES: u64 = 4 * FULL_PACKET;

/// One class: its queue, and the packets that pass before it.
pub(super) struct Class<P> {
    /// Packets that pass before those in the queue.
    pub(super) first: DropTail<P>,
    pub(super) queue: Box<dyn Queue<P>>,
    /// Number of packets that have entered the queue, with wrap-around.
    pub(super) taken: u32,
    /// Depth of both together.
    pub(super) depth: Depth,
    /// Its part of the buffer.
    pub(super) room: Limit,
}

impl<P> Class<P> {
    pub(super) fn new(queue: Box<dyn Queue<P>>, limit: Limit) -> Self {
        Self {
            first: DropTail::new(limit),
            taken: 0,
            depth: queue.depth(),
            queue,
            room: limit,
        }
    }

    pub(super) fn measure(&mut self) {
        let (first, queue) = (self.first.waiting(), self.queue.depth());
        self.depth = Depth {
            packets: first.packets + queue.packets,
            bytes: first.bytes + queue.bytes,
        };
    }

    pub(super) fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        let popped = match self.first.take() {
            None => self.queue.pop(now, owner),
            item => Popped { item, dropped: 0 },
        };
        self.measure();
        popped
    }

    /// Number of packets that have entered the queue and left it again.
    pub(super) fn gone(&self) -> u32 {
        let waiting = self.queue.depth().packets;
        self.taken
            .wrapping_sub(u32::try_from(waiting).unwrap_or(u32::MAX))
    }

    /// Removes the youngest packet of the queue.
    #[cold]
    pub(super) fn pop_youngest(&mut self) -> Option<Queued<P>> {
        let victim = self.queue.pop_youngest()?;
        self.taken = self.taken.wrapping_sub(victim.packets);
        self.measure();
        Some(victim)
    }

    /// Removes the youngest packet of the queue; if it is empty, of those that pass before it.
    #[cold]
    pub(super) fn pop_any(&mut self) -> Option<Queued<P>> {
        let victim = self.pop_youngest().or_else(|| self.first.take_youngest());
        self.measure();
        victim
    }

    /// Bytes that the other class can keep in any case, if this class has `share_q16` of the
    /// link and a packet of `bytes` arrives for it.
    pub(super) fn leaves(&self, bytes: u32, share_q16: u64) -> u64 {
        let held = self.depth.bytes + u64::from(bytes);
        let part = held.saturating_mul(WHOLE_Q16 - share_q16);
        let fair = part.checked_div(share_q16).unwrap_or(u64::MAX);
        match fair.max(KEPT_BYTES) {
            // Only as long as the other one holds at least as many.
            kept if held <= KEPT_BYTES => kept.min(held.saturating_sub(1)),
            kept => kept,
        }
    }

    /// Whether a packet of `bytes` would have room after pushing out the complete queue. Both
    /// classes together hold `total`, out of `limit`.
    pub(super) fn may_empty_its_queue_for(&self, bytes: u32, total: Depth, limit: Limit) -> bool {
        let queue = self.queue.depth();
        let without = Depth {
            packets: total.packets.saturating_sub(queue.packets),
            bytes: total.bytes.saturating_sub(queue.bytes),
        };
        self.room.admits(self.first.waiting(), bytes) && limit.admits(without, bytes)
    }

    /// Whether a packet of `bytes` would have room after this class has given up everything
    /// beyond `safe` bytes. Both classes together hold `total`, out of `limit`.
    pub(super) fn yields(&self, safe: u64, bytes: u32, total: Depth, limit: Limit) -> bool {
        if limit.admits(total, bytes) {
            return true;
        }
        let beyond = self.depth.bytes.saturating_sub(safe);
        let youngest = self.queue.youngest().or_else(|| self.first.newest());
        let (Some(youngest), true) = (youngest, beyond > 0) else {
            return false;
        };
        // One packet, or as many as necessary to come down to `safe`.
        match limit {
            Limit::Packets(limit) => total.packets.saturating_sub(youngest.packets.into()) < limit,
            Limit::Bytes(limit) => {
                let given = beyond.max(youngest.arrival.bytes.into());
                total.bytes.saturating_sub(given) + u64::from(bytes) <= limit
            }
        }
    }
}

/// `share_q16` of a limit, but at least room for a few packets.
pub(super) fn part(limit: Limit, share_q16: u64) -> Limit {
    let of = |whole: u64, least: u64| {
        let part = u128::from(whole) * u128::from(share_q16) / u128::from(WHOLE_Q16);
        u64::try_from(part).unwrap_or(whole).max(least).min(whole)
    };
    match limit {
        Limit::Packets(packets) => Limit::Packets(of(packets, LEAST_PACKETS)),
        Limit::Bytes(bytes) => Limit::Bytes(of(bytes, LEAST_PACKETS * FULL_PACKET)),
    }
}

/// Time over which the classes' rates are measured. New values have a weight of 1/4, so that the
/// average covers about 200 ms, which is shorter than the reaction time of control laws.
pub(super) const WINDOW_NANOS: u64 = 50_000_000;

/// The classes' rates, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) heard: u64,
    pub(super) foreign: u64,
    /// Arrival rate of the foreign class, excluding flows that are set aside.
    pub(super) plain: u64,
}

/// Measures the bytes that each class sends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    start: Instant,
    /// Bytes sent since then.
    pub(super) heard: u64,
    pub(super) foreign: u64,
    /// Bytes that arrived since then.
    pub(super) plain: u64,
    pub(super) average: Rates,
}

impl Window {
    /// Nanoseconds since its start.
    pub(super) fn elapsed(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.start.as_nanos())
    }

    /// Whether a window has passed, so that the average is new.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let elapsed = self.elapsed(now);
        if elapsed >= WINDOW_NANOS {
            self.turn(now, elapsed);
            return true;
        }
        false
    }

    #[cold]
    fn turn(&mut self, now: Instant, elapsed: u64) {
        // One step per elapsed window, so that the frequency of calls does not matter. After a
        // pause, the old average is discarded.
        let windows = elapsed / WINDOW_NANOS;
        let step = |average: &mut u64, sent: u64| {
            let rate = u128::from(sent) * 1_000_000_000 / u128::from(elapsed);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            if windows > 8 {
                *average = rate;
            } else {
                for _ in 0..windows {
                    *average = *average - *average / 4 + rate / 4;
                }
            }
        };
        step(&mut self.average.heard, self.heard);
        step(&mut self.average.foreign, self.foreign);
        step(&mut self.average.plain, self.plain);
        (self.heard, self.foreign, self.plain) = (0, 0, 0);
        self.start = now;
    }
}

/// The maximum bonus is the share divided by this number.
const MOST_BONUS: u64 = 16;
/// The fraction of a window's unused part that is added. With windows of 50 ms, the time
/// constant is 1.6 s, longer than a law's interval on most paths.
const RISE: u64 = 32;
/// The fraction that is removed in a window in which a queue stood, or the other class did not
/// wait.
const FALL: u64 = 8;

/// The bonus on the share, as described in the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unused {
    /// The bonus on the share, in bytes per second.
    more: u64,
    /// True if the class's own queue was empty at some time in the current window; the same for
    /// the other's.
    own_empty: bool,
    other_empty: bool,
}

impl Unused {
    /// Records a departure, with `own` packets waiting in the class's queue and `other` in the
    /// other one.
    #[inline]
    pub(super) fn on_departure(&mut self, own: u64, other: u64) {
        self.own_empty |= own == 0;
        self.other_empty |= other == 0;
    }

    /// Ends a window. Returns the bonus on top of `owed` bytes per second.
    pub(super) fn turn(&mut self, owed: u64, rates: &Rates) -> u64 {
        let own_empty = core::mem::take(&mut self.own_empty);
        let other_empty = core::mem::take(&mut self.other_empty);
        if own_empty && !other_empty {
            let left = owed.saturating_sub(rates.heard);
            self.more = (self.more + left / RISE).min(owed / MOST_BONUS);
        } else {
            self.more -= self.more.div_ceil(FALL);
        }
        self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWED: u64 = 1_000_000;

    fn windows(unused: &mut Unused, n: usize, (own, other): (u64, u64), heard: u64) -> u64 {
        let rates = Rates {
            heard,
            ..Rates::default()
        };
        let bonuses = (0..n).map(|_| {
            unused.on_departure(own, other);
            unused.turn(OWED, &rates)
        });
        bonuses.last().unwrap_or(0)
    }

    #[test]
    fn the_law_gets_a_bonus_while_another_class_waits() {
        let mut unused = Unused::default();
        assert_eq!(windows(&mut unused, 1, (0, 9), OWED - 32_000), 1000);
        assert_eq!(windows(&mut unused, 9, (0, 9), OWED - 32_000), 10_000);
        assert_eq!(windows(&mut unused, 100, (0, 9), OWED), 10_000, "used");
        // Regardless of how much is left unused.
        assert_eq!(windows(&mut unused, 100, (0, 9), 0), OWED / 16);
        // A standing queue must reduce it to the share itself.
        assert!(windows(&mut unused, 6, (1, 9), 0) < OWED / 32);
        assert_eq!(windows(&mut unused, 100, (1, 9), 0), 0);
    }

    #[test]
    fn no_bonus_while_no_other_class_waits() {
        let mut unused = Unused::default();
        assert_eq!(windows(&mut unused, 100, (0, 0), OWED / 2), 0);
        assert_eq!(windows(&mut unused, 100, (3, 0), OWED / 2), 0);
        // No unused part on an idle port either.
        assert_eq!(unused.turn(OWED, &Rates::default()), 0);
    }
}
