//! Scheduling of ports. Ports without work are never looked at.

use pathmark_cc::{Duration, Instant};
use pathmark_link::Link;

use super::pool::Frame;
use super::router::Router;

/// The smallest step of time.
pub(super) const TICK: Duration = Duration::from_nanos(1);

impl Router {
    /// Returns the next packet for the interface of `port`. After writing it, return it to the
    /// pool with [`Pool::give`](super::Pool::give).
    pub fn poll(&mut self, now: Instant, port: usize) -> Option<Frame> {
        let place = self.ports.get_mut(port)?;
        let frame = place.link.poll(now, &mut self.store);
        match &frame {
            Some(frame) => place.tally.off_wire += u64::from(frame.packets()),
            None => self.rest(now, port),
        }
        frame
    }

    /// Records that a port has nothing more to do at `now`. Its next deadline is read only when
    /// it matters, because usually more packets arrive first.
    fn rest(&mut self, now: Instant, port: usize) {
        if self.resting.is_some_and(|(other, _)| other != port) {
            self.settle();
        }
        self.resting = Some((port, now));
    }

    /// Reads the deadline of the port that was polled last.
    fn settle(&mut self) {
        let Some((port, polled)) = self.resting.take() else {
            return;
        };
        let link = self.ports.get(port).map(|port| &port.link);
        let at = link.and_then(Link::deadline);
        // Nothing more can happen at the time of the poll, whatever the link reports.
        let at = at.unwrap_or(Instant::FAR_FUTURE).max(polled + TICK);
        self.deadlines.set(port, at);
    }

    /// Marks a port as having work now.
    pub(super) fn wake(&mut self, port: usize) {
        if self.resting.is_some_and(|(resting, _)| resting == port) {
            self.resting = None;
        }
        self.deadlines.set(port, Instant::ZERO);
    }

    /// Returns a port that has work to do by `now`. [`poll`](Self::poll) it until it returns
    /// nothing, then call this function again for the next port.
    #[must_use]
    pub fn due(&mut self, now: Instant) -> Option<usize> {
        if self.meter_due <= now {
            self.measure(now);
        }
        self.settle();
        let (port, at) = self.deadlines.first()?;
        (at <= now).then_some(port)
    }

    /// Returns when any port has work to do next.
    #[must_use]
    pub fn deadline(&mut self) -> Option<Instant> {
        self.settle();
        let port = self.deadlines.first().map(|(_, at)| at);
        let at = port.map_or(self.meter_due, |at| at.min(self.meter_due));
        (at < Instant::FAR_FUTURE).then_some(at)
    }
}
