//! Laws that can start with a window that routers granted.

use super::params::SHARE;
use crate::base::Instant;
use crate::base::arith::mul_div;
use crate::law::{Controller, Limits};
use crate::standard::LossBased;
use crate::standard::loss_based::{Avoidance, StartRule};

/// How a law goes on after a flight that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGrant {
    /// As it would with that window: in slow start, before anything was lost.
    SlowStart,
    /// In congestion avoidance: the threshold is what was granted and used.
    Avoidance,
    /// In slow start up to what fits beside all that is in use: a port grants 85 % of its capacity
    /// at most, less what is used, so the other 15 % fit as well. The capacity is what the path is
    /// shown to carry, or else what the grant says if nothing is in use. As
    /// [`SlowStart`](Self::SlowStart) where the path carries many times more.
    WhatFits,
}

impl AfterGrant {
    /// Where slow start ends, in bytes, of a law that made use of `used` of `granted` bytes, over a
    /// path that is shown to carry `shown`. `None`: where it would have ended anyway.
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

/// A grant of less than one in so many of what the path is shown to carry says that others have
/// most of it: half of an equal share beside one other.
const SMALL_GRANT: u64 = 4;

/// A law that [`QuickStart`](super::sender::QuickStart) can start.
pub trait Startable: Controller {
    /// False where the law knows of a bottleneck that no router announces: what routers grant says
    /// nothing of that one.
    fn may_start(&self) -> bool {
        true
    }

    /// `window` bytes are granted, and sent from now on. True if the law's own window has become
    /// that and routers go on steering it: what they tell of the flight is the law's business then,
    /// and so are single losses. Where no router has been heard so far it is told once more when
    /// the first of the flight has arrived.
    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        let _ = (now, window);
        false
    }

    /// The same where the answer to the first question was lost: what headers were granted is part
    /// of `window`.
    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        self.begin_with(now, window)
    }

    /// A granted window that no router steers yet is at most so many bytes: what packets that were
    /// sent before show of the path.
    fn carried(&self) -> u64 {
        u64::MAX
    }

    /// The window that packets which were sent at once show the path to carry, in bytes, if they
    /// show it.
    fn shown(&self) -> Option<u64> {
        None
    }

    /// `window` bytes were granted, and are in flight. Slow start ends at `threshold` bytes;
    /// `None`: where it would have ended anyway.
    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>);

    /// The first of a granted flight arrived, and the window is used after `rounds` more round
    /// trips: what routers have measured until then is no sign of room.
    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let _ = (now, rounds);
    }

    /// Routers leave `window` bytes of what they granted.
    fn give_back(&mut self, now: Instant, window: u64);

    /// What [`begin_with`](Self::begin_with) was told of is not sent: its time was over before, or
    /// nothing came back.
    fn not_begun(&mut self) {}

    /// Something of a granted window was lost: begins anew with `window` bytes, and slow start ends
    /// at `threshold` bytes. Losses of packets up to `last_sent` are of the same event.
    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64);

    /// The share of packets that is lost at random, in 10^-6, as far as routers declare or the law
    /// has found out.
    fn expected_loss_ppm(&self) -> u64 {
        0
    }

    /// The window that could be made use of within a round trip, in bytes, where the sender is
    /// bound by `limits`.
    fn usable(&self, limits: &Limits) -> u64 {
        limits.least()
    }

    /// More of what was given up arrived: slow start may go on to `threshold` bytes.
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
