//! Laws that can start with a window granted by routers.

use super::params::SHARE;
use crate::base::Instant;
use crate::base::arith::mul_div;
use crate::law::{Controller, Limits};
use crate::standard::LossBased;
use crate::standard::bbr::Bbr;
use crate::standard::loss_based::{Avoidance, StartRule};

/// How a law continues after a granted flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGrant {
    /// As it would with that window: in slow start, before anything was lost.
    SlowStart,
    /// In congestion avoidance: the threshold is the part of the grant that was used.
    Avoidance,
    /// In slow start up to the free part of the path: a port grants 85 % of its capacity at most,
    /// less what is used, so the other 15 % fit as well. The capacity is the measured one, or else
    /// the grant's if nothing is in use. As [`SlowStart`](Self::SlowStart) where the path carries
    /// many times more.
    WhatFits,
}

impl AfterGrant {
    /// Where slow start ends, in bytes, of a law that used `used` of `granted` bytes, over a path
    /// measured to carry `shown`. `None`: where it would have ended anyway.
    pub(super) fn threshold(self, used: u64, granted: u64, shown: Option<u64>) -> Option<u64> {
        match self {
            Self::SlowStart => None,
            Self::Avoidance => Some(used),
            Self::WhatFits if shown.is_some_and(|shown| granted < shown / SMALL_GRANT) => None,
            Self::WhatFits => {
                let idle = mul_div(granted, SHARE.1, SHARE.0);
                let rest = mul_div(shown.unwrap_or(0), SHARE.1 - SHARE.0, SHARE.1);
                Some(idle.max(granted.saturating_add(rest.min(granted))))
            }
        }
    }
}

/// A grant of less than one in `SMALL_GRANT` of the path's measured capacity means that others have
/// most of it: half of an equal share next to one other flow.
const SMALL_GRANT: u64 = 4;

/// A law that [`QuickStart`](super::sender::QuickStart) can start.
pub trait Startable: Controller {
    /// False where the law knows of a bottleneck that no router announces: a grant does not cover
    /// that one.
    fn may_start(&self) -> bool {
        true
    }

    /// `window` bytes are granted, and sent from now on. True if the law's own window has become
    /// that and routers go on steering it: their feedback about the flight is then handled by the
    /// law, and so are single losses. Without feedback so far, the call is repeated when the first
    /// packet of the flight has been acknowledged.
    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        let _ = (now, window);
        false
    }

    /// The same where the answer to the first question was lost: `window` includes the grants in
    /// headers.
    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        self.begin_with(now, window)
    }

    /// Upper bound of a granted window that no router steers yet, in bytes, by the packets sent
    /// before.
    fn verified_grant(&self) -> u64 {
        u64::MAX
    }

    /// The window that the path carries by packets sent at once, in bytes, if they measured it.
    fn measured_window(&self) -> Option<u64> {
        None
    }

    /// `window` bytes were granted, and are in flight. Slow start ends at `threshold` bytes;
    /// `None`: where it would have ended anyway.
    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>);

    /// The first of a granted flight arrived, and the window is used after `rounds` more round
    /// trips: what routers have measured until then is not a sign of room.
    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let _ = (now, rounds);
    }

    /// `window` bytes of what routers granted are confirmed by what arrives.
    fn confirm(&mut self, window: u64) {
        let _ = window;
    }

    /// Routers leave `window` bytes of what they granted.
    fn give_back(&mut self, now: Instant, window: u64);

    /// The window of [`begin_with`](Self::begin_with) is not sent: its time was over before, or no
    /// acknowledgement came.
    fn not_begun(&mut self) {}

    /// Part of a granted window was lost: starts over with `window` bytes, and slow start ends at
    /// `threshold` bytes. Losses of packets up to `last_sent` are of the same event.
    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64);

    /// The share of packets lost at random, in 10^-6, that routers declare or the law has attested.
    fn expected_loss_ppm(&self) -> u64 {
        0
    }

    /// The window that could be used within a round trip, in bytes, where the sender is bound by
    /// `limits`.
    fn usable(&self, limits: &Limits) -> u64 {
        limits.least()
    }

    /// More of the flight that was given up arrived: slow start may go on to `threshold` bytes.
    fn raise_threshold(&mut self, threshold: u64);
}

impl<W: Avoidance, S: StartRule> Startable for LossBased<W, S> {
    fn start_with(&mut self, _now: Instant, window: u64, threshold: Option<u64>) {
        match threshold {
            None => self.raise(window),
            Some(threshold) if window > self.window() => self.begin_at(window, threshold),
            Some(_) => {}
        }
    }

    fn give_back(&mut self, _now: Instant, window: u64) {
        self.cap(window);
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.fall_back(now, window, threshold, last_sent);
    }

    fn raise_threshold(&mut self, threshold: u64) {
        self.allow(threshold);
    }
}

/// BBR goes on by its model of the path, which packets of a granted flight improve.
impl Startable for Bbr {
    fn start_with(&mut self, _now: Instant, _window: u64, _threshold: Option<u64>) {}

    fn give_back(&mut self, _now: Instant, _window: u64) {}

    fn give_up(&mut self, _now: Instant, _window: u64, _threshold: u64, _last_sent: u64) {}

    fn raise_threshold(&mut self, _threshold: u64) {}
}

#[cfg(test)]
mod tests {
    use super::AfterGrant;

    #[test]
    fn what_fits_is_the_grant_and_what_ports_never_grant() {
        let what_fits = |shown| AfterGrant::WhatFits.threshold(800, 850, shown);
        assert_eq!(what_fits(None), Some(1000));
        assert_eq!(what_fits(Some(900)), Some(1000));
        // Others use half of 1700.
        assert_eq!(what_fits(Some(1700)), Some(850 + 255));
        assert_eq!(what_fits(Some(3400)), Some(850 + 510));
        // Others have most of the path: as CUBIC does.
        assert_eq!(what_fits(Some(3404)), None);
        assert_eq!(AfterGrant::Avoidance.threshold(800, 850, None), Some(800));
        assert_eq!(AfterGrant::SlowStart.threshold(800, 850, None), None);
    }
}
