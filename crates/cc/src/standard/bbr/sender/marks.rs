//! Congestion Experienced in the IP header.
//!
//! The draft leaves the response open, but "the congestion controller response MUST treat any CE
//! marks as congestion" (draft-ietf-ccwg-bbr, "ECN"). Here a mark stands for a round trip whose
//! losses are more than what is accepted: one is enough, since a queue that marks drops nothing.
//! One round trip's marks count once, and a spurious loss undoes nothing of what they set.

use super::Bbr;
use crate::base::Instant;
use crate::standard::bbr::cycle::State;

impl Bbr {
    /// A packet that was sent at `sent_at`, or one before it, came back marked.
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
            // Of what the probe sends or, from its first round trip, of what it adds to.
            State::Refill => self.too_much(now, &newest),
            _ if self.probe.sampling => self.too_much(now, &newest),
            // The end of the round trip lowers the short-term bounds.
            _ => {}
        }
    }
}
