//! Settings of a port that can change while it runs.

use pathmark_cc::{CloudEstimate, Instant, LinkController, Upstream};

use super::{Access, Port, Queues};
use crate::impair::Code;
use crate::queue::Limit;
use crate::shaper::Retimed;

impl<P> Port<P> {
    /// Changes the rate, in bytes per second. Returns the effect on the packet in transmission,
    /// which has already been handed over; [`Link::set_rate`](crate::link::Link::set_rate) takes
    /// this into account.
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
