//! Congestion Experienced in the IP header.
//!
//! The draft leaves the response open, but "the congestion controller response MUST treat any CE
//! marks as congestion" (draft-ietf-ccwg-bbr, "ECN"). Here a mark is equivalent to a round trip
//! with more losses than accepted. One mark is enough, because a queue that marks drops nothing.
//! All marks of one round trip count once, and a spurious loss does not undo their effects.

use super::Bbr;
use crate::base::Instant;
use crate::standard::bbr::cycle::State;

impl Bbr {
    /// Handles the mark of a packet that was sent at `sent_at`, or of an earlier packet.
    pub(super) fn note_mark(&mut self, now: Instant, sent_at: Instant) {
        if self.marked_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        self.marked_at = Some(now);
        self.begin_lossy_round();
        self.losses.marked = true;
        let newest = self.newest;
        match self.state {
            State::Startup => self.fill_pipe(),
            // Marks are for the probe's packets or, in its first round trip, for those it adds to.
            State::Refill => self.too_much(now, &newest),
            _ if self.probe.sampling => self.too_much(now, &newest),
            // The end of the round trip lowers the short-term bounds.
            _ => {}
        }
    }
}
