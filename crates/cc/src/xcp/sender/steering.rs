//! The window while routers control it: it changes by the routers' grants, and ages while it is not
//! used.

use super::XcpLaw;
use crate::base::arith::{micros, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::metrics::FallbackReason;
use crate::signals::XcpFeedback;
use crate::supervise::{ExplicitLaw, Path};
use crate::xcp::params::{MAX_INTERVAL, XcpLoss};

/// Fraction bits of the window, and of rates.
const BITS: u32 = 16;
const MAX_Q16: i128 = (1 << 62) - 1;
const MICROS: i128 = 1_000_000;
/// More halvings leave nothing.
const MOST_HALVINGS: u64 = 62;

/// A congestion window with a fraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steering {
    q16: i128,
    /// The remainder below 2^-16 bytes, in 2^-16 bytes per second · µs.
    rest: i128,
    round: Round,
    kept_until: Instant,
}

/// The current round trip, for ageing.
#[derive(Clone, Copy, Debug)]
struct Round {
    since: Instant,
    bytes: u64,
    /// True if the window limited the sender at some point.
    limited: bool,
}

impl Round {
    const fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            limited: false,
        }
    }
}

impl Steering {
    pub(crate) fn new(now: Instant, bytes: u64) -> Self {
        Self {
            q16: (i128::from(bytes) << BITS).min(MAX_Q16),
            rest: 0,
            round: Round::new(now),
            kept_until: now,
        }
    }

    /// Prevents ageing before `until`.
    pub(crate) const fn keep_until(&mut self, until: Instant) {
        self.kept_until = until;
    }

    /// The window in whole bytes, rounded down.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.q16 >> BITS).unwrap_or(0)
    }

    #[cfg(test)]
    pub(crate) const fn q16(&self) -> i128 {
        self.q16
    }

    /// Applies a rate change `delta` in 2^-16 bytes per second: the window changes by this amount
    /// times the round trip, but does not fall below `floor` bytes. [XCP-i II-A window].
    pub(crate) fn apply(&mut self, delta: i64, srtt: Duration, floor: u64) {
        let rtt = i128::from(micros(srtt.min(MAX_INTERVAL)).max(1));
        self.rest += i128::from(delta) * rtt;
        let whole = self.rest.div_euclid(MICROS);
        self.rest -= whole * MICROS;
        self.q16 = (self.q16 + whole).min(MAX_Q16);
        self.floor(floor);
    }

    /// Lowers the window to `bytes` if it is larger.
    pub(crate) fn cap(&mut self, bytes: u64) {
        self.q16 = self.q16.min((i128::from(bytes) + 1) << BITS);
    }

    /// Raises the window to `bytes` if it is smaller.
    pub(crate) fn floor(&mut self, bytes: u64) {
        let least = i128::from(bytes) << BITS;
        if self.q16 < least {
            self.q16 = least.min(MAX_Q16);
            self.rest = 0;
        }
    }

    /// Handles an acknowledgement. After a round trip in which it did not limit the sender, the
    /// window falls halfway to the bytes used, but not below `floor` bytes (draft-falk-xcp-spec-03,
    /// section 4.1.3.1, with p = ½). Returns true at the end of a round trip.
    pub(crate) fn age(
        &mut self,
        now: Instant,
        srtt: Duration,
        bytes: u64,
        limited: bool,
        floor: u64,
    ) -> bool {
        self.round.bytes = self.round.bytes.saturating_add(bytes);
        self.round.limited |= limited;
        if ns_since(now, self.round.since) < nanos(srtt) {
            return false;
        }
        let Round { bytes, limited, .. } = core::mem::replace(&mut self.round, Round::new(now));
        if !limited && now >= self.kept_until {
            self.halve_towards(bytes.max(floor), 1);
        }
        true
    }

    /// Ages the window by the number of round trips in `idle`, during which nothing was sent.
    pub(crate) fn idle(&mut self, now: Instant, idle: Duration, srtt: Duration, floor: u64) {
        let rounds = nanos(idle) / nanos(srtt).max(1);
        self.halve_towards(floor, rounds);
        self.round = Round::new(now);
    }

    fn halve_towards(&mut self, bytes: u64, times: u64) {
        let used = i128::from(bytes) << BITS;
        if self.q16 > used {
            self.q16 = used + ((self.q16 - used) >> times.min(MOST_HALVINGS));
        }
    }
}

// Standard control that replaces the routers' control although they answer.

/// The sign by which a hop without feedback was found.
pub(super) fn hop_shown_by(feedback: &XcpFeedback) -> FallbackReason {
    if feedback.uncounted {
        FallbackReason::NoEstimate
    } else if feedback.unmarked_hop == Some(true) {
        FallbackReason::PlainHop
    } else if feedback.ttl_rewritten {
        FallbackReason::TtlRewritten
    } else {
        FallbackReason::HiddenHop
    }
}

impl XcpLaw {
    /// Hands control to CUBIC because of `reason`.
    pub(super) fn go_end_to_end(&mut self, now: Instant, path: &mut Path, reason: FallbackReason) {
        let window = self.steered(path);
        self.reason = reason;
        path.fallback.take_over_as_cubic(window);
        self.end_to_end = Some(EndToEnd::new(now, window));
    }

    pub(super) fn means_congestion(&self, path: &Path) -> bool {
        match self.params.loss {
            XcpLoss::Ignore => false,
            XcpLoss::Fallback => true,
            XcpLoss::Hybrid => path.mode.unmarked(),
        }
    }

    /// Handles the routers' answers while a hop without feedback is the bottleneck.
    pub(super) fn hear_while_hidden(&mut self, now: Instant, path: &mut Path, delta: i64) {
        let (floor, window) = (path.mtu, path.fallback.window());
        let srtt = path.rtt();
        let taken = self
            .end_to_end
            .as_mut()
            .and_then(|state| state.on_taken(now, delta, srtt, floor, window));
        if let Some(left) = taken {
            path.hidden.on_over(now);
            if left < window {
                path.fallback.take_over_as_cubic(left);
            }
        }
    }
}

// Standard congestion control instead of XCP (draft-falk-xcp-spec-03, sections 4.1.3.2 and 5.1).
// After a loss that means congestion, CUBIC controls the window until a whole round trip has
// passed in which routers would have left less.

/// A decrease of less than this part of the window is attributed to shuffling, not to congestion
/// feedback.
const TAKEN: u64 = 32;

/// The window that the routers' feedback would give in the current round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndToEnd {
    since: Instant,
    window: u64,
    shadow: Steering,
}

impl EndToEnd {
    pub(crate) fn new(now: Instant, window: u64) -> Self {
        Self {
            since: now,
            window,
            shadow: Steering::new(now, window),
        }
    }

    /// Applies a rate change from routers while a hop without feedback is the bottleneck and
    /// requests ask for nothing. Returns `Some` with the remaining bytes if the routers took more
    /// than a thirty-second of the `window` over a round trip, because then their own hop is
    /// narrower.
    pub(crate) fn on_taken(
        &mut self,
        now: Instant,
        delta: i64,
        srtt: Duration,
        floor: u64,
        window: u64,
    ) -> Option<u64> {
        self.shadow.apply(delta.min(0), srtt, floor);
        if ns_since(now, self.since) < nanos(srtt) {
            return None;
        }
        let left = self.shadow.bytes();
        let before = self.window;
        *self = Self::new(now, window);
        (left < before - before / TAKEN).then_some(left)
    }

    /// Applies a rate change from routers. Returns `Some` with the bytes of their window if they
    /// leave less than the `window` of standard control, so that they control the sender again.
    pub(crate) fn on_feedback(
        &mut self,
        now: Instant,
        delta: i64,
        srtt: Duration,
        floor: u64,
        window: u64,
    ) -> Option<u64> {
        self.shadow.apply(delta, srtt, floor);
        if ns_since(now, self.since) < nanos(srtt) {
            return None;
        }
        let left = self.shadow.bytes();
        *self = Self::new(now, window);
        (left < window).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [XCP-i II-A window].
    #[test]
    fn known_answers() {
        let rtt = Duration::from_millis(100);
        let mut window = Steering::new(Instant::ZERO, 15_000);
        window.apply(9548 << 16, rtt, 1500);
        assert_eq!(window.q16(), (15_000 << 16) + 62_573_772);
        assert_eq!(window.rest, 800_000);
        window.apply(-200_000 << 16, rtt, 1500);
        assert_eq!((window.bytes(), window.rest), (1500, 0));
        for _ in 0..2 {
            window.apply(i64::MAX, MAX_INTERVAL, 1500);
        }
        assert_eq!(window.q16(), MAX_Q16);
        for _ in 0..3 {
            window.apply(i64::MIN, MAX_INTERVAL, 1500);
        }
        assert_eq!(window.bytes(), 1500);
    }

    #[test]
    fn unused_it_halves_towards_what_is_used() {
        let rtt = Duration::from_millis(100);
        let mut window = Steering::new(Instant::ZERO, 1_250_000);
        let mut bytes = Vec::new();
        for round in 1..=4u64 {
            let at = Instant::from_millis(100 * round);
            assert!(window.age(at, rtt, 100_000, false, 1500));
            bytes.push(window.bytes());
        }
        assert_eq!(bytes, [675_000, 387_500, 243_750, 171_875]);
        // The window was used at some point of the round, so it does not change.
        let _ = window.age(Instant::from_millis(450), rtt, 10, true, 1500);
        let _ = window.age(Instant::from_millis(500), rtt, 10, false, 1500);
        assert_eq!(window.bytes(), 171_875);
        let at = Instant::from_millis;
        window.idle(at(800), Duration::from_millis(300), rtt, 15_000);
        assert_eq!(window.bytes(), 15_000 + (171_875 - 15_000) / 8);
        window.idle(at(900), Duration::from_secs(60), rtt, 15_000);
        assert_eq!(window.bytes(), 15_000);
    }
}
