//! The window is at most a few times what has arrived.
//!
//! Routers may grant all of a fast link at once. A hop without feedback may be the narrow one, and
//! its losses are known only a round trip later.

use super::{HiddenHop, window_of};
use crate::base::Duration;
use crate::base::arith::mul_div;

/// Where TTLs show a hop that writes no feedback, the window is at most a few times what has
/// arrived in a round trip, or this many packets.
const FIRST_WINDOW: u64 = 40;
/// Packets of a first window.
const INITIAL_WINDOW: u64 = 10;
/// Where a trial has attested loss that no router declares, the window grows by this part per round
/// trip at most: others may still be in a trial.
const ATTESTED_STEP: u64 = 4;

/// Packets sent at once measured what the narrowest hop carries: beyond this multiple of it, the
/// window grows as in slow start. Others may have sent through that hop meanwhile.
const BEYOND_TRAIN: u64 = 2;
const SLOW_START: u64 = 2;

/// While a queue stands, the window grows by this part of what arrives per round trip at most: a
/// queue makes round trips longer, and more arrives in one, without room for any of it.
const QUEUEING_STEP: u64 = 4;

/// A granted window is at most this part of what packets sent at once show: a pace of all of it
/// fills the queue of a hop without feedback. A port grants at most 85 % of its own rate.
const SURE_OF_TRAIN: (u64, u64) = (7, 8);

impl HiddenHop {
    /// Bounds the next round trip's window by what has arrived in one.
    pub(super) fn limit_step(&mut self, srtt: Duration) {
        let arrived = self.arrivals.proven(srtt);
        let least = FIRST_WINDOW * self.mtu;
        let random = self.tolerance.undeclared_ppm();
        self.step_cap = if random > 0 {
            // What was sent for it, and a quarter.
            let sent = mul_div(arrived, 1_000_000, 1_000_000 - random.min(900_000));
            sent.saturating_add(sent / ATTESTED_STEP).max(least)
        } else if self.partly {
            arrived.saturating_mul(self.step.partly).max(least)
        } else if let Some(step) = self.step.unknown {
            // A hop that does not show in TTLs may be the narrow one.
            let most = if self.trains.overflowed() {
                let slowly = arrived.saturating_mul(SLOW_START);
                slowly.max(INITIAL_WINDOW * self.mtu)
            } else {
                arrived
                    .saturating_mul(step)
                    .max(step * INITIAL_WINDOW * self.mtu)
            };
            let most = match self.trains.narrowest() {
                Some(rate) => {
                    let slowly = arrived
                        .max(INITIAL_WINDOW * self.mtu)
                        .saturating_mul(SLOW_START);
                    most.min(slowly.max(window_of(rate, srtt).saturating_mul(BEYOND_TRAIN)))
                }
                None => most,
            };
            let most = most.max(window_of(self.trains.rate(), srtt));
            if self.delay.is_queueing() {
                let more = arrived.saturating_add(arrived / QUEUEING_STEP);
                most.min(more.max(self.step_cap))
            } else {
                most
            }
        } else if self.granted > 0 {
            0
        } else {
            u64::MAX
        };
        self.step_cap = self.step_cap.max(self.granted_window(srtt));
    }

    /// Every hop that writes feedback has granted a window of `window` bytes; 0: arrivals show by
    /// now what it carries.
    pub(crate) fn allow(&mut self, window: u64, srtt: Duration) {
        self.granted = window;
        self.limit_step(srtt);
    }

    /// Of what was granted, `window` bytes are confirmed by what arrives.
    pub(crate) fn confirm(&mut self, window: u64, srtt: Duration) {
        self.allow(self.granted.max(window), srtt);
    }

    /// The window that the path carries by the packets that were sent at once, in bytes.
    pub(crate) fn shown_window(&self, srtt: Duration) -> Option<u64> {
        Some(window_of(self.trains.rate(), srtt)).filter(|&window| window > 0)
    }

    /// What was granted, in bytes, as far as packets that were sent at once do not show that the
    /// path carries less.
    pub(crate) fn granted_window(&self, srtt: Duration) -> u64 {
        let shown = match self.trains.narrowest() {
            // The first packets were sent at once, and most of them did not arrive yet.
            None if self.trains.is_unsure() => 0,
            None => u64::MAX,
            Some(rate) => mul_div(window_of(rate, srtt), SURE_OF_TRAIN.0, SURE_OF_TRAIN.1),
        };
        self.granted.min(shown.max(INITIAL_WINDOW * self.mtu))
    }
}
