//! Backoff of probe timeouts (RFC 9002 §6.2).

use crate::{Duration, Instant};

/// A probe timeout never backs off beyond this, unless the path itself is slower (RFC 6298 §2.5
/// allows 60 s).
const LONGEST: Duration = Duration::from_secs(60);

/// Nor beyond this share of the idle timeout: once the path is there again, a probe finds it long
/// before the connection ends.
const IDLE_SHARE: u32 = 4;

/// But for an idle timeout that is very short.
const SHORTEST: Duration = Duration::from_secs(1);

/// How often the timeout fired in a row, over all packet number spaces.
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
    /// No timeout yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: 0,
            longest: LONGEST,
        }
    }

    /// The connection ends after `timeout` of silence; `None`: never.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        let share = timeout.map_or(LONGEST, |timeout| timeout / IDLE_SHARE);
        self.longest = share.clamp(SHORTEST, LONGEST);
    }

    /// What the timeout backs off to at most.
    #[must_use]
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Timeouts in a row without an acknowledgement.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// When the timeout that was armed at `since` fires, `period` being the one without backoff.
    #[must_use]
    pub fn deadline(self, since: Instant, period: Duration) -> Instant {
        // [9002 6.2.1 backoff]
        let backed_off = period.saturating_mul(1 << self.count.min(31));
        since + backed_off.min(self.longest.max(period))
    }

    /// It fired.
    pub const fn on_timeout(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    /// Another path is the current one, whose timeout fired as often in a row.
    pub const fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    /// Something came back, or a space is gone.
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
        let mut waits = Vec::new();
        for _ in 0..40 {
            waits.push(
                pto.deadline(Instant::ZERO, Duration::from_secs(1))
                    .as_nanos()
                    / 1_000_000_000,
            );
            pto.on_timeout();
        }
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(waits[39], 60);
        assert_eq!(
            pto.deadline(Instant::ZERO, Duration::from_secs(90)),
            Instant::from_millis(90_000)
        );
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
