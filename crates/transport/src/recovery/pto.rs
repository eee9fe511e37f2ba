//! Backoff of probe timeouts (RFC 9002 §6.2).

use crate::{Duration, Instant};

/// A probe timeout never backs off beyond this, unless the path itself is slower (RFC 6298 §2.5 allows 60 s).
const LONGEST: Duration = Duration::from_secs(60);

/// How often the timeout fired in a row, over all packet number spaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeTimeout {
    count: u32,
}

impl ProbeTimeout {
    /// No timeout yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0 }
    }

    /// Timeouts in a row without an acknowledgement.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// When the timeout that was armed at `since` fires, `period` being the one without backoff.
    #[must_use]
    pub fn deadline(self, since: Instant, period: Duration) -> Instant {
        let backed_off = period.saturating_mul(1 << self.count.min(31));
        since + backed_off.min(LONGEST.max(period))
    }

    /// It fired.
    pub const fn on_timeout(&mut self) {
        self.count = self.count.saturating_add(1);
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
}
