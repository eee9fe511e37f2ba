//! Interface between the frame and laws whose window follows routers.

use core::fmt;

use super::path::Path;
use crate::base::{Duration, Instant};
use crate::law::{Acked, Limits, Lost, Sent};
use crate::metrics::{FallbackReason, Metrics};
use crate::signals::{Feedback, Request};

/// Selects the events used in the search for hops without feedback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) acks: bool,
    /// Losses while routers answer the packets.
    pub(crate) losses: bool,
    /// Losses before that.
    pub(crate) first_losses: bool,
}

/// Reason why a law's control of the window ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// Routers no longer answer.
    NoAnswer,
    /// A hop without feedback is the bottleneck. CUBIC begins with this window in bytes.
    HiddenHop(u64),
}

/// A law whose window follows routers' feedback. The frame, [`Supervised`](super::Supervised),
/// decides when the law controls the window, and feeds a standard law otherwise.
///
/// Some methods are only called while the law is in control, as documented below.
pub(crate) trait ExplicitLaw: fmt::Debug + Send {
    // Control of the window.

    /// Takes control of the window with `window` bytes.
    fn begin(&mut self, now: Instant, window: u64);

    /// Loses control of the window.
    fn end(&mut self, now: Instant, end: End);

    /// Returns true while the law leaves the window to standard control for a reason of its own,
    /// although routers answer.
    fn yields(&self) -> bool {
        false
    }

    /// Returns true while the law controls the window.
    #[inline]
    fn rules(&self, path: &Path) -> bool {
        path.answered() && !self.yields()
    }

    // The window.

    /// Returns the window in bytes that follows from the routers' feedback.
    fn steered(&self, path: &Path) -> u64;

    /// Returns the window in bytes of the law in control.
    #[inline]
    fn own_window(&self, path: &Path) -> u64 {
        if self.rules(path) {
            self.steered(path)
        } else {
            path.fallback.window()
        }
    }

    /// Returns how many bytes may be in flight according to the routers' feedback. Only called
    /// while in control.
    fn sendable(&self, path: &Path) -> u64 {
        self.steered(path)
    }

    /// Returns how many bytes may be in flight according to the law in control.
    #[inline]
    fn in_flight(&self, path: &Path) -> u64 {
        if self.rules(path) {
            self.sendable(path)
        } else {
            path.fallback.window()
        }
    }

    /// Returns the pace as a fraction in windows per RTT, applied while in control. With `None`,
    /// packets leave immediately whenever a window allows, even that of the standard law.
    fn pace(&self) -> Option<(u64, u64)>;

    /// Limits the window to at most `bytes`.
    fn cap(&mut self, bytes: u64);

    /// Raises the window to at least `bytes`.
    fn floor(&mut self, bytes: u64);

    // Search for hops without feedback.

    /// Returns the events used in the search.
    fn search(&self) -> Search;

    /// Returns the time within which routers announce their own queue.
    fn patience(&self, srtt: Duration) -> Duration;

    // Events.

    /// Handles sending a packet. Returns the value to be stored with it.
    fn on_sent(&mut self, path: &Path, sent: &Sent) -> u64 {
        let _ = (path, sent);
        0
    }

    /// Returns the numbers of packets that returned unanswered, and with each of three kinds of
    /// answers. `None` if the feedback doesn't belong to the law's protocol.
    fn answers(&self, feedback: &Feedback) -> Option<[u64; 4]>;

    /// Returns true if the RTT sample of an acknowledgement already applies to its feedback.
    fn samples_first(&self) -> bool {
        false
    }

    /// Handles feedback of the law's protocol.
    fn on_feedback(&mut self, now: Instant, path: &mut Path, feedback: &Feedback, acked: &Acked);

    /// Returns true if acknowledgements without feedback mean that routers don't answer.
    fn misses_feedback(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    fn on_ack(&mut self, now: Instant, path: &mut Path, acked: &Acked) {
        let _ = (now, path, acked);
    }

    /// Handles acknowledged packets while in control.
    fn on_ruled_ack(&mut self, now: Instant, path: &Path, acked: &Acked) {
        let _ = (now, path, acked);
    }

    /// Handles lost packets while in control.
    fn on_loss(&mut self, now: Instant, path: &mut Path, lost: &Lost);

    /// Handles the marking of a packet sent at `sent_at` while in control.
    fn on_marked(&mut self, now: Instant, path: &mut Path, sent_at: Instant);

    /// Handles persistent congestion while in control.
    fn on_persistent_congestion(&mut self, now: Instant, path: &Path);

    /// Handles a spurious loss while in control.
    fn on_spurious_loss(&mut self) {}

    /// Handles restarting after a pause of `idle` while in control.
    fn on_restart(&mut self, now: Instant, path: &Path, idle: Duration);

    /// Receives the sender's limits other than the window.
    fn on_limits(&mut self, limits: &Limits) {
        let _ = limits;
    }

    // Requests.

    /// Returns the request for the next packet.
    fn request(&self, path: &Path) -> Request;

    /// Returns n if every n-th packet should carry the request, where `round` packets are sent per
    /// round trip.
    fn signal_every(&self, path: &Path, round: u64) -> u32;

    // Granted starts.

    /// Returns the bytes granted earlier, beyond the initial window.
    fn granted_before(&self, path: &Path) -> u64 {
        let _ = path;
        0
    }

    /// Starts with a grant of `window` bytes while in control.
    fn begin_granted(&mut self, now: Instant, path: &Path, window: u64);

    /// Handles sending a granted flight of `window` bytes before any router's feedback, or its end
    /// (0).
    fn state_flight(&mut self, window: u64) {
        let _ = window;
    }

    /// See [`Startable::wait_for_measure`](crate::quick_start::Startable::wait_for_measure).
    fn wait_for_measure(&mut self, now: Instant, path: &Path, rounds: u32) {
        let _ = (now, path, rounds);
    }

    /// Gives back granted bytes beyond `window`. `rules` is true if the law is in control.
    fn give_back(&mut self, now: Instant, path: &mut Path, window: u64, rules: bool);

    /// Gives up part of a granted window because of losses, while in control, and continues with
    /// `window` bytes.
    fn give_up(&mut self, now: Instant, window: u64, last_sent: u64);

    /// See [`Startable::usable`](crate::quick_start::Startable::usable).
    fn usable(&self, limits: &Limits) -> u64 {
        // The limits of the peer and of the buffer grow with the grant.
        limits.application
    }

    // Reports.

    /// Returns the state for reports while in control.
    fn metrics(&self, path: &Path) -> Metrics;

    /// Returns why the law isn't in control.
    fn reason(&self, path: &Path) -> FallbackReason;
}
