//! Backoff of probe timeouts (RFC 9002 §6.2).

use crate::{Duration, Instant};

/// Maximum probe timeout, unless the path itself is slower (RFC 6298 §2.5 allows 60 s).
const LONGEST: Duration = Duration::from_secs(60);

/// Maximum share of the idle timeout, so that a probe detects a recovered path long before the
/// connection ends.
const IDLE_SHARE: u32 = 4;

/// Lower bound of that share, for very short idle timeouts.
const SHORTEST: Duration = Duration::from_secs(1);

/// The number of consecutive timeouts, over all packet number spaces.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimeout {
    count: u32,
    longest: Duration,
}

impl Default for ProbeTimeout {
    fn default() -> Self {
        Self::new()
    }
}

impl ProbeTimeout {
    /// Creates the state without any timeout.
    pub const fn new() -> Self {
        Self {
            count: 0,
            longest: LONGEST,
        }
    }

    /// Sets the idle timeout of the connection; `None`: never.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        let share = timeout.map_or(LONGEST, |timeout| timeout / IDLE_SHARE);
        self.longest = share.clamp(SHORTEST, LONGEST);
    }

    /// Returns the upper bound of the backoff.
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Returns the number of consecutive timeouts without an acknowledgement.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns when a timeout armed at `since` fires, given the `period` without backoff.
    pub fn deadline(self, since: Instant, period: Duration) -> Instant {
        // [9002 6.2.1 backoff]
        let backed_off = period.saturating_mul(1 << self.count.min(31));
        since + backed_off.min(self.longest.max(period))
    }

    /// Records that the timeout fired.
    pub const fn on_timeout(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Sets the number of consecutive timeouts, when another path becomes the current one.
    pub const fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    /// Resets the backoff, because something was acknowledged or a space was discarded.
    pub const fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_minute() {
        // [9002 6.2.1 backoff]
        let mut pto = ProbeTimeout::new();
        let waits = [(); 40].map(|()| {
            let at = pto.deadline(Instant::ZERO, Duration::from_secs(1));
            pto.on_timeout();
            at.as_nanos() / 1_000_000_000
        });
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(waits[39], 60);
        let longer = pto.deadline(Instant::ZERO, Duration::from_secs(90));
        assert_eq!(longer, Instant::from_millis(90_000));
        pto.reset();
        assert_eq!(pto.count(), 0);
    }

    #[test]
    fn a_quarter_of_the_idle_timeout_but_a_second() {
        let longest = |idle: Option<u64>| {
            let mut pto = ProbeTimeout::new();
            pto.set_idle_timeout(idle.map(Duration::from_millis));
            for _ in 0..40 {
                pto.on_timeout();
            }
            let at = pto.deadline(Instant::ZERO, Duration::from_millis(100));
            at.as_nanos() / 1_000_000
        };
        assert_eq!(longest(Some(30_000)), 7_500);
        assert_eq!(longest(Some(500)), 1_000);
        assert_eq!(longest(Some(3_600_000)), 60_000);
        assert_eq!(longest(None), 60_000);
    }
}
