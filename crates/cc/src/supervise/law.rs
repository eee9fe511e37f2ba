//! Laws whose window follows routers, as the frame sees them.

use core::fmt;

use super::path::Path;
use crate::base::{Duration, Instant};
use crate::law::{Acked, Limits, Lost, Sent};
use crate::metrics::{FallbackReason, Metrics};
use crate::signals::{Feedback, Request};

/// What of the acknowledgements and losses the search for hops without feedback looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Acknowledgements.
    pub(crate) acks: bool,
    /// Losses while routers answer.
    pub(crate) losses: bool,
    /// Losses of the first packets.
    pub(crate) first_losses: bool,
}

/// What ended the law's control of the window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// Routers no longer answer.
    NoAnswer,
    /// A hop without feedback is the narrow one; CUBIC begins with this window.
    HiddenHop(u64),
}

/// A law whose window follows routers' feedback. The frame, [`Supervised`](super::Supervised),
/// decides when it has the window and feeds the standard law otherwise.
///
/// Events whose description ends with "while the law rules" come only then.
pub(crate) trait ExplicitLaw: fmt::Debug + Send {
    // When the law has the window.

    /// The law has the window from now on, with `window` bytes.
    fn begin(&mut self, now: Instant, window: u64);

    /// The law has the window no longer.
    fn end(&mut self, now: Instant, end: End);

    /// True while standard control has the window for a reason of the law's own, although routers
    /// answer.
    fn yields(&self) -> bool {
        false
    }

    /// True while the law has the window.
    #[inline]
    fn rules(&self, path: &Path) -> bool {
        path.answered() && !self.yields()
    }

    // The window.

    /// The window by the routers' feedback, in bytes.
    fn steered(&self, path: &Path) -> u64;

    /// The window of the law that rules.
    #[inline]
    fn own_window(&self, path: &Path) -> u64 {
        if self.rules(path) {
            self.steered(path)
        } else {
            path.fallback.window()
        }
    }

    /// What may be in flight by the window, while the law rules.
    fn sendable(&self, path: &Path) -> u64 {
        self.steered(path)
    }

    /// What may be in flight by the window of the law that rules.
    #[inline]
    fn in_flight(&self, path: &Path) -> u64 {
        if self.rules(path) {
            self.sendable(path)
        } else {
            path.fallback.window()
        }
    }

    /// Windows per round trip at which packets leave while the law rules, as a fraction. `None`:
    /// what any window lets go leaves at once.
    fn pace(&self) -> Option<(u64, u64)>;

    /// Not above `bytes`.
    fn cap(&mut self, bytes: u64);

    /// Not below `bytes`.
    fn floor(&mut self, bytes: u64);

    // The search for hops without feedback.

    /// What the search looks at.
    fn search(&self) -> Search;

    /// The time within which routers announce a queue of their own.
    fn patience(&self, srtt: Duration) -> Duration;

    // Events.

    /// A packet was sent; the value is kept with it.
    fn on_sent(&mut self, path: &Path, sent: &Sent) -> u64 {
        let _ = (path, sent);
        0
    }

    /// Packets that came back, unanswered and by three kinds of answers. `None`: the feedback is
    /// not of the law's protocol.
    fn answers(&self, feedback: &Feedback) -> Option<[u64; 4]>;

    /// The RTT sample of an acknowledgement counts for the feedback that comes with it.
    fn samples_first(&self) -> bool {
        false
    }

    /// Feedback of the law's protocol came.
    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked);

    /// True if acknowledgements without feedback mean that routers do not answer.
    fn misses_feedback(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, now: Instant, path: &mut Path, acked: &Acked) {
        let _ = (now, path, acked);
    }

    /// Packets were acknowledged while the law rules.
    fn on_ruled_ack(&mut self, now: Instant, path: &Path, acked: &Acked) {
        let _ = (now, path, acked);
    }

    /// Packets were lost while the law rules.
    fn on_loss(&mut self, now: Instant, path: &mut Path, lost: &Lost);

    /// A queue marked a packet that was sent at `sent_at`, while the law rules.
    fn on_marked(&mut self, now: Instant, path: &mut Path, sent_at: Instant);

    /// Persistent congestion while the law rules.
    fn on_persistent_congestion(&mut self, now: Instant, path: &Path);

    /// The last loss was none, while the law rules.
    fn on_spurious_loss(&mut self) {}

    /// Nothing was sent for `idle`, while the law rules.
    fn on_restart(&mut self, now: Instant, path: &Path, idle: Duration);

    /// Other bounds of the sender than the window.
    fn on_limits(&mut self, limits: &Limits) {
        let _ = limits;
    }

    // Requests.

    /// The request in the next packet.
    fn request(&self, path: &Path) -> Request;

    /// The request rides on each n-th packet, where `round` packets are sent per round trip.
    fn signal_every(&self, path: &Path, round: u64) -> u32;

    // Granted starts.

    /// What the law has been granted before, beyond the initial window.
    fn granted_before(&self, path: &Path) -> u64 {
        let _ = path;
        0
    }

    /// `window` bytes are granted while the law rules.
    fn begin_granted(&mut self, now: Instant, path: &Path, window: u64);

    /// A granted flight of `window` bytes leaves before any router's feedback; 0: it is over.
    fn state_flight(&mut self, window: u64) {
        let _ = window;
    }

    /// As [`Startable::wait_for_measure`](crate::quick_start::Startable::wait_for_measure).
    fn wait_for_measure(&mut self, now: Instant, path: &Path, rounds: u32) {
        let _ = (now, path, rounds);
    }

    /// Routers leave `window` bytes of what they granted; `rules`: the law does.
    fn give_back(&mut self, now: Instant, path: &mut Path, window: u64, rules: bool);

    /// Part of a granted window was lost while the law rules: goes on with `window` bytes.
    fn give_up(&mut self, now: Instant, window: u64, last_sent: u64);

    /// As [`Startable::usable`](crate::quick_start::Startable::usable).
    fn usable(&self, limits: &Limits) -> u64 {
        // What the peer and the buffer allow grows with what is granted.
        limits.application
    }

    // Reports.

    /// State for reports, while the law rules.
    fn metrics(&self, path: &Path) -> Metrics;

    /// Why it does not rule.
    fn reason(&self, path: &Path) -> FallbackReason;
}
