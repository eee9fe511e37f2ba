//! One class of a separated port.

use pathmark_cc::Instant;

use crate::flows::WHOLE_Q16;
use crate::owner::Owner;
use crate::queue::{Depth, DropTail, FULL_PACKET, Limit, Popped, Queue, Queued};

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

    #[inline]
    pub(super) fn measure(&mut self) {
        let (first, queue) = (self.first.waiting(), self.queue.depth());
        self.depth = Depth {
            packets: first.packets + queue.packets,
            bytes: first.bytes + queue.bytes,
        };
    }

    #[inline]
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
