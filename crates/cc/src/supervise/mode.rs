//! Which law rules the window: the path's routers, or CUBIC.
//!
//! Senders stamp LOW themselves, so a path without VCP routers would look forever idle. Every path
//! therefore starts on CUBIC. It changes to VCP with the first code in which a router has counted
//! itself, and back when such codes stay away.
//!
//! The ECN field does not show that a router was there. On that carrier CUBIC rules until the first
//! HIGH or OVER, and a field that shows nothing else from the start counts as a constant that some
//! box writes.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::signals::Carrier;

/// A change of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Stays,
    ToRouters,
    ToFallback,
}

/// Round trips for which marked codes must have come before they rule again.
const RETURN_ROUNDS: u32 = 2;
/// Acknowledgements without any feedback for this many round trips mean that the path removes it …
const SILENT_ROUNDS: u32 = 2;
/// … with this many packets: only some carry a request, and under heavy loss few are acknowledged.
const SILENT_PACKETS: u8 = 16;
/// Unmarked packets in a row that prove nothing: every second probe goes without a shim.
const UNMARKED_PROBES: u64 = 3;
/// Where no router has answered, one packet in `UNANSWERED_PROBE` carries a request, or one in a
/// quarter of the window if that is more. That finds a router that is added.
const UNANSWERED_PROBE: u64 = 32;

/// A code that is constant for this many round trips from the start of the path is fixed.
const CONSTANT_ROUNDS: u32 = 2;

/// The codes seen on an ECN path since it began.
#[derive(Clone, Copy, Debug, Default)]
struct EcnHistory {
    /// Bit n: code n was seen.
    seen: u8,
    raised_since: Option<Instant>,
}

/// Selects the law that rules.
#[derive(Clone, Debug)]
pub(crate) struct ModeSelector {
    ecn: Option<EcnHistory>,
    routers: bool,
    ruled_before: bool,
    marked_since: Option<Instant>,
    last_marked: Instant,
    unmarked_since: Option<Instant>,
    /// They have been unmarked for long enough that the path counts as one without a marking
    /// router.
    unmarked_path: bool,
    /// Packets that came back unmarked since the last mark.
    unmarked_packets: u64,
    /// Packets that were acknowledged without feedback since the last mark, up to 255.
    silent_packets: u8,
}

impl ModeSelector {
    pub(crate) fn new(now: Instant, carrier: Carrier) -> Self {
        Self {
            ecn: (carrier == Carrier::Ecn).then(EcnHistory::default),
            routers: false,
            ruled_before: false,
            marked_since: None,
            last_marked: now,
            unmarked_since: None,
            unmarked_path: false,
            unmarked_packets: 0,
            silent_packets: 0,
        }
    }

    /// True while routers rule.
    #[inline]
    pub(crate) const fn routers(&self) -> bool {
        self.routers
    }

    /// True while packets come back without marks: more than the probes that are sent without a
    /// shim on purpose.
    pub(crate) const fn unmarked(&self) -> bool {
        self.unmarked_packets > UNMARKED_PROBES
    }

    /// On a path known to have no router that answers, one packet in this many carries a request,
    /// where `round` packets are sent per round trip. `None`: all packets may carry one.
    #[inline]
    pub(crate) fn probe_interval(&self, round: u64) -> Option<u32> {
        self.unmarked_path
            .then(|| u32::try_from(UNANSWERED_PROBE.max(round / 4)).unwrap_or(u32::MAX))
    }

    /// Packets per code came back.
    #[inline]
    pub(crate) fn on_codes(&mut self, now: Instant, srtt: Duration, packets: &[u64; 4]) -> Change {
        let [none, low, high, over] = *packets;
        if low | high | over == 0 {
            self.unmarked_packets = self.unmarked_packets.saturating_add(none);
            return if none > 0 {
                self.on_unmarked(now, srtt)
            } else {
                Change::Stays
            };
        }
        self.unmarked_since = None;
        self.unmarked_path = false;
        self.unmarked_packets = 0;
        self.silent_packets = 0;
        if self.marked_since.is_none() || ns_since(now, self.last_marked) / 2 > nanos(srtt) {
            self.marked_since = Some(now);
        }
        self.last_marked = now;
        if let Some(change) = self.judge_ecn(now, srtt, low, high, over) {
            return change;
        }
        if self.routers {
            return Change::Stays;
        }
        let proven = !self.ruled_before
            || self
                .marked_since
                .is_some_and(|since| now - since >= srtt.saturating_mul(RETURN_ROUNDS));
        if proven {
            self.routers = true;
            self.ruled_before = true;
            return Change::ToRouters;
        }
        Change::Stays
    }

    /// On the ECN carrier: `Some` if the codes are not to be followed.
    fn judge_ecn(
        &mut self,
        now: Instant,
        srtt: Duration,
        low: u64,
        high: u64,
        over: u64,
    ) -> Option<Change> {
        let history = self.ecn.as_mut()?;
        for (bit, count) in [(1u8, low), (2, high), (3, over)] {
            history.seen |= u8::from(count > 0) << bit;
        }
        if high | over > 0 {
            history.raised_since.get_or_insert(now);
        }
        // Without a HIGH or OVER so far, the presence of a router is unknown.
        let Some(since) = history.raised_since else {
            return Some(Change::Stays);
        };
        let constant =
            history.seen.count_ones() == 1 && now - since >= srtt.saturating_mul(CONSTANT_ROUNDS);
        constant.then(|| self.fall_back())
    }

    /// Packets came back that no router marked, or without any feedback at all.
    fn on_unmarked(&mut self, now: Instant, patience: Duration) -> Change {
        let since = *self.unmarked_since.get_or_insert(now);
        if now - since >= patience {
            self.marked_since = None;
            self.unmarked_path = true;
            self.fall_back()
        } else {
            Change::Stays
        }
    }

    /// `packets` packets were acknowledged without feedback.
    #[inline]
    pub(crate) fn on_silence(&mut self, now: Instant, srtt: Duration, packets: u64) -> Change {
        if !self.routers {
            return Change::Stays;
        }
        let packets = u8::try_from(packets).unwrap_or(u8::MAX);
        self.silent_packets = self.silent_packets.saturating_add(packets);
        if self.silent_packets < SILENT_PACKETS {
            self.unmarked_since.get_or_insert(now);
            return Change::Stays;
        }
        self.on_unmarked(now, srtt.saturating_mul(SILENT_ROUNDS))
    }

    fn fall_back(&mut self) -> Change {
        if core::mem::take(&mut self.routers) {
            Change::ToFallback
        } else {
            Change::Stays
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    /// Under heavy loss, with requests on some packets only, two acknowledgements may be all that
    /// comes within two round trips.
    #[test]
    fn few_acknowledgements_without_feedback_are_no_silence() {
        let at = Instant::from_millis;
        for (packets, silent) in [(1, false), (7, false), (8, true), (100, true)] {
            let mut mode = ModeSelector::new(at(0), Carrier::Shim);
            assert_eq!(
                mode.on_codes(at(0), ms(100), &[0, 1, 0, 0]),
                Change::ToRouters
            );
            assert_eq!(mode.on_silence(at(10), ms(100), packets), Change::Stays);
            let change = mode.on_silence(at(230), ms(100), packets);
            assert_eq!(change == Change::ToFallback, silent, "{packets}");
            assert_eq!(mode.routers(), !silent);
        }
        // Feedback ends it.
        let mut mode = ModeSelector::new(at(0), Carrier::Shim);
        let _ = mode.on_codes(at(0), ms(100), &[0, 1, 0, 0]);
        for n in 1..20 {
            let _ = mode.on_silence(at(100 * n), ms(100), 7);
            let _ = mode.on_codes(at(100 * n + 50), ms(100), &[0, 1, 0, 0]);
        }
        assert!(mode.routers());
    }
}
