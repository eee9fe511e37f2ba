//! Two queues in one port: one for packets that carry feedback, the other for all others.
//!
//! A sender that obeys load codes avoids queues, whereas a loss-driven sender fills them. In a
//! common FIFO, the latter would therefore take everything. Instead, each class has a separate
//! queue. While packets wait in both, each class gets a share of the link according to its
//! number of flows (deficit round robin); a class that needs less leaves the rest to the other. If
//! some packets of a flow carry feedback, all its packets are in the first class. The port's
//! control law only sees this class. Its capacity is the rate that others leave, but at least the
//! class's share, plus a small bonus while others use a part of this share (`class.rs`).

mod class;

use pathmark_cc::{Arrival, Carried, Duration, Instant, RateChange};

use crate::flows::{Flows, Kind, Look, WHOLE_Q16, Watch};
use crate::queue::{Depth, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::stats::DropCause;
use class::{Class, Rates, Unused, WINDOW_NANOS, Window, part};

/// The two queues of a separated port, with one limit for both.
pub struct Separation<P> {
    heard: Class<P>,
    foreign: Class<P>,
    limit: Limit,
    /// The first class's share of the link, in 2^-16.
    share_q16: u64,
    /// The first class's lead over its share: its bytes times the other class's share, minus the
    /// other class's bytes times its own share.
    ahead: i64,
    window: Window,
    unused: Unused,
    flows: Flows,
}

impl<P> Separation<P> {
    /// Creates queues for the class that counts for the control law and for the foreign one. The
    /// limit of each should also be `limit`: a class that holds less than its share of the
    /// common room may push out the youngest packets of the other.
    pub fn new(heard: Box<dyn Queue<P>>, foreign: Box<dyn Queue<P>>, limit: Limit) -> Self {
        Self {
            heard: Class::new(heard, limit),
            foreign: Class::new(foreign, limit),
            limit,
            share_q16: WHOLE_Q16 / 2,
            ahead: 0,
            window: Window::default(),
            unused: Unused::default(),
            flows: Flows::new(),
        }
    }

    /// Records an arriving packet. Returns true if it belongs to the class that counts for the
    /// control law, and `None` if it must be dropped. Packets of flows that are set aside become
    /// foreign.
    pub(super) fn hears(&mut self, now: Instant, arrival: &mut Arrival) -> Option<bool> {
        match self.flows.note(now, arrival) {
            Kind::Heard => Some(true),
            Kind::Foreign => {
                self.window.plain += u64::from(arrival.bytes);
                Some(false)
            }
            Kind::Aside => self.admits_aside(now, arrival).then_some(false),
        }
    }

    /// Whether a packet of a flow that is set aside may pass as foreign, because there is room,
    /// and capacity that no other flow uses.
    #[cold]
    fn admits_aside(&mut self, now: Instant, arrival: &mut Arrival) -> bool {
        arrival.carried = Carried::Foreign;
        let fits = self.foreign.room.admits(self.foreign.depth, arrival.bytes)
            && self.limit.admits(self.depth(), arrival.bytes);
        self.flows.watch.passes(now, arrival.bytes, fits)
    }

    /// Records that the law dropped a packet of its class.
    pub(super) fn on_policed(&mut self, bytes: u32) {
        self.flows.dropped(true, bytes.into());
    }

    /// The flows that are watched or set aside.
    pub(super) const fn watch(&self) -> &Watch {
        &self.flows.watch
    }

    /// Returns true once after flows were set aside that the law has counted until now.
    pub(super) fn has_set_aside(&mut self) -> bool {
        self.flows.watch.has_set_aside()
    }

    /// Sets the control law's interval, which determines how fast responsive flows can react.
    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.flows.watch.set_interval(interval);
    }

    pub(super) fn depth(&self) -> Depth {
        let (a, b) = (self.heard.depth, self.foreign.depth);
        Depth {
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
        }
    }

    pub(super) fn heard_depth(&self) -> Depth {
        self.heard.depth
    }

    pub(super) fn takes_whole(
        &self,
        now: Instant,
        arrival: &Arrival,
        packets: u32,
        bytes: u32,
    ) -> bool {
        let class = if self.flows.knows(now, arrival) {
            &self.heard
        } else {
            &self.foreign
        };
        self.limit.admits_run(self.depth(), packets, bytes)
            && class.room.admits_run(class.depth, packets, bytes)
            && class.queue.takes_whole(packets, bytes)
    }

    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.heard.queue.set_limit(limit);
        self.foreign.queue.set_limit(limit);
        self.divide();
    }

    /// Queues a packet of either class. For each packet dropped to make room, `pushed_out` is
    /// called, with true if it belonged to the class that counts for the control law.
    pub(super) fn push(
        &mut self,
        now: Instant,
        item: Queued<P>,
        heard: bool,
        owner: &mut dyn Owner<P>,
        mut pushed_out: impl FnMut(&Queued<P>, bool),
    ) -> Pushed {
        let (bytes, packets) = (item.arrival.bytes, item.packets);
        let total = self.depth();
        let own = if heard { &self.heard } else { &self.foreign };
        // With an empty queue, there is nothing to overtake.
        let first = own.queue.depth().packets > 0
            && self.flows.may_pass_first(now, bytes, heard, own.gone());
        let has_room = own.room.admits(own.depth, bytes) && self.limit.admits(total, bytes);
        let fits = has_room || self.make_room(bytes, heard, first, owner, &mut pushed_out);
        let own = if heard {
            &mut self.heard
        } else {
            &mut self.foreign
        };
        let pushed = match (fits, first) {
            (false, _) => {
                owner.dropped(item.packet, DropCause::QueueFull);
                Pushed::Dropped(DropCause::QueueFull)
            }
            (true, true) => {
                own.first.put(item);
                Pushed::Queued
            }
            (true, false) => own.queue.push(now, item, owner),
        };
        own.measure();
        match pushed {
            Pushed::Dropped(_) => self.flows.dropped(heard, bytes.into()),
            Pushed::Queued if first => self.flows.on_first(heard, bytes),
            Pushed::Queued => {
                own.taken = own.taken.wrapping_add(packets);
                self.flows.on_queued(heard, own.taken);
            }
        }
        pushed
    }

    /// Pushes out packets to make room for `bytes` of one class. They come from the other class
    /// or, if the new packet passes `first`, from its own queue. If this does not suffice, all
    /// packets stay, and the result is false.
    #[cold]
    fn make_room(
        &mut self,
        bytes: u32,
        heard: bool,
        first: bool,
        owner: &mut dyn Owner<P>,
        pushed_out: &mut dyn FnMut(&Queued<P>, bool),
    ) -> bool {
        let (mut total, limit, share) = (self.depth(), self.limit, self.share_q16);
        let (own, other, own_share) = if heard {
            (&mut self.heard, &mut self.foreign, share)
        } else {
            (&mut self.foreign, &mut self.heard, WHOLE_Q16 - share)
        };
        let safe = own.leaves(bytes, own_share);
        let has_room = own.room.admits(own.depth, bytes);
        let suffices = (has_room && other.yields(safe, bytes, total, limit))
            || (first && own.may_empty_its_queue_for(bytes, total, limit));
        if !suffices {
            return false;
        }
        loop {
            let has_room = own.room.admits(own.depth, bytes);
            if has_room && limit.admits(total, bytes) {
                return true;
            }
            let (victim, victim_heard) = if has_room && other.depth.bytes > safe {
                (other.pop_any(), !heard)
            } else if first {
                (own.pop_youngest(), heard)
            } else {
                (None, heard)
            };
            let Some(victim) = victim else {
                return false;
            };
            total.bytes = total.bytes.saturating_sub(u64::from(victim.arrival.bytes));
            total.packets = total.packets.saturating_sub(u64::from(victim.packets));
            self.flows
                .dropped(victim_heard, victim.arrival.bytes.into());
            pushed_out(&victim, victim_heard);
            owner.dropped(victim.packet, DropCause::PushedOut);
        }
    }

    /// Records the change of rate that an answer allows a flow.
    pub(super) fn on_answer(&mut self, arrival: &Arrival, change: RateChange) {
        self.flows.on_answer(arrival, change);
    }

    /// The next packet. While both classes wait, it comes from the one behind its share.
    pub(super) fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        let waits = (self.heard.depth.packets > 0, self.foreign.depth.packets > 0);
        if waits != (true, true) {
            // The other class is empty, so all debts between the classes are cleared.
            self.ahead = 0;
        }
        let heard = waits.0 && (!waits.1 || self.ahead <= 0);
        let class = if heard {
            &mut self.heard
        } else {
            &mut self.foreign
        };
        let waited = class.depth.bytes;
        let popped = class.pop(now, owner);
        if popped.dropped > 0 {
            let left = popped.item.as_ref().map_or(0, |item| item.arrival.bytes);
            let lost = waited.saturating_sub(class.depth.bytes + u64::from(left));
            self.flows.dropped(heard, lost);
        }
        self.unused
            .on_departure(self.heard.depth.packets, self.foreign.depth.packets);
        if let Some(item) = &popped.item {
            let bytes = u64::from(item.arrival.bytes);
            self.flows.on_departure(heard, bytes);
            let scaled = |share: u64| i64::try_from(bytes * share).unwrap_or(i64::MAX);
            if heard {
                self.ahead += scaled(WHOLE_Q16 - self.share_q16);
                self.window.heard += bytes;
            } else {
                self.ahead -= scaled(self.share_q16);
                self.window.foreign += bytes;
            }
        }
        popped
    }

    /// Whether [`capacity`](Self::capacity) is due.
    pub(super) fn window_is_over(&self, now: Instant) -> bool {
        self.window.elapsed(now) >= WINDOW_NANOS
    }

    /// The capacity that is left to the first class, whenever a window has passed.
    #[cold]
    pub(super) fn capacity(&mut self, now: Instant, rate: u64) -> Option<u64> {
        self.window.poll(now).then(|| self.review(now, rate))
    }

    #[cold]
    fn review(&mut self, now: Instant, rate: u64) -> u64 {
        if let Some(worth) = self.flows.poll(now, rate) {
            self.share_q16 = worth.share_q16();
        }
        self.divide();
        let owed = u128::from(rate) * u128::from(self.share_q16) / u128::from(WHOLE_Q16);
        let Rates {
            heard,
            foreign,
            plain,
        } = self.window.average;
        let left = rate.saturating_sub(foreign);
        let owed = u64::try_from(owed).unwrap_or(u64::MAX);
        let capacity = left.max(owed);
        let look = Look {
            capacity,
            left: rate.saturating_sub(heard.saturating_add(plain)),
            rate,
            room: self.heard.room.bytes(),
        };
        self.flows.watch.look(now, look);
        let more = self.unused.turn(owed, &self.window.average);
        left.max(owed.saturating_add(more))
    }

    /// Assigns a part of the buffer to each class: twice its share or use of the link, and the
    /// whole buffer from one half upwards.
    fn divide(&mut self) {
        let Rates { heard, foreign, .. } = self.window.average;
        let used = u128::from(heard) * u128::from(WHOLE_Q16) / u128::from((heard + foreign).max(1));
        let used = match heard + foreign {
            0 => WHOLE_Q16 / 2,
            _ => u64::try_from(used).unwrap_or(WHOLE_Q16),
        };
        let (limit, share) = (self.limit, self.share_q16);
        let room = |share: u64, used: u64| part(limit, 2 * share.max(used));
        self.heard.room = room(share, used);
        self.foreign.room = room(WHOLE_Q16 - share, WHOLE_Q16 - used);
    }
}

impl<P> core::fmt::Debug for Separation<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Separation")
            .field("heard", &self.heard.depth)
            .field("foreign", &self.foreign.depth)
            .field("limit", &self.limit)
            .field("share_q16", &self.share_q16)
            .finish_non_exhaustive()
    }
}
