//! Selects routers or standard control, based on the answers.
//!
//! Senders stamp LOW themselves, so a path without VCP routers would always look idle. Therefore
//! every path starts under standard control. Routers take over with the first code for which a
//! router has counted itself, and lose control when codes are no longer counted.
//!
//! The ECN field doesn't show whether a router was there. With this carrier, standard control
//! continues until the first HIGH or OVER. If the field never shows anything else from the start,
//! it's considered to be a constant that a middlebox writes.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::signals::Carrier;

/// A change of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Stays,
    ToRouters,
    ToFallback,
}

/// Round trips with marked codes after which routers regain control.
const RETURN_ROUNDS: u32 = 2;
/// Acknowledgements without feedback for this many round trips mean that the path removes it …
const SILENT_ROUNDS: u32 = 2;
/// … if they include this many packets. Only some packets carry a request, and under heavy loss few
/// are acknowledged.
const SILENT_PACKETS: u8 = 16;
/// Consecutive unmarked packets that don't prove anything, because every other probe is sent
/// without a shim.
const UNMARKED_PROBES: u64 = 3;
/// If no router has answered, one packet in `UNANSWERED_PROBE` carries a request, or fewer with
/// large windows (one in a quarter of the window), so that a new router will be found.
const UNANSWERED_PROBE: u64 = 32;

/// A code that is constant for this many round trips, beginning with the path, is fixed.
const CONSTANT_ROUNDS: u32 = 2;

/// Codes seen since an ECN path began.
#[derive(Clone, Copy, Debug, Default)]
struct EcnHistory {
    /// Bit n is set if code n was seen.
    seen: u8,
    raised_since: Option<Instant>,
}

/// Selects routers or standard control.
#[derive(Clone, Debug)]
pub(crate) struct ModeSelector {
    ecn: Option<EcnHistory>,
    routers: bool,
    ruled_before: bool,
    marked_since: Option<Instant>,
    last_marked: Instant,
    unmarked_since: Option<Instant>,
    /// True if packets have been unmarked for so long that the path seems to have no marking
    /// router.
    unmarked_path: bool,
    /// Unmarked packets since the last mark.
    unmarked_packets: u64,
    /// Packets acknowledged without feedback since the last mark, at most 255.
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

    #[inline]
    pub(crate) const fn routers(&self) -> bool {
        self.routers
    }

    /// Returns true while packets return without marks, considering that some probes are
    /// deliberately sent without a shim.
    pub(crate) const fn unmarked(&self) -> bool {
        self.unmarked_packets > UNMARKED_PROBES
    }

    /// Returns n if only every n-th packet carries a request, because no router answers on this
    /// path; `round` packets are sent per round trip. `None` if all packets may carry one.
    #[inline]
    pub(crate) fn probe_interval(&self, round: u64) -> Option<u32> {
        self.unmarked_path
            .then(|| u32::try_from(UNANSWERED_PROBE.max(round / 4)).unwrap_or(u32::MAX))
    }

    /// Handles the return of packets; the counts are given per code.
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

    /// Returns `Some` if codes of the ECN carrier must not be followed.
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
        // Without a HIGH or OVER, there might not be any router.
        let Some(since) = history.raised_since else {
            return Some(Change::Stays);
        };
        let constant =
            history.seen.count_ones() == 1 && now - since >= srtt.saturating_mul(CONSTANT_ROUNDS);
        constant.then(|| self.fall_back())
    }

    /// Handles packets that no router marked, or that returned without feedback.
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

    /// Handles `packets` acknowledged without feedback.
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
    use crate::testing::{at, ms};

    /// Under heavy loss, and with requests on only some packets, there may be only two
    /// acknowledgements within two round trips.
    #[test]
    fn few_acknowledgements_without_feedback_are_no_silence() {
        for (packets, silent) in [(1, false), (7, false), (8, true), (100, true)] {
            let mut mode = ModeSelector::new(at(0), Carrier::Shim);
            let first = mode.on_codes(at(0), ms(100), &[0, 1, 0, 0]);
            assert_eq!(first, Change::ToRouters);
            assert_eq!(mode.on_silence(at(10), ms(100), packets), Change::Stays);
            let change = mode.on_silence(at(230), ms(100), packets);
            assert_eq!(change == Change::ToFallback, silent, "{packets}");
            assert_eq!(mode.routers(), !silent);
        }
        // Feedback ends the silence.
        let mut mode = ModeSelector::new(at(0), Carrier::Shim);
        let _ = mode.on_codes(at(0), ms(100), &[0, 1, 0, 0]);
        for n in 1..20 {
            let _ = mode.on_silence(at(100 * n), ms(100), 7);
            let _ = mode.on_codes(at(100 * n + 50), ms(100), &[0, 1, 0, 0]);
        }
        assert!(mode.routers());
    }
}
