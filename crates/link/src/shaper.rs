//! The transmitter of a link, which sends packets one after the other, either at a rate or
//! according to a trace.

use std::sync::Arc;

use pathmark_cc::{Duration, Instant};

use crate::trace::{Cursor, OPPORTUNITY, Trace};

const NANOS: u64 = 1_000_000_000;

/// How far a late driver can catch up. The link still sends the bytes that it would have sent in
/// this many nanoseconds at its rate, but never more at once.
const MAX_LAG: u64 = 50_000_000;

/// Serializes packets at an exact rate: fractions of a nanosecond are carried to the next
/// packet, so that the bytes sent over any busy period match the rate to within one packet.
///
/// If a driver polls late, transmissions may have ended in the past. The link nevertheless keeps
/// its rate (up to 50 ms of arrears), and a delay line behind it hides the lateness entirely.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// Bytes per second. `None`: unlimited. 0: no packet passes until the rate changes.
    rate: Option<u64>,
    free_at: Instant,
    /// Byte-nanoseconds that the last transmission took beyond `free_at`, less than `rate`.
    remainder: u64,
    /// Remaining byte-nanoseconds of a packet whose transmission an outage has stopped.
    stopped: u128,
    /// The trace whose opportunities are used instead of a rate.
    trace: Option<Box<Cursor>>,
}

/// A transmission whose end has moved because of a change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retimed {
    /// The old end.
    pub was: Instant,
    /// The new end.
    pub is: Instant,
}

/// Nanoseconds from `earlier` to `now`, 0 if `earlier` is later.
fn ns_since(now: Instant, earlier: Instant) -> u64 {
    now.as_nanos().saturating_sub(earlier.as_nanos())
}

impl Shaper {
    /// A shaper at `rate` bytes per second; `None` is unlimited.
    pub fn new(rate: Option<u64>) -> Self {
        let mut shaper = Self {
            rate: None,
            free_at: Instant::ZERO,
            remainder: 0,
            stopped: 0,
            trace: None,
        };
        let _ = shaper.set_rate(Instant::ZERO, rate);
        shaper
    }

    /// Creates a shaper that follows `trace`, starting at `now`.
    pub fn following(trace: Arc<Trace>, now: Instant) -> Self {
        let cursor = Cursor::new(trace, now);
        Self {
            rate: Some(cursor.rate()),
            free_at: cursor.at(),
            remainder: 0,
            stopped: 0,
            trace: Some(Box::new(cursor)),
        }
    }

    /// The rate in bytes per second; with a trace, the mean over the present 100 ms.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Changes the rate. The rest of the packet in transmission is sent at the new rate; during
    /// an outage, it waits. A trace is no longer followed. Returns the old and the new end of
    /// this transmission, or `None` if there is none or its end does not change.
    pub fn set_rate(&mut self, now: Instant, rate: Option<u64>) -> Option<Retimed> {
        let (was, left) = self.in_transmission(now);
        self.trace = None;
        self.rate = rate;
        self.remainder = 0;
        self.stopped = 0;
        self.free_at = match rate {
            None => now,
            Some(0) => {
                self.stopped = left;
                Instant::FAR_FUTURE
            }
            Some(rate) => {
                let nanos = left.div_ceil(u128::from(rate));
                now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        let retimed = Retimed {
            was,
            is: self.free_at,
        };
        (left > 0 && retimed.was != retimed.is).then_some(retimed)
    }

    /// The end of the transmission in progress, and its remaining byte-nanoseconds.
    fn in_transmission(&self, now: Instant) -> (Instant, u128) {
        if let Some(trace) = &self.trace {
            let ends = trace.delivers_until();
            let left = u128::from(OPPORTUNITY) * u128::from(NANOS);
            return (ends, if ends > now { left } else { 0 });
        }
        let left = match self.rate {
            None => 0,
            Some(0) => self.stopped,
            Some(rate) => {
                let nanos = u128::from(ns_since(self.free_at, now));
                nanos * u128::from(rate) + u128::from(self.remainder)
            }
        };
        let busy = self.free_at > now;
        (self.free_at, if busy { left } else { 0 })
    }

    /// When the next transmission can start.
    pub fn ready_at(&self) -> Instant {
        self.free_at
    }

    /// Records that others used the medium until `now`, so that the next transmission cannot
    /// start earlier.
    pub(super) fn hold(&mut self, now: Instant) {
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
    }

    /// Records that no packet waits, so that a trace's opportunities pass unused.
    #[inline]
    pub(super) fn idle_until(&mut self, now: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.skip_to(now);
            self.free_at = trace.at();
        }
    }

    /// Bytes that a trace could have delivered until `now`; `None` without a trace.
    pub(super) fn offered(&self, now: Instant) -> Option<u64> {
        Some(self.trace.as_ref()?.offered(now))
    }

    /// When the rate of a trace changes next.
    #[inline]
    pub(super) fn turns_at(&self) -> Instant {
        let trace = self.trace.as_ref();
        trace.map_or(Instant::FAR_FUTURE, |trace| trace.turns_at())
    }

    /// Returns a change of a trace's rate that is due by `now`: its time and the new rate.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant) -> Option<(Instant, u64)> {
        let trace = self.trace.as_mut()?;
        let at = trace.turns_at();
        (at <= now).then(|| {
            let rate = trace.turn();
            self.rate = Some(rate);
            (at, rate)
        })
    }

    /// Transmits a packet of `bytes` that has been waiting since `since`, and returns when its
    /// last bit leaves. It must be called at or after [`ready_at`](Self::ready_at).
    #[inline]
    pub fn transmit(&mut self, now: Instant, since: Instant, bytes: u32) -> Instant {
        let Some(rate) = self.rate else {
            return now;
        };
        if let Some(trace) = &mut self.trace {
            let lag = now.as_nanos().saturating_sub(MAX_LAG);
            trace.skip_to(since.max(Instant::from_nanos(lag)));
            let finished = trace.deliver(bytes);
            self.free_at = trace.at();
            return finished;
        }
        // In plain nanoseconds, because separate seconds and fractions would cost more than
        // everything else.
        let mut start = self.free_at.as_nanos();
        let earliest = since.as_nanos().max(now.as_nanos().saturating_sub(MAX_LAG));
        if start < earliest {
            start = earliest;
            self.remainder = 0;
        }
        let work = u64::from(bytes) * NANOS + self.remainder;
        let nanos = work.checked_div(rate).unwrap_or(0);
        self.remainder = work - nanos * rate;
        self.free_at = Instant::from_nanos(start.saturating_add(nanos));
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_takes_its_bits_over_the_rate() {
        let mut shaper = Shaper::new(Some(1_250_000)); // 10 Mbit/s
        let t0 = Instant::from_millis(5);
        assert_eq!(shaper.transmit(t0, t0, 1500), Instant::from_micros(6_200));
        // Queued behind the first, however late the driver is (here 300 µs).
        let late = Instant::from_micros(6_500);
        assert_eq!(shaper.transmit(late, t0, 1500), Instant::from_micros(7_400));
        // Arrives at an idle link.
        let t1 = Instant::from_millis(20);
        assert_eq!(shaper.transmit(t1, t1, 1500), Instant::from_micros(21_200));
    }

    #[test]
    fn arrears_are_bounded() {
        let mut shaper = Shaper::new(Some(1_000_000));
        let t = Instant::from_millis(1_000);
        assert_eq!(
            shaper.transmit(t, Instant::ZERO, 1000),
            Instant::from_millis(951)
        );
    }

    #[test]
    fn rate_zero_is_an_outage() {
        let mut shaper = Shaper::new(Some(0));
        assert_eq!(shaper.ready_at(), Instant::FAR_FUTURE);
        assert_eq!(shaper.set_rate(Instant::from_millis(7), Some(1000)), None);
        assert_eq!(shaper.ready_at(), Instant::from_millis(7));
    }

    /// 1000 bytes at 1 byte/s would take 1000 s. After 500 s the rate becomes 1 MB/s, and 500
    /// bytes are left. An outage stops the transmission, which later continues from there.
    #[test]
    fn what_is_left_of_a_packet_leaves_at_the_new_rate() {
        let s = |seconds: u64| Instant::from_millis(1000 * seconds);
        let left = Duration::from_micros(500);
        for outage in [false, true] {
            let mut shaper = Shaper::new(Some(1));
            assert_eq!(shaper.transmit(s(0), s(0), 1000), s(1000));
            let (mut now, mut was) = (s(500), s(1000));
            if outage {
                let is = Instant::FAR_FUTURE;
                let stopped = shaper.set_rate(now, Some(0));
                assert_eq!(stopped, Some(Retimed { was, is }));
                (now, was) = (s(600), is);
            }
            let is = now + left;
            let retimed = shaper.set_rate(now, Some(1_000_000));
            assert_eq!(retimed, Some(Retimed { was, is }));
            assert_eq!(shaper.ready_at(), is);
            let next = shaper.transmit(is, now, 1000);
            assert_eq!(next, is + Duration::from_millis(1));
        }
    }

    #[test]
    fn an_opportunity_that_is_far_away_is_waited_for_no_longer() {
        let trace = Trace::new(vec![1_000_000, 3_600_000_000_000]).unwrap();
        let mut shaper = Shaper::following(Arc::new(trace), Instant::ZERO);
        let t = Instant::from_millis(1);
        assert_eq!(shaper.transmit(t, t, 1000), t);
        let ends = shaper.transmit(t, t, 1000);
        assert_eq!(ends, Instant::from_millis(3_600_000));
        let now = Instant::from_millis(10);
        let is = now + Duration::from_micros(1500);
        let retimed = shaper.set_rate(now, Some(1_000_000));
        assert_eq!(retimed, Some(Retimed { was: ends, is }));
    }

    proptest! {
        /// Over a busy period, the end of transmission is exactly ⌊Σbytes·10⁹/rate⌋, without
        /// drift.
        #[test]
        fn carries_its_remainder(
            rate in 1_000u64..1_000_000_000_000,
            sizes in prop::collection::vec(20u32..65_536, 1..200),
        ) {
            let mut shaper = Shaper::new(Some(rate));
            let mut sum = 0u128;
            let mut now = Instant::ZERO;
            for bytes in sizes {
                sum += u128::from(bytes);
                now = shaper.transmit(now, Instant::ZERO, bytes);
                prop_assert_eq!(u128::from(now.as_nanos()), sum * 1_000_000_000 / u128::from(rate));
            }
        }
    }
}
