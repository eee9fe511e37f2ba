//! Controls the queueing delay of datagrams with CoDel (RFC 8289), and with a ramp of marks for
//! senders that respond to each mark (RFC 9331).

use crate::{Duration, Instant};

/// Queueing delay that is acceptable permanently (RFC 8289 §4.4).
const TARGET: Duration = Duration::from_millis(5);
/// Minimum time for which the delay may exceed the target: about a long round trip (RFC 8289
/// §4.3).
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// Number of intervals within which signaling resumes at its previous rate.
const MEMORY: u32 = 16;
/// Delays between which the share of marks rises from none to all. The ramp begins at the step
/// of RFC 9332 §2.5.1. A step doesn't work here, because packets of any sender wait for some
/// milliseconds whenever acknowledgements open the window. The ramp ends at CoDel's target: a
/// longer one would give senders more throughput, but a delay of 10 ms at the 99th percentile.
const RAMP: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// A share of 100 %.
const ALL: u64 = 1 << 16;

/// The signal to which a sender responds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Only to loss, because its packets aren't ECN-capable.
    Loss,
    /// To a mark as to a loss (RFC 3168).
    Classic,
    /// In proportion to the share of marks (RFC 9331).
    Scalable,
}

/// The fate of a datagram in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Mark,
    Drop,
}

#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// When the delay will have been above the target for an interval.
    due: Option<Instant>,
    signalling: bool,
    next: Instant,
    /// Number of signals in the current period, and its initial value.
    count: u64,
    count_before: u64,
    /// Fraction of a mark due to scalable senders.
    share: u64,
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            due: None,
            signalling: false,
            next: Instant::ZERO,
            count: 0,
            count_before: 0,
            share: 0,
        }
    }
}

impl Delay {
    /// Decides the fate of a datagram that has `waited`. It always passes if it is `alone`, because
    /// no other datagram waits. Otherwise it is dropped if it has waited longer than `interval`,
    /// because its sender doesn't respond to marks, or the path is broken.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        (waited, alone): (Duration, bool),
        response: Response,
        interval: Duration,
    ) -> Verdict {
        if alone {
            // A standing queue has at least two datagrams.
            self.due = None;
            self.signalling = false;
            return Verdict::Pass;
        }
        if waited > interval {
            return Verdict::Drop;
        }
        let signals = match response {
            Response::Scalable => self.ramp(waited),
            Response::Loss | Response::Classic => self.codel(now, waited, interval),
        };
        match (signals, response) {
            (false, _) => Verdict::Pass,
            (true, Response::Loss) => Verdict::Drop,
            (true, _) => Verdict::Mark,
        }
    }

    /// Spaces marks as evenly as their share allows.
    fn ramp(&mut self, waited: Duration) -> bool {
        let (from, to) = RAMP;
        let above = waited.saturating_sub(from).min(to - from);
        let share = above.as_nanos() * u128::from(ALL) / (to - from).as_nanos();
        self.share += u64::try_from(share).unwrap_or(ALL);
        let marks = self.share >= ALL;
        self.share -= if marks { ALL } else { 0 };
        marks
    }

    fn codel(&mut self, now: Instant, waited: Duration, interval: Duration) -> bool {
        let is_late = waited >= TARGET && now >= *self.due.get_or_insert(now + interval);
        if waited < TARGET {
            self.due = None;
        }
        if !self.signalling {
            if is_late {
                let recent = now < self.next + interval * MEMORY;
                let gained = self.count.saturating_sub(self.count_before);
                self.count = if gained > 1 && recent { gained } else { 1 };
                self.count_before = self.count;
                self.next = now + spacing(interval, self.count);
            }
            self.signalling = is_late;
            return is_late;
        }
        self.signalling = is_late;
        let signals = is_late && now >= self.next;
        if signals {
            self.count += 1;
            self.next += spacing(interval, self.count);
        }
        signals
    }
}

/// Returns `interval` / √`count`, accurate to one part in 2^16.
fn spacing(interval: Duration, count: u64) -> Duration {
    let root_q16 = (count.clamp(1, 1 << 31) << 32).isqrt();
    let nanos = (interval.as_nanos() << 16) / u128::from(root_q16.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// One datagram per millisecond behind a standing queue of 60 ms. The times of signals are
    /// computed by hand from the RFC's rule.
    #[test]
    fn signals_come_closer_with_the_root_of_their_number() {
        for (response, verdict) in [
            (Response::Loss, Verdict::Drop),
            (Response::Classic, Verdict::Mark),
        ] {
            let mut delay = Delay::default();
            let wait = (Duration::from_millis(60), false);
            let signals: Vec<_> = (5..450)
                .filter(|ms| delay.judge(at(*ms), wait, response, INTERVAL) == verdict)
                .collect();
            // Above the target from 5 ms, so the first signal is at 105 ms, and the others
            // follow after 100, 100/√2, 100/√3, 100/√4 and 100/√5 ms, each at the next whole
            // millisecond.
            assert_eq!(signals, [105, 205, 276, 334, 384, 429]);
            let short = (Duration::from_millis(4), false);
            let below = delay.judge(at(451), short, response, INTERVAL);
            assert_eq!(below, Verdict::Pass);
            // Within 16 intervals, signals resume with a count of five.
            let again =
                (452..560).find(|ms| delay.judge(at(*ms), wait, response, INTERVAL) == verdict);
            assert_eq!((again, delay.count), (Some(552), 5));
        }
    }

    #[test]
    fn the_share_of_marks_rises_with_the_wait() {
        for (micros, expected) in [
            (900, 0),
            (1_000, 0),
            (2_000, 25),
            (3_000, 50),
            (12_000, 100),
        ] {
            let mut delay = Delay::default();
            let wait = (Duration::from_micros(micros), false);
            let verdicts =
                (0..100).map(|ms| delay.judge(at(ms), wait, Response::Scalable, INTERVAL));
            let marks = verdicts.filter(|verdict| *verdict == Verdict::Mark).count();
            assert_eq!(marks, expected, "{micros}");
        }
    }

    #[test]
    fn a_last_datagram_passes_and_one_that_is_too_old_does_not() {
        let mut delay = Delay::default();
        for response in [Response::Loss, Response::Classic, Response::Scalable] {
            let mut judge = |wait| delay.judge(at(1_000), wait, response, INTERVAL);
            assert_eq!(judge((INTERVAL * 9, true)), Verdict::Pass);
            assert_eq!(judge((INTERVAL * 9, false)), Verdict::Drop);
        }
    }
}
