//! Notices that this process did not run for a while, because it was stopped. The monotonic
//! clock does not count time in which the machine was suspended.

use pathmark_cc::{Duration, Instant};

/// Time without running after which waiting packets are too old to send. A late acknowledgement
/// would give its sender a round trip that no path has, and a retransmission timeout of the same
/// length.
const ABSENT: Duration = Duration::from_secs(3);

/// When the loop must run again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    due: Option<Instant>,
}

impl Presence {
    /// The loop will run again at `due` at the latest; `None`: unknown.
    pub(super) fn expect(&mut self, due: Option<Instant>) {
        self.due = due;
    }

    /// Whether the loop runs far too late.
    pub(super) fn was_absent(&self, now: Instant) -> bool {
        self.due
            .is_some_and(|due| now.saturating_since(due) >= ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_far_too_late_was_absent() {
        let at = Instant::from_millis;
        let mut presence = Presence::default();
        assert!(!presence.was_absent(at(1_000_000)));
        presence.expect(Some(at(1_000)));
        for (now, expected) in [(500, false), (1_000, false), (3_999, false), (4_000, true)] {
            assert_eq!(presence.was_absent(at(now)), expected, "{now}");
        }
        // A wait without a deadline can end at any time.
        presence.expect(None);
        assert!(!presence.was_absent(at(1_000_000)));
    }
}
