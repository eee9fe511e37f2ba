//! What of a port may be changed while it runs.

use pathmark_cc::{CloudEstimate, Instant, LinkController, Upstream};

use super::{Access, Port, Queues};
use crate::impair::Code;
use crate::queue::Limit;
use crate::shaper::Retimed;

impl<P> Port<P> {
    /// Changes the rate, in bytes per second. Returns what that does to the packet in transmission,
    /// which has been handed over: [`Link::set_rate`](crate::link::Link::set_rate) minds that.
    pub fn set_rate(&mut self, now: Instant, rate: Option<u64>) -> Option<Retimed> {
        self.advance(now);
        let retimed = self.shaper.set_rate(now, rate);
        self.stats.on_rate(now, rate);
        self.law.on_capacity(now, self.capacity());
        retimed
    }

    /// Passes a new estimate of the cloud behind `upstream` to the control law.
    pub fn tell_cloud(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.law.on_estimate(now, upstream, estimate);
    }

    /// Shows each upstream router of a cloud that the control law keeps, with the bytes that have
    /// come from it since it is kept.
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

    /// Changes the queue's limit; what waits beyond it stays.
    pub fn set_limit(&mut self, limit: Limit) {
        match &mut self.queues {
            Queues::One(queue, _) => queue.set_limit(limit),
            Queues::Two(separation) => separation.set_limit(limit),
        }
        self.law.on_buffer(limit);
    }

    /// Changes the bytes that the link adds to each packet; packets that wait keep what they were
    /// counted with.
    pub fn set_overhead(&mut self, bytes: u32) {
        self.overhead = bytes;
    }

    /// Changes the loss by corruption that the port declares for the link behind it, in 10^-6 of
    /// packets: it goes with each answer of the control law.
    pub fn set_corruption(&mut self, ppm: u32) {
        self.corruption_ppm = ppm;
    }

    /// Changes what the link protects packets with: the redundancy takes its share of the rate.
    /// Packets that wait keep what they were counted with.
    pub(crate) fn set_code(&mut self, code: Option<Code>) {
        self.code = code;
    }

    /// Puts the port on a medium that others use too: from now on each packet leaves after a
    /// [`grant`](Self::grant) only.
    pub fn share_medium(&mut self) {
        self.access = Access::Asked;
    }

    /// Lets one packet leave at the next [`poll`](Self::poll), from now on.
    pub fn grant(&mut self, now: Instant) {
        self.access = Access::Granted;
        self.shaper.hold(now);
    }
}
