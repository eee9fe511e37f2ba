//! Two queues in one port: packets that carry feedback, and all others.
//!
//! A sender that obeys load codes leaves a queue alone that a loss-driven one fills, so side by side in one
//! FIFO the latter takes all. Here each class has a queue of its own; while both wait, each gets half of the
//! link (deficit round robin), and whoever needs less leaves the rest to the other. A flow of which some packets carry feedback
//! is in the first class with all of them. The control law of the
//! port sees its own class only, and as capacity what the others leave, but never less than that half.

use pathmark_cc::{Arrival, Instant};

use super::heard_flows::HeardFlows;
use super::queue::{Depth, Limit, Popped, Pushed, Queue, Queued};
use super::{DropCause, Owner};

/// Bytes that a class may send before it is the other's turn. A full-sized packet of either class fits.
const QUANTUM: i64 = 1514;

/// Time over which the foreign class's rate is measured, and the share of a new value in the average (1/4):
/// together some 200 ms, shorter than what control laws react in.
const WINDOW_NANOS: u64 = 50_000_000;

/// The two queues of a separated port, with one limit for both.
pub struct Separation<P> {
    heard: Class<P>,
    foreign: Class<P>,
    limit: Limit,
    turn: Turn,
    window: Window,
    flows: HeardFlows,
}

struct Class<P> {
    queue: Box<dyn Queue<P>>,
    /// The queue's own, at hand.
    depth: Depth,
    deficit: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Heard,
    Foreign,
}

impl<P> Separation<P> {
    /// Separates the class that the control law hears from the foreign one. Their limits should be `limit`
    /// too: whoever holds less of the shared room may push out the youngest packets of the other.
    #[must_use]
    pub fn new(heard: Box<dyn Queue<P>>, foreign: Box<dyn Queue<P>>, limit: Limit) -> Self {
        let class = |queue: Box<dyn Queue<P>>| Class {
            depth: queue.depth(),
            queue,
            deficit: 0,
        };
        Self {
            heard: class(heard),
            foreign: class(foreign),
            limit,
            turn: Turn::Heard,
            window: Window::default(),
            flows: HeardFlows::new(),
        }
    }

    /// A packet arrived. True if it belongs to the class that the control law hears.
    #[inline]
    pub(super) fn hears(&mut self, now: Instant, arrival: &Arrival) -> bool {
        self.flows.note(now, arrival)
    }

    #[inline]
    pub(super) fn depth(&self) -> Depth {
        let (a, b) = (self.heard.depth, self.foreign.depth);
        Depth {
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
        }
    }

    #[inline]
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
            && class.queue.takes_whole(packets, bytes)
    }

    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.heard.queue.set_limit(limit);
        self.foreign.queue.set_limit(limit);
    }

    /// Takes a packet of either class. `pushed_out` is told of each packet of the other class that had to go.
    pub(super) fn push(
        &mut self,
        now: Instant,
        item: Queued<P>,
        heard: bool,
        owner: &mut dyn Owner<P>,
        mut pushed_out: impl FnMut(&Queued<P>),
    ) -> Pushed {
        let mut total = self.depth();
        let (own, other) = if heard {
            (&mut self.heard, &mut self.foreign)
        } else {
            (&mut self.foreign, &mut self.heard)
        };
        let owed = own.depth.bytes + u64::from(item.arrival.bytes);
        while !self.limit.admits(total, item.arrival.bytes) {
            let victim = if other.depth.bytes > owed {
                let victim = other.queue.pop_youngest();
                other.depth = other.queue.depth();
                victim
            } else {
                None
            };
            let Some(victim) = victim else {
                owner.dropped(item.packet, DropCause::QueueFull);
                return Pushed::Dropped(DropCause::QueueFull);
            };
            total.bytes = total.bytes.saturating_sub(u64::from(victim.arrival.bytes));
            total.packets = total.packets.saturating_sub(u64::from(victim.packets));
            pushed_out(&victim);
            owner.dropped(victim.packet, DropCause::PushedOut);
        }
        let pushed = own.queue.push(now, item, owner);
        own.depth = own.queue.depth();
        pushed
    }

    /// The next packet by deficit round robin: a class sends until it has used up its quantum, and starts the
    /// next round with what it took too much.
    pub(super) fn pop(&mut self, now: Instant, owner: &mut dyn Owner<P>) -> Popped<P> {
        let heard_waits = self.heard.depth.packets > 0;
        let foreign_waits = self.foreign.depth.packets > 0;
        let turn = match (heard_waits, foreign_waits) {
            (true, true) => self.next_turn(),
            (true, false) => self.alone(Turn::Heard),
            (false, _) => self.alone(Turn::Foreign),
        };
        let class = match turn {
            Turn::Heard => &mut self.heard,
            Turn::Foreign => &mut self.foreign,
        };
        let popped = class.queue.pop(now, owner);
        class.depth = class.queue.depth();
        if let Some(item) = &popped.item {
            class.deficit -= i64::from(item.arrival.bytes);
            if turn == Turn::Foreign {
                self.window.sent += u64::from(item.arrival.bytes);
            }
        }
        popped
    }

    fn next_turn(&mut self) -> Turn {
        // Ends: each pass adds a quantum to a class, and no packet is larger than a few dozen of them.
        loop {
            let class = match self.turn {
                Turn::Heard => &mut self.heard,
                Turn::Foreign => &mut self.foreign,
            };
            if class.deficit > 0 {
                return self.turn;
            }
            class.deficit += QUANTUM;
            self.turn = match self.turn {
                Turn::Heard => Turn::Foreign,
                Turn::Foreign => Turn::Heard,
            };
        }
    }

    fn alone(&mut self, turn: Turn) -> Turn {
        // Nobody waits beside it, so nothing is owed from now on.
        self.heard.deficit = 0;
        self.foreign.deficit = 0;
        self.turn = turn;
        turn
    }

    /// The capacity that is left to the heard class, whenever a window has passed.
    #[inline]
    pub(super) fn capacity(&mut self, now: Instant, rate: u64) -> Option<u64> {
        let foreign = self.window.poll(now)?;
        Some(rate.saturating_sub(foreign).max(rate / 2))
    }
}

impl<P> core::fmt::Debug for Separation<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Separation")
            .field("heard", &self.heard.depth)
            .field("foreign", &self.foreign.depth)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The foreign class's rate.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: Instant,
    sent: u64,
    /// Bytes per second.
    average: u64,
}

impl Window {
    #[inline]
    fn poll(&mut self, now: Instant) -> Option<u64> {
        let elapsed = now.as_nanos().saturating_sub(self.start.as_nanos());
        if elapsed < WINDOW_NANOS {
            return None;
        }
        let rate = u128::from(self.sent) * 1_000_000_000 / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // As many steps as windows have passed, so that it does not matter how often somebody came by; after a pause the
        // past says nothing.
        let windows = elapsed / WINDOW_NANOS;
        if windows > 8 {
            self.average = rate;
        } else {
            for _ in 0..windows {
                self.average = self.average - self.average / 4 + rate / 4;
            }
        }
        self.start = now;
        self.sent = 0;
        Some(self.average)
    }
}
