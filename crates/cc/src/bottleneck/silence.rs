//! Times without any acknowledgement: the path was interrupted, and losses about that time are no
//! evidence of a queue that overflows.
//!
//! A port that sends nothing for a while fills its own queue with the packets in flight. Packets
//! are dropped there, and others arrive as late as they do before a hop that overflows.

use crate::base::ablate::{Mechanism, without};
use crate::base::{Duration, Instant};

/// Round trips without an acknowledgement …
const ROUNDS: u32 = 2;
/// … and the least time.
const LEAST: Duration = Duration::from_millis(200);
/// Within this many round trips that counts once: a hop that drops whole windows is not an outage.
const ONCE_ROUNDS: u32 = 40;
/// Smaller windows, in packets, are lost as a whole also where a queue overflows.
const LEAST_WINDOW: u64 = 20;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// When the latest acknowledgement came, and the smoothed RTT then.
    last: Option<(Instant, Duration)>,
    /// Packets up to this number were sent before something came back again.
    until: Option<u64>,
    /// No further silence counts before.
    next: Instant,
}

impl Silence {
    /// An acknowledgement came, with the smoothed RTT `srtt`, when packets up to `last_sent` had
    /// been sent in windows of `window` packets.
    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, srtt: Duration, last_sent: u64, window: u64) {
        let Some((at, before)) = self.last.replace((now, srtt)) else {
            return;
        };
        if now - at > LEAST {
            self.judge(now, now - at, before, last_sent, window);
        }
    }

    #[cold]
    fn judge(&mut self, now: Instant, gap: Duration, srtt: Duration, last_sent: u64, window: u64) {
        if gap > srtt.saturating_mul(ROUNDS) && window >= LEAST_WINDOW && now >= self.next {
            self.until = Some(last_sent);
            self.next = now + srtt.saturating_mul(ONCE_ROUNDS);
        }
    }

    /// The sender had nothing to send: the missing acknowledgements mean nothing.
    pub(super) const fn on_idle(&mut self) {
        self.last = None;
    }

    /// True if packet `number` was sent before or during the interruption.
    #[inline]
    pub(super) fn covers(&self, number: u64) -> bool {
        self.until.is_some_and(|until| number <= until) && !without(Mechanism::Silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn what_was_sent_before_something_came_back_is_covered_once() {
        let mut silence = Silence::default();
        for millis in (0..1000).step_by(10) {
            silence.on_ack(at(millis), ms(100), millis, 50);
        }
        assert!(!silence.covers(0));
        // 210 ms are two round trips and more.
        silence.on_ack(at(1200), ms(100), 1500, 50);
        assert!(silence.covers(1500) && !silence.covers(1501));
        silence.on_ack(at(1500), ms(100), 1800, 50);
        assert!(!silence.covers(1501), "soon after");
        silence.on_ack(at(5300), ms(100), 2000, 50);
        assert!(silence.covers(2000));
    }

    #[test]
    fn idle_times_small_windows_and_short_paths_are_no_outages() {
        let mut silence = Silence::default();
        silence.on_ack(at(0), ms(1), 1, 50);
        silence.on_ack(at(200), ms(400), 2, 50);
        silence.on_ack(at(1000), ms(400), 3, 50);
        silence.on_ack(at(2000), ms(400), 4, 19);
        silence.on_idle();
        silence.on_ack(at(9000), ms(400), 6, 50);
        assert!(!silence.covers(1));
    }
}
