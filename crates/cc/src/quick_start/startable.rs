//! Laws that can start with a window granted by routers.

use super::SHARE;
use crate::base::Instant;
use crate::base::arith::{mul_div, ns_since};
use crate::law::{Controller, Limits};
use crate::standard::LossBased;
use crate::standard::bbr::Bbr;
use crate::standard::loss_based::{Avoidance, StartRule};

/// How a law continues after a granted flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGrant {
    /// As it would with this window, i.e. in slow start before anything was lost.
    SlowStart,
    /// In congestion avoidance. The threshold is the used part of the grant.
    Avoidance,
    /// In slow start up to the free part of the path. Because a port grants at most 85 % of its
    /// capacity, minus usage, the other 15 % fit as well. The capacity is the measured one, or the
    /// one that follows from the grant if nothing else is in use. If the path carries many times
    /// more than the grant, this works like [`SlowStart`](Self::SlowStart).
    WhatFits,
}

impl AfterGrant {
    /// Returns the bytes at which slow start ends after using `used` of `granted` bytes, over a
    /// path measured to carry `shown`. `None` if the end doesn't change.
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

/// If a grant is below the path's measured capacity divided by this number, others use most of the
/// capacity. This limit is half of an equal share with one other flow.
const SMALL_GRANT: u64 = 4;

/// A law that [`QuickStart`](super::sender::QuickStart) can start.
pub trait Startable: Controller {
    /// Returns false if the law knows of a bottleneck that no router announces, and that a grant
    /// wouldn't cover.
    fn may_start(&self) -> bool {
        true
    }

    /// Begins to send a grant of `window` bytes. Returns true if this becomes the law's own window
    /// under the control of routers. Then the law also handles their feedback about the flight, and
    /// single losses. Without feedback so far, this is called again when the flight's first packet
    /// has been acknowledged.
    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        let _ = (now, window);
        false
    }

    /// Like [`begin_with`](Self::begin_with), if the answer to the first question was lost or
    /// denied. `window` includes earlier grants in headers.
    fn begin_again_with(&mut self, now: Instant, window: u64) -> bool {
        self.begin_with(now, window)
    }

    /// Returns the upper bound in bytes that earlier packets imply for a granted window that isn't
    /// under the control of routers yet.
    fn verified_grant(&self) -> u64 {
        u64::MAX
    }

    /// Returns the window in bytes that the path carries, if packets sent at once have measured it.
    fn measured_window(&self) -> Option<u64> {
        None
    }

    /// Starts after a grant of `window` bytes, which are in flight. Slow start ends at `threshold`
    /// bytes, or doesn't change with `None`.
    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>);

    /// Handles the arrival of a granted flight's first packet. Because the window will only be in
    /// use after `rounds` more round trips, routers' earlier measurements don't indicate room.
    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let _ = (now, rounds);
    }

    /// Handles arrivals that confirm `window` bytes of the grant.
    fn confirm(&mut self, window: u64) {
        let _ = window;
    }

    /// Gives back granted bytes beyond `window`.
    fn give_back(&mut self, now: Instant, window: u64);

    /// Ends a grant announced by [`begin_with`](Self::begin_with) that isn't sent, because it
    /// expired or no acknowledgement arrived.
    fn not_begun(&mut self) {}

    /// Gives up a granted window of which a part was lost. Starts over with `window` bytes, and
    /// slow start ends at `threshold` bytes. Losses of packets up to `last_sent` belong to the same
    /// event.
    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64);

    /// Returns the share of random losses in 10^-6, either declared by routers or attested by the
    /// law.
    fn expected_loss_ppm(&self) -> u64 {
        0
    }

    /// Returns the window in bytes that could be used within a round trip by a sender with
    /// `limits`.
    fn usable(&self, limits: &Limits) -> u64 {
        limits.least()
    }

    /// Raises the threshold of slow start to `threshold` bytes, because more of the flight that was
    /// given up has arrived.
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

/// BBR continues with its model of the path, which packets of a granted flight improve.
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
        // Others use most of the path, so this works like CUBIC.
        assert_eq!(what_fits(Some(3404)), None);
        assert_eq!(AfterGrant::Avoidance.threshold(800, 850, None), Some(800));
        assert_eq!(AfterGrant::SlowStart.threshold(800, 850, None), None);
    }
}

// Granted rates whose traffic hasn't begun, as bytes in the current interval of a port's law.
//
// A rate granted at any time in an interval counts for the whole interval, so that flows that only
// receive the load later don't take the same capacity.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// Bytes per second.
    rate: u64,
    /// Bytes in the interval until `since`.
    bytes: u64,
    since: Instant,
}

impl Granted {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            rate: 0,
            bytes: 0,
            since: now,
        }
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Adds a grant of `rate` in an interval that began at `started`.
    pub(crate) fn add(&mut self, now: Instant, started: Instant, rate: u64) {
        self.settle(now);
        self.rate = self.rate.saturating_add(rate);
        self.bytes = self.bytes.saturating_add(worth(rate, started, now));
    }

    /// Removes `rate`, because its traffic has begun or won't.
    pub(crate) fn take(&mut self, now: Instant, rate: u64) {
        self.settle(now);
        self.rate = self.rate.saturating_sub(rate);
    }

    /// Removes bytes of a `rate` whose traffic seemed to begin at `began`, but is missing. In the
    /// current interval, which began at `started`, it no longer counts.
    pub(crate) fn forget(&mut self, began: Instant, started: Instant, rate: u64) {
        self.bytes = self.bytes.saturating_sub(worth(rate, started, began));
    }

    fn settle(&mut self, now: Instant) {
        self.bytes = self.until(now);
        self.since = now;
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.bytes = 0;
        self.since = now;
    }

    /// Returns the bytes in the interval until `end`.
    pub(crate) fn until(&self, end: Instant) -> u64 {
        if self.rate == 0 {
            return self.bytes;
        }
        let more = worth(self.rate, self.since, end);
        self.bytes.saturating_add(more)
    }
}

fn worth(rate: u64, from: Instant, to: Instant) -> u64 {
    mul_div(rate, ns_since(to, from), 1_000_000_000)
}

#[cfg(test)]
mod granted_tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_grant_counts_for_the_whole_interval_until_it_comes() {
        let mut granted = Granted::new(at(0));
        granted.begin(at(1000));
        assert_eq!(granted.until(at(1500)), 0);
        granted.add(at(1800), at(1000), 10_000);
        assert_eq!(granted.until(at(1800)), 8_000);
        assert_eq!(granted.until(at(2000)), 10_000);
        granted.add(at(1900), at(1000), 1_000);
        assert_eq!(granted.until(at(2000)), 11_000);
        granted.begin(at(2000));
        assert_eq!(granted.until(at(2100)), 1_100);
        granted.take(at(2100), 10_000);
        assert_eq!((granted.rate(), granted.until(at(2200))), (1_000, 1_200));
        granted.take(at(2200), 5_000);
        granted.begin(at(3000));
        assert_eq!((granted.rate(), granted.until(at(4000))), (0, 0));
    }

    #[test]
    fn what_does_not_come_after_all_counts_for_nothing() {
        let mut granted = Granted::new(at(0));
        granted.begin(at(1000));
        granted.add(at(1100), at(1000), 10_000);
        granted.add(at(1100), at(1000), 1_000);
        granted.take(at(1200), 10_000);
        assert_eq!(granted.until(at(1300)), 2_000 + 300);
        granted.forget(at(1200), at(1000), 10_000);
        assert_eq!(granted.until(at(1300)), 300);
        // It counted in an earlier interval.
        granted.begin(at(2000));
        granted.forget(at(1200), at(2000), 10_000);
        assert_eq!(granted.until(at(2100)), 100);
    }
}
