//! The law of a frame, or several laws that it exchanges.

use core::fmt;

use super::law::ExplicitLaw;
use super::path::Path;
use super::takeover::feed;
use crate::base::Instant;
use crate::law::{Acked, Lost, Sent};
use crate::signals::{Feedback, Request};

/// The law of a frame, or several of which one has the path.
pub(crate) trait LawSet: fmt::Debug + Send {
    /// The law that has the path.
    fn law(&self) -> &dyn ExplicitLaw;

    /// The same, to change it.
    fn law_mut(&mut self) -> &mut dyn ExplicitLaw;

    /// A packet was sent.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// Feedback came.
    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked);

    /// Packets were acknowledged.
    fn on_ack(&mut self, now: Instant) {
        let _ = now;
    }

    /// Packets were lost.
    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        let _ = (now, lost);
    }

    /// A granted start begins, which routers steer.
    fn on_start(&mut self, now: Instant, path: &Path) {
        let _ = (now, path);
    }

    /// The request in the next packet.
    fn request(&self, path: &Path) -> Request {
        self.law().request(path)
    }

    /// The request rides on each n-th packet, where `round` packets are sent per round trip.
    fn signal_every(&self, path: &Path, round: u64) -> u32 {
        self.law().signal_every(path, round)
    }
}

impl<L: ExplicitLaw> LawSet for L {
    #[inline]
    fn law(&self) -> &dyn ExplicitLaw {
        self
    }

    #[inline]
    fn law_mut(&mut self) -> &mut dyn ExplicitLaw {
        self
    }

    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked) {
        feed(self, now, path, feedback, acked);
    }
}
