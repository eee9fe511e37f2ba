//! Limit of the window to a few times the arrivals of a round trip.
//!
//! Routers may grant all of a fast link at once. However, the bottleneck may be a hop without
//! feedback, and its losses only become known a round trip later.

use super::{HiddenHop, window_of};
use crate::base::Duration;
use crate::base::arith::mul_div;

/// The window is at most a few times the arrivals in a round trip. However, it may always have this
/// many packets if TTLs show a hop without feedback or if undeclared loss was attested.
const FIRST_WINDOW: u64 = 40;
/// Packets in an initial window.
const INITIAL_WINDOW: u64 = 10;
/// If a trial has attested loss that no router declares, the window grows by at most this part per
/// round trip, because other senders may still be in a trial.
const ATTESTED_STEP: u64 = 4;

/// If packets sent at once have shown the capacity of the narrowest hop, the window only grows as
/// in slow start beyond this multiple of the capacity. It's more than 1 because other traffic may
/// have shared the hop during the measurement.
const BEYOND_TRAIN: u64 = 2;
const SLOW_START: u64 = 2;

/// While there is a queue, the window exceeds the arrivals per round trip by at most this part. A
/// queue makes round trips longer, so more packets arrive in each, although the path doesn't have
/// more capacity.
const QUEUEING_STEP: u64 = 4;

/// A granted window is at most this share of the rate shown by packets sent at once, because pacing
/// at the full rate would fill the queue of a hop without feedback. A port grants at most 85 % of
/// its own rate.
const SURE_OF_TRAIN: (u64, u64) = (7, 8);

impl HiddenHop {
    /// Limits the next round trip's window by the arrivals of a round trip.
    pub(super) fn limit_step(&mut self, srtt: Duration) {
        let arrived = self.arrivals.proven(srtt);
        let least = FIRST_WINDOW * self.mtu;
        let random = self.tolerance.undeclared_ppm();
        self.step_cap = if random > 0 {
            // The bytes sent for these arrivals, plus a quarter.
            let sent = mul_div(arrived, 1_000_000, 1_000_000 - random.min(900_000));
            sent.saturating_add(sent / ATTESTED_STEP).max(least)
        } else if self.partly {
            arrived.saturating_mul(self.step.partly).max(least)
        } else if let Some(step) = self.step.unknown {
            // A hop that doesn't show in TTLs may be the bottleneck.
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

    /// Allows the window of `window` bytes that every hop with feedback has granted. With 0, only
    /// arrivals count, because they show the path's capacity by now.
    pub(crate) fn allow(&mut self, window: u64, srtt: Duration) {
        self.granted = window;
        self.limit_step(srtt);
    }

    /// Handles arrivals that confirm `window` bytes of the grant.
    pub(crate) fn confirm(&mut self, window: u64, srtt: Duration) {
        self.allow(self.granted.max(window), srtt);
    }

    /// Returns the window in bytes that the path carries according to packets sent at once.
    pub(crate) fn shown_window(&self, srtt: Duration) -> Option<u64> {
        Some(window_of(self.trains.rate(), srtt)).filter(|&window| window > 0)
    }

    /// Returns the granted window in bytes, limited by the capacity that packets sent at once show.
    pub(crate) fn granted_window(&self, srtt: Duration) -> u64 {
        let shown = match self.trains.narrowest() {
            // The first packets were sent at once, and most haven't arrived yet.
            None if self.trains.is_unsure() => 0,
            None => u64::MAX,
            Some(rate) => mul_div(window_of(rate, srtt), SURE_OF_TRAIN.0, SURE_OF_TRAIN.1),
        };
        self.granted.min(shown.max(INITIAL_WINDOW * self.mtu))
    }
}
