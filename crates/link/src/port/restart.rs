//! Restarts, after which a port starts from its initial state.

use std::fmt;

use pathmark_cc::Instant;

use super::Port;
use super::queues::Queues;
use crate::owner::Owner;
use crate::queue::{Depth, Limit, Popped, Pushed, Queue, Queued};
use crate::stats::DropCause;

/// Rebuilds a port in its state when its router first started: with empty queues and a law in
/// its initial state. It gets the present time.
pub struct Rebuild<P>(Box<dyn FnMut(Instant) -> Option<Port<P>> + Send>);

impl<P: 'static> Rebuild<P> {
    /// Uses `build` to create the port. `None` leaves the port without queue and law, so that it
    /// drops all packets.
    pub fn new(build: impl FnMut(Instant) -> Option<Port<P>> + Send + 'static) -> Self {
        Self(Box::new(build))
    }

    /// Also applies `change` to each port that it creates.
    #[must_use]
    pub fn with(mut self, mut change: impl FnMut(Instant, &mut Port<P>) + Send + 'static) -> Self {
        Self::new(move |now| {
            let mut port = (self.0)(now)?;
            change(now, &mut port);
            Some(port)
        })
    }
}

impl<P> Rebuild<P> {
    pub(crate) fn build(&mut self, now: Instant) -> Option<Port<P>> {
        (self.0)(now)
    }
}

impl<P> fmt::Debug for Rebuild<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rebuild")
    }
}

impl<P> Port<P> {
    /// Returns every waiting packet to its owner as [`DropCause::Removed`].
    pub fn clear(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        loop {
            let Popped { item, dropped } = self.queues.pop(now, owner);
            self.refuse(DropCause::Early, u32::try_from(dropped).unwrap_or(u32::MAX));
            let Some(item) = item else {
                break;
            };
            self.refuse(DropCause::Removed, item.packets);
            owner.dropped(item.packet, DropCause::Removed);
        }
        self.measure(now);
    }
}

impl<P: 'static> Port<P> {
    /// Stops its router: returns every waiting packet to its owner as [`DropCause::Removed`],
    /// removes the control law, and drops arriving packets until [`come_up`](Self::come_up).
    pub(crate) fn go_down(&mut self, now: Instant, owner: &mut dyn Owner<P>) {
        self.advance(now);
        self.clear(now, owner);
        let limit = self.queues.limit();
        self.queues = Queues::One(Box::new(Down(limit)), Depth::default());
        self.law.replace(None);
        self.measure(now);
    }

    /// Starts its router again, with the queue, control law and capacity measurement of `fresh`.
    /// Transmitter, rate, counters and declared values stay.
    pub(crate) fn come_up(&mut self, now: Instant, fresh: Self) {
        self.advance(now);
        self.queues = fresh.queues;
        self.law.replace(fresh.law.into_controller());
        if let Some(follow) = fresh.follow {
            self.follow(now, follow.rate());
        }
        self.law.on_capacity(now, self.capacity());
        self.law.on_buffer(self.queues.limit());
        self.measure(now);
    }
}

/// The queue of a port whose router is down. It drops all packets.
struct Down(Limit);

impl<P> Queue<P> for Down {
    fn push(&mut self, _now: Instant, item: Queued<P>, owner: &mut dyn Owner<P>) -> Pushed {
        owner.dropped(item.packet, DropCause::Removed);
        Pushed::Dropped(DropCause::Removed)
    }

    fn pop(&mut self, _now: Instant, _owner: &mut dyn Owner<P>) -> Popped<P> {
        Popped {
            item: None,
            dropped: 0,
        }
    }

    fn pop_youngest(&mut self) -> Option<Queued<P>> {
        None
    }

    fn youngest(&self) -> Option<&Queued<P>> {
        None
    }

    fn depth(&self) -> Depth {
        Depth::default()
    }

    fn limit(&self) -> Limit {
        self.0
    }

    fn set_limit(&mut self, limit: Limit) {
        self.0 = limit;
    }
}
