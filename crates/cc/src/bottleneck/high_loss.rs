//! Round trips with a loss so high that the window must not grow, whatever routers grant.
//!
//! Only a trial can show whether the loss is caused by a hidden hop. Until then, the window must
//! not grow, and sending packets that will be lost is useless, so the window is limited to the
//! arrivals. This limit only applies if the window limited the sender, because an application that
//! pauses doesn't provide such a bound.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::mul_div;

/// Loss of a round trip beyond the expected loss, in 10^-6. A trial only attests more if routers
/// declare it.
pub(super) const MUCH_PPM: u64 = 100_000;
/// Standard deviations by which the loss must exceed this.
const SIGMAS: u64 = 2;
/// Acknowledgements that must report losses. An interruption of the path shows in a single one.
const EVENTS: u32 = 3;
/// Afterwards, the bound exceeds the arrivals of a round trip by this part.
const RETURN_STEP: u64 = 4;
/// A round trip shows the path's capacity if at most this part of its packets was acknowledged
/// while the sender had another limit than the window.
const OTHERWISE: u64 = 8;
/// Consecutive round trips with little loss after which the bound ends. By then, the path may carry
/// less than the old window, which would therefore never be reached again.
const CLEAN_ROUNDS: u8 = 16;
const LEAST_PACKETS: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HighLossCap {
    acked: u64,
    /// Packets of `acked` that arrived while the sender had another limit than the window.
    otherwise: u64,
    /// True if this was the case in the previous round trip, whose packets arrive in this one.
    paused: bool,
    lost: u64,
    events: u32,
    now: bool,
    /// Upper bound of the window in bytes after a round trip with high loss.
    held: Option<u64>,
    before: u64,
    clean: u8,
}

impl HighLossCap {
    /// Handles the arrival of packets. `limited` is true if the window limited the sender.
    #[inline]
    pub(super) fn on_acked(&mut self, packets: u64, limited: bool) {
        self.acked = self.acked.saturating_add(packets).min(1 << 32);
        if !limited {
            self.otherwise = self.otherwise.saturating_add(packets).min(1 << 32);
        }
    }

    /// Handles the loss of `packets` packets. A loss of `tolerated`, in 10^-6, is expected.
    pub(super) fn on_lost(&mut self, packets: u64, tolerated: u64) {
        self.lost = self.lost.saturating_add(packets).min(1 << 32);
        self.events = self.events.saturating_add(1);
        self.now |= self.is_much(tolerated);
    }

    fn is_much(&self, tolerated: u64) -> bool {
        let sent = self.acked + self.lost;
        let least = self.lost.saturating_sub(SIGMAS * self.lost.isqrt());
        self.events >= EVENTS
            && least > mul_div(sent, tolerated + MUCH_PPM, 1_000_000)
            && !without(Mechanism::HighLoss)
    }

    /// Ends a round trip, in which `arrived` bytes arrived at a window of `window` bytes.
    pub(super) fn turn(&mut self, tolerated: u64, arrived: u64, window: u64, mtu: u64) {
        self.now = self.is_much(tolerated);
        let pauses = self.acked == 0 || self.otherwise > self.acked / OTHERWISE;
        let paused = core::mem::replace(&mut self.paused, pauses);
        (self.acked, self.otherwise, self.lost, self.events) = (0, 0, 0, 0);
        if pauses || paused {
            return;
        }
        let least = LEAST_PACKETS * mtu;
        if self.now {
            if self.held.is_none() {
                self.before = window;
            }
            self.held = Some(arrived.max(least));
            self.clean = 0;
        } else if let Some(held) = self.held {
            self.clean = self.clean.saturating_add(1);
            // If the capacity varies, less arrives at times even if nothing is lost.
            let cap = arrived.saturating_add(arrived / RETURN_STEP).max(held);
            let holds = cap < self.before && self.clean < CLEAN_ROUNDS;
            self.held = holds.then_some(cap);
        }
    }

    #[inline]
    pub(super) const fn now(&self) -> bool {
        self.now
    }

    #[inline]
    pub(super) fn cap(&self) -> u64 {
        self.held.unwrap_or(u64::MAX)
    }

    /// Starts over, because another law takes control, this one restarts, or the sender was idle.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1000;

    fn round(losing: &mut HighLossCap, acked: u64, lost: &[u64], window: u64) {
        ended(losing, acked, 0, lost, window);
    }

    /// Of the `acked` packets, `otherwise` arrived while the application had nothing more to send.
    fn ended(losing: &mut HighLossCap, acked: u64, otherwise: u64, lost: &[u64], window: u64) {
        losing.on_acked(acked - otherwise, true);
        losing.on_acked(otherwise, false);
        for &packets in lost {
            losing.on_lost(packets, 0);
        }
        losing.turn(0, acked * MTU, window * MTU, MTU);
    }

    #[test]
    fn a_round_trip_that_loses_much_holds_the_window_to_what_arrived() {
        let mut losing = HighLossCap::default();
        round(&mut losing, 60, &[10, 10, 20], 100);
        assert!(losing.now());
        assert_eq!(losing.cap(), 60 * MTU);
        // It rises by a quarter of the arrivals.
        round(&mut losing, 60, &[], 60);
        assert!(!losing.now());
        assert_eq!(losing.cap(), 75 * MTU);
        round(&mut losing, 75, &[1], 75);
        assert_eq!(losing.cap(), 93_750);
        round(&mut losing, 90, &[1], 93);
        assert_eq!(losing.cap(), u64::MAX);
    }

    #[test]
    fn a_window_that_the_path_no_longer_carries_is_not_asked_for_for_ever() {
        let mut losing = HighLossCap::default();
        round(&mut losing, 60, &[10, 10, 20], 100);
        // The capacity has fallen to a fifth and varies. Lower arrivals aren't loss.
        for (arrived, cap) in [(20, 60), (10, 60), (20, 60), (5, 60), (52, 65), (20, 65)] {
            round(&mut losing, arrived, &[], 60);
            assert_eq!(losing.cap(), cap * MTU, "{arrived}");
        }
        for _ in 7..CLEAN_ROUNDS {
            round(&mut losing, 20, &[], 60);
            assert_eq!(losing.cap(), 65 * MTU);
        }
        round(&mut losing, 20, &[], 60);
        assert_eq!(losing.cap(), u64::MAX);
    }

    #[test]
    fn what_arrives_while_the_application_pauses_is_no_bound() {
        let mut losing = HighLossCap::default();
        round(&mut losing, 60, &[10, 10, 20], 100);
        // The application has less to send, then nothing, then enough to use the whole window.
        // Packets that it sent before arrive a round trip later.
        ended(&mut losing, 30, 30, &[], 60);
        ended(&mut losing, 0, 0, &[], 60);
        ended(&mut losing, 2, 0, &[], 60);
        assert_eq!(losing.cap(), 60 * MTU);
        round(&mut losing, 60, &[], 60);
        assert_eq!(losing.cap(), 75 * MTU);
        // Neither are its arrivals if many packets are lost: only growth stops.
        let mut losing = HighLossCap::default();
        ended(&mut losing, 10, 10, &[3, 3, 4], 100);
        assert!(losing.now());
        assert_eq!(losing.cap(), u64::MAX);
    }

    #[test]
    fn an_interruption_and_little_loss_hold_nothing() {
        let mut losing = HighLossCap::default();
        round(&mut losing, 20, &[80], 100);
        round(&mut losing, 95, &[2, 2, 1], 100);
        assert!(!losing.now());
        assert_eq!(losing.cap(), u64::MAX);
    }

    #[test]
    fn in_the_middle_of_a_round_trip_growth_ends_at_once() {
        let mut losing = HighLossCap::default();
        losing.on_acked(20, true);
        for lost in 1..20 {
            losing.on_lost(1, 0);
            assert_eq!(losing.now(), lost >= 7, "{lost}");
        }
        assert_eq!(losing.cap(), u64::MAX);
    }
}
