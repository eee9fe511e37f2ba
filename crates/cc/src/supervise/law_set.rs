//! What a supervisor needs from the laws that may control a window.

use core::fmt;

use super::law::ExplicitLaw;
use super::path::Path;
use super::takeover::feed;
use crate::base::Instant;
use crate::law::{Acked, Lost, Sent};
use crate::signals::{Feedback, Request};

/// One or more laws, of which one is active.
pub(crate) trait LawSet: fmt::Debug + Send {
    fn law(&self) -> &dyn ExplicitLaw;

    fn law_mut(&mut self) -> &mut dyn ExplicitLaw;

    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked);

    fn on_ack(&mut self, now: Instant) {
        let _ = now;
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        let _ = (now, lost);
    }

    /// Handles the beginning of a granted start under the control of routers.
    fn on_start(&mut self, now: Instant, path: &Path) {
        let _ = (now, path);
    }

    /// Returns the request for the next packet.
    fn request(&self, path: &Path) -> Request {
        self.law().request(path)
    }

    /// Returns n if every n-th packet should carry the request, where `round` packets are sent per
    /// round trip.
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
