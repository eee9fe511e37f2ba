//! Whose turn it is: ports with nothing to do are never looked at.

use pathmark_cc::{Duration, Instant};
use pathmark_link::Link;

use super::frame::Frame;
use super::router::Router;

/// The least step of time.
pub(super) const TICK: Duration = Duration::from_nanos(1);

impl Router {
    /// The next packet to be written to the interface of `port`. It goes back by
    /// [`Pool::give`](super::Pool::give).
    #[inline]
    pub fn poll(&mut self, now: Instant, port: usize) -> Option<Frame> {
        let place = self.ports.get_mut(port)?;
        let frame = place.link.poll(now, &mut self.store);
        match &frame {
            Some(frame) => place.tally.off_wire += u64::from(frame.packets()),
            None => self.rest(now, port),
        }
        frame
    }

    /// A port has nothing more to do at `now`. When it has next is only asked for once it matters:
    /// most often more packets come first.
    #[inline]
    fn rest(&mut self, now: Instant, port: usize) {
        if self.resting.is_some_and(|(other, _)| other != port) {
            self.settle();
        }
        self.resting = Some((port, now));
    }

    /// Takes the deadline of the port that was polled last.
    fn settle(&mut self) {
        let Some((port, polled)) = self.resting.take() else {
            return;
        };
        let link = self.ports.get(port).map(|port| &port.link);
        let at = link.and_then(Link::deadline);
        // Nothing more can happen at the moment of the poll, whatever the link says.
        let at = at.unwrap_or(Instant::FAR_FUTURE).max(polled + TICK);
        self.deadlines.set(port, at);
    }

    /// A port has something to do now.
    #[inline]
    pub(super) fn wake(&mut self, port: usize) {
        if self.resting.is_some_and(|(resting, _)| resting == port) {
            self.resting = None;
        }
        self.deadlines.set(port, Instant::ZERO);
    }

    /// A port that has something to do by `now`. Once it has been [`poll`](Self::poll)ed until
    /// nothing came, it is another one's turn; ports with nothing to do are never looked at.
    #[inline]
    #[must_use]
    pub fn due(&mut self, now: Instant) -> Option<usize> {
        if self.meter_due <= now {
            self.measure(now);
        }
        self.settle();
        let (port, at) = self.deadlines.first()?;
        (at <= now).then_some(port)
    }

    /// When some port has something to do next.
    #[inline]
    #[must_use]
    pub fn deadline(&mut self) -> Option<Instant> {
        self.settle();
        let port = self.deadlines.first().map(|(_, at)| at);
        let at = port.map_or(self.meter_due, |at| at.min(self.meter_due));
        (at < Instant::FAR_FUTURE).then_some(at)
    }
}
