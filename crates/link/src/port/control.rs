//! What the program behind a port reads and changes while the port runs: its state, its settings,
//! the capacity of its control law (the rate, a configured value, or a measurement), and restarts,
//! after which a port starts from its initial state.

use std::fmt;

use pathmark_cc::{CloudEstimate, Instant, LinkController, LinkMetrics, Upstream};

use super::follow::Follow;
use super::{Access, Port, Queues, Report};
use crate::impair::Code;
use crate::queue::{Depth, Limit, Owner, Popped, Pushed, Queue, Queued};
use crate::shaper::{Retimed, Shaper};
use crate::stats::{DropCause, LinkStats};

impl<P> Port<P> {
    /// Changes the rate, in bytes per second; a [report](Self::set_report) continues to limit it.
    /// Returns the effect on the packet in transmission, which has already been handed over;
    /// [`Link::set_rate`](crate::link::Link::set_rate) takes this into account.
    pub fn set_rate(&mut self, now: Instant, own: Option<u64>) -> Option<Retimed> {
        self.advance(now);
        let rate = match &mut self.report {
            None => own,
            Some(report) => {
                report.own = own;
                Some(own.map_or(report.rate, |own| own.min(report.rate)))
            }
        };
        let retimed = self.shaper.set_rate(now, rate);
        self.stats.on_rate(now, rate);
        self.law.on_capacity(now, self.capacity());
        retimed
    }

    /// Limits the rate to that of the link behind the port, in bytes per second, for as long as
    /// somebody who knows this link reports it. Packets then wait here, where the control law sees
    /// them, instead of in front of the link. A port that follows a trace stops doing so. Returns
    /// the same as [`set_rate`](Self::set_rate).
    pub fn set_report(&mut self, now: Instant, report: Option<u64>) -> Option<Retimed> {
        // If nothing is or was reported, the rate stays as it is.
        report.or(self.report.map(|report| report.rate))?;
        let own = self.own_rate();
        self.report = report.map(|rate| Report { rate, own });
        self.set_rate(now, own)
    }

    /// Passes a new estimate of the cloud behind `upstream` to the control law.
    pub fn tell_cloud(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.law.on_estimate(now, upstream, estimate);
    }

    /// Calls `visit` for each upstream router of a cloud that the control law keeps, with the
    /// bytes that have arrived from this router since then.
    pub fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        if let Some(controller) = self.law.controller() {
            controller.visit_clouds(visit);
        }
    }

    /// Replaces the control law, keeping queue and counters.
    pub fn set_controller(&mut self, now: Instant, controller: Option<Box<dyn LinkController>>) {
        self.law.replace(controller);
        self.law.on_capacity(now, self.capacity());
        self.law.on_buffer(self.queues.limit());
    }

    /// Changes the queue's limit; packets already waiting stay.
    pub fn set_limit(&mut self, limit: Limit) {
        match &mut self.queues {
            Queues::One(queue, _) => queue.set_limit(limit),
            Queues::Two(separation) => separation.set_limit(limit),
        }
        self.law.on_buffer(limit);
    }

    /// Changes the bytes that the link adds to each packet. Waiting packets keep their old
    /// counts.
    pub fn set_overhead(&mut self, bytes: u32) {
        self.overhead = bytes;
    }

    /// Changes the loss by corruption that the port declares for its link, in 10^-6 of packets.
    /// It is sent with each answer of the control law.
    pub fn set_corruption(&mut self, ppm: u32) {
        self.corruption_ppm = ppm;
    }

    /// Changes the code that protects packets; its redundancy takes a part of the rate. Waiting
    /// packets keep their old counts.
    pub(crate) fn set_code(&mut self, code: Option<Code>) {
        self.code = code;
    }

    /// Puts the port on a shared medium: from now on, each packet needs a [`grant`](Self::grant)
    /// to leave.
    pub fn share_medium(&mut self) {
        self.access = Access::Asked;
    }

    /// Lets one packet leave at the next [`poll`](Self::poll), not before `now`.
    pub fn grant(&mut self, now: Instant) {
        self.access = Access::Granted;
        self.shaper.hold(now);
    }
}

impl<P> Port<P> {
    /// Sets the capacity for the control law, in bytes per second, if the port cannot know it
    /// because the link behind it is slower than the port's rate, or because the port has no
    /// rate. `None`: its rate. This does not slow down the port itself.
    pub fn set_capacity(&mut self, now: Instant, hint: Option<u64>) {
        self.advance(now);
        self.hint = hint;
        self.law.on_capacity(now, self.capacity());
    }

    /// From now on, the control law gets a measurement instead of the rate: the rate at which
    /// the link could send over the last 100 ms. Until the first measurement, `rate` bytes per
    /// second are assumed.
    pub fn follow(&mut self, now: Instant, rate: u64) {
        self.advance(now);
        let offered = self.offered(now);
        self.follow = Some(Box::new(Follow::new(now, rate, offered)));
        self.law.on_capacity(now, self.capacity());
    }

    /// Measures how much the link could send.
    #[cold]
    pub(super) fn look(&mut self, now: Instant) {
        let offered = self.offered(now);
        if let Some(follow) = &mut self.follow {
            follow.look(now, offered);
            self.law.on_variation(follow.wait());
        }
        self.law.on_capacity(now, self.capacity());
    }

    /// Bytes that the link could have sent since it came up.
    fn offered(&self, now: Instant) -> u64 {
        let passed = self.shaper.offered(now);
        passed.unwrap_or_else(|| self.stats.capacity_bytes(now))
    }

    /// The capacity for the control law, in bytes per second.
    pub fn capacity(&self) -> Option<u64> {
        effective(self.follow.as_deref(), &self.shaper, self.hint)
    }
}

/// The capacity for a control law: the measured one if `follow` is set, otherwise the rate, but
/// at most the hint.
pub(super) fn effective(
    follow: Option<&Follow>,
    shaper: &Shaper,
    hint: Option<u64>,
) -> Option<u64> {
    let rate = follow.map(Follow::rate).or_else(|| shaper.rate());
    match (rate, hint) {
        (Some(rate), Some(hint)) => Some(rate.min(hint)),
        (rate, hint) => rate.or(hint),
    }
}

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

impl<P> Port<P> {
    /// When the transmitter is or was ready for the next packet.
    pub fn ready_at(&self) -> Instant {
        self.shaper.ready_at()
    }

    /// Depth of the queues.
    pub fn depth(&self) -> Depth {
        self.queues.depth()
    }

    /// The rate in bytes per second, also if a report limits it.
    pub fn rate(&self) -> Option<u64> {
        self.shaper.rate()
    }

    /// The rate in bytes per second without the limit of a report.
    pub fn own_rate(&self) -> Option<u64> {
        self.report.map_or(self.shaper.rate(), |report| report.own)
    }

    /// Counters.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Returns true if a control law is installed.
    pub fn has_controller(&self) -> bool {
        self.law.controller().is_some()
    }

    /// Returns true if the port looks at the contents of packets, either for a control law or to
    /// separate them.
    pub fn reads_packets(&self) -> bool {
        self.has_controller() || matches!(self.queues, Queues::Two(_))
    }

    /// Number of times that flows were set aside because they continued to exceed their fair
    /// share while the queue of feedback overflowed; newcomers that are set aside together count
    /// once.
    pub fn times_set_aside(&self) -> u64 {
        match &self.queues {
            Queues::One(..) => 0,
            Queues::Two(separation) => separation.watch().times(),
        }
    }

    /// The control law's state; `None` without one.
    pub fn metrics(&self) -> Option<LinkMetrics> {
        self.law.controller().map(LinkController::metrics)
    }
}
