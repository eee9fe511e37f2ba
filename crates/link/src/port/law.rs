//! The control law of a port, and its clock, which stops while the port does not run.
//!
//! A port is driven by packets and deadlines. A process without processor time serves neither, but
//! an idle port has no deadline that it could miss. Therefore, a port that recently received
//! packets always has a deadline: its pulse.

use pathmark_cc::{
    Answer, Arrival, Carried, CloudEstimate, Duration, Instant, LinkController, Upstream,
};

use crate::queue::Limit;

/// The control law with its cached deadline, so that most packets only ask it for their answer.
///
/// The law's clock stops while the port does not run. Because a law measures over time and no
/// packet can arrive or leave while the port does not run, it would otherwise regard the link as
/// idle, and grant this time's capacity on top of the flows' present rates.
pub(super) struct Law {
    controller: Option<Box<dyn LinkController>>,
    /// The registered protocol that the law answers.
    own: Option<u8>,
    /// On the port's clock.
    pub(super) timer: Instant,
    /// Nanoseconds in which the port did not run since the law was installed.
    stalled: u64,
}

impl Law {
    /// No law.
    pub(super) const fn none() -> Self {
        Self {
            controller: None,
            own: None,
            timer: Instant::FAR_FUTURE,
            stalled: 0,
        }
    }

    /// Installs a law, or none. Its clock starts with the port's present time.
    pub(super) fn replace(&mut self, controller: Option<Box<dyn LinkController>>) {
        self.own = controller.as_ref().and_then(|law| law.protocol());
        self.controller = controller;
        self.stalled = 0;
        self.refresh();
    }

    /// Makes a packet foreign if the law does not answer its protocol.
    pub(super) fn read(&self, carried: &mut Carried) {
        let foreign = match (self.own, &*carried) {
            (None, Carried::Own(_)) => true,
            (None, _) => false,
            (Some(own), Carried::Own(words)) => words.kind != own,
            (Some(_), _) => true,
        };
        if foreign {
            *carried = Carried::Foreign;
        }
    }

    /// The law, for installing it elsewhere.
    pub(super) fn into_controller(self) -> Option<Box<dyn LinkController>> {
        self.controller
    }

    /// The law.
    pub(super) fn controller(&self) -> Option<&dyn LinkController> {
        self.controller.as_deref()
    }

    /// Records that the port did not run for this number of nanoseconds.
    #[cold]
    pub(super) fn on_stall(&mut self, nanos: u64) {
        self.stalled = self.stalled.saturating_add(nanos);
        self.refresh();
    }

    /// The time on the law's clock.
    const fn clock(&self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_sub(self.stalled))
    }

    pub(super) fn on_estimate(
        &mut self,
        now: Instant,
        upstream: Upstream,
        estimate: &CloudEstimate,
    ) {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            controller.on_estimate(now, upstream, estimate);
        }
    }

    /// Passes an arriving packet or run to the law. Returns false if the law drops it.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) -> bool {
        if packets > 1 {
            return self.takes_run(now, run, packets, queue);
        }
        let now = self.clock(now);
        let Some(controller) = &mut self.controller else {
            return true;
        };
        match controller.take(now, run, queue) {
            Some(timer) => {
                self.timer = after(timer, self.stalled);
                true
            }
            None => false,
        }
    }

    fn takes_run(&mut self, now: Instant, run: &Arrival, packets: u32, queue: u64) -> bool {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            if !controller.admits_all(now, run, packets) {
                return false;
            }
            controller.on_arrivals(now, run, packets, queue);
            self.refresh();
        }
        true
    }

    /// Passes an arriving packet or run that does not count for the law.
    pub(super) fn on_unheard(&mut self, now: Instant, arrival: &Arrival) {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            controller.on_unheard(now, arrival);
        }
    }

    #[inline]
    pub(super) fn on_departure(&mut self, now: Instant, arrival: &Arrival, queue: u64) -> Answer {
        let now = self.clock(now);
        match &mut self.controller {
            Some(controller) => controller.on_departure(now, arrival, queue),
            None => Answer::None,
        }
    }

    pub(super) fn on_drop(&mut self, now: Instant, arrival: &Arrival) {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            controller.on_drop(now, arrival);
        }
    }

    #[cold]
    pub(super) fn on_set_aside(&mut self, now: Instant) {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            controller.on_set_aside(now);
        }
        self.refresh();
    }

    pub(super) fn on_timer(&mut self, now: Instant, queue: u64) {
        let now = self.clock(now);
        if let Some(controller) = &mut self.controller {
            controller.on_timer(now, queue);
        }
        self.refresh();
    }

    pub(super) fn on_capacity(&mut self, now: Instant, rate: Option<u64>) {
        let now = self.clock(now);
        if let (Some(controller), Some(rate)) = (&mut self.controller, rate) {
            controller.on_capacity(now, rate);
        }
        self.refresh();
    }

    pub(super) fn on_variation(&mut self, wait: Duration) {
        if let Some(controller) = &mut self.controller {
            controller.on_variation(wait);
        }
    }

    pub(super) fn on_buffer(&mut self, limit: Limit) {
        if let Some(controller) = &mut self.controller {
            controller.on_buffer(limit.bytes());
        }
    }

    fn refresh(&mut self) {
        self.timer = self
            .controller
            .as_ref()
            .and_then(|controller| controller.deadline())
            .map_or(Instant::FAR_FUTURE, |at| after(at, self.stalled));
    }
}

/// The time `nanos` ns after `at`.
const fn after(at: Instant, nanos: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(nanos))
}

/// Nanoseconds between two beats, which is also the time for which a transmitter catches up
/// ([`Shaper`](crate::shaper::Shaper)). If a driver is later than this after a beat, it did not
/// run.
const BEAT: u64 = 50_000_000;
/// Number of beats without a packet after which a port rests. Together they are longer than most
/// round trips.
const REST: u32 = 64;

/// A regular beat while packets arrive, as described in the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    due: Instant,
    /// Beats since the last packet.
    idle: u32,
}

impl Pulse {
    /// Creates a pulse at rest.
    pub(super) const fn new() -> Self {
        Self {
            due: Instant::FAR_FUTURE,
            idle: 0,
        }
    }

    /// The next beat.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Records the arrival of a packet, after everything that was due by then.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.idle = 0;
        if self.due == Instant::FAR_FUTURE {
            self.due = next(now);
        }
    }

    /// Handles a beat that is due. Returns the nanoseconds in which the port did not run.
    #[cold]
    pub(super) fn beat(&mut self, now: Instant) -> u64 {
        let late = now.as_nanos().saturating_sub(self.due.as_nanos());
        self.idle += 1;
        let rests = self.idle > REST;
        self.due = if rests {
            Instant::FAR_FUTURE
        } else {
            next(now)
        };
        if late > BEAT { late } else { 0 }
    }
}

const fn next(now: Instant) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(BEAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_later_than_a_beat_is_a_stall() {
        let at = Instant::from_millis;
        let mut pulse = Pulse::new();
        assert_eq!(pulse.due(), Instant::FAR_FUTURE);
        pulse.on_arrival(at(1000));
        assert_eq!(pulse.due(), at(1050));
        assert_eq!(pulse.beat(at(1100)), 0, "a beat late");
        assert_eq!(pulse.due(), at(1150));
        assert_eq!(pulse.beat(at(2150)), 1_000_000_000);
        assert_eq!(pulse.due(), at(2200));
    }

    /// Without further packets, it beats 64 times, and then at the next packet.
    #[test]
    fn a_port_that_nothing_comes_to_rests() {
        let at = Instant::from_millis;
        let mut pulse = Pulse::new();
        pulse.on_arrival(at(0));
        let mut beats = 0;
        while pulse.due() < Instant::FAR_FUTURE {
            assert_eq!(pulse.beat(pulse.due()), 0);
            beats += 1;
        }
        assert_eq!(beats, REST + 1);
        pulse.on_arrival(at(60_000));
        assert_eq!(pulse.due(), at(60_050));
    }
}
