//! The transmitter of a link: one packet after the other at a rate, or as a trace lets them.

use std::sync::Arc;

use pathmark_cc::Instant;

use super::trace::{Cursor, Trace};

const NANOS: u64 = 1_000_000_000;

/// How far a late driver may catch up: what a link of this rate would have sent meanwhile it still
/// sends, but never more than this many nanoseconds' worth at once.
const MAX_LAG: u64 = 50_000_000;

/// Serializes packets at a rate, exactly: what a nanosecond cannot express is carried to the next
/// packet, so that over any busy period the bytes sent match the rate to one packet.
///
/// A driver that polls late finds packets whose transmission ended in the past; the link keeps its
/// rate (up to 50 ms of arrears), and a delay line behind it hides the lateness entirely.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// Bytes per second. `None`: unlimited. 0: nothing passes until the rate changes.
    rate: Option<u64>,
    free_at: Instant,
    /// Byte-nanoseconds, less than `rate`, that the last transmission took beyond `free_at`.
    remainder: u64,
    /// Whose opportunities are used instead of a rate's.
    trace: Option<Box<Cursor>>,
}

impl Shaper {
    /// A shaper at `rate` bytes per second; `None` is unlimited.
    #[must_use]
    pub fn new(rate: Option<u64>) -> Self {
        let mut shaper = Self {
            rate: None,
            free_at: Instant::ZERO,
            remainder: 0,
            trace: None,
        };
        shaper.set_rate(Instant::ZERO, rate);
        shaper
    }

    /// A shaper that sends when `trace`, begun at `now`, says so.
    #[must_use]
    pub fn following(trace: Arc<Trace>, now: Instant) -> Self {
        let cursor = Cursor::new(trace, now);
        Self {
            rate: Some(cursor.rate()),
            free_at: cursor.at(),
            remainder: 0,
            trace: Some(Box::new(cursor)),
        }
    }

    /// The rate in bytes per second; of a trace, that of the present 100 ms.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Changes the rate. A packet already in transmission ends as it would have. A trace is
    /// followed no longer.
    pub fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.trace = None;
        if rate == Some(0) {
            self.free_at = Instant::FAR_FUTURE;
        } else if self.free_at == Instant::FAR_FUTURE {
            self.free_at = now;
        }
        self.rate = rate;
        self.remainder = 0;
    }

    /// When the next transmission can start.
    #[inline]
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        self.free_at
    }

    /// Others had the medium until `now`: the next transmission starts no earlier.
    pub(super) fn hold(&mut self, now: Instant) {
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
    }

    /// Nothing waits: opportunities of a trace pass by.
    #[inline]
    pub(super) fn idle_until(&mut self, now: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.skip_to(now);
            self.free_at = trace.at();
        }
    }

    /// Bytes that a trace could have delivered until `now`; `None` where there is none.
    pub(super) fn offered(&self, now: Instant) -> Option<u64> {
        Some(self.trace.as_ref()?.offered(now))
    }

    /// When the rate of a trace changes next.
    #[inline]
    pub(super) fn turns_at(&self) -> Instant {
        let trace = self.trace.as_ref();
        trace.map_or(Instant::FAR_FUTURE, |trace| trace.turns_at())
    }

    /// A change of a trace's rate that is due by `now`: when, and to what.
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

    /// Transmits a packet of `bytes` that has been waiting since `since`; returns when its last bit
    /// has left. To be called at or after [`ready_at`](Self::ready_at).
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
        // In plain nanoseconds: seconds and fraction apart would cost more than all the rest.
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
        // Queued behind the first, however late the driver comes (here 300 µs late).
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
        shaper.set_rate(Instant::from_millis(7), Some(1000));
        assert_eq!(shaper.ready_at(), Instant::from_millis(7));
    }

    proptest! {
        /// Over a busy period the end of transmission is the exact ⌊Σbytes·10⁹/rate⌋: no drift.
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
