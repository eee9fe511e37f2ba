//! Decides whether the bottleneck port runs the other law.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};

/// Share of a round trip's answered packets (numerator and denominator) that must return translated
/// …
const SHARE: (u64, u64) = (3, 4);
/// … for this many consecutive round trips.
const ROUNDS: u32 = 2;
/// Minimum number of round trips between two changes …
const LEAST_STAY: u32 = 8;
/// … which doubles with each change that follows soon after another, up to this many.
const MOST_STAY: u32 = 512;
/// A change is soon if it happens within this multiple of the current stay.
const LONG: u32 = 4;

/// Counts a round trip's packets by the law of the port that limits them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    /// Beginning of the current round trip.
    since: Option<Instant>,
    /// Packets that returned with a router's answer in the current round trip.
    answered: u64,
    /// Answered packets that were limited by a port with another law.
    translated: u64,
    /// Consecutive round trips in favor of a change.
    rounds: u32,
    changed: Option<Instant>,
    /// Minimum number of round trips before the next change.
    stay: u32,
}

impl Judge {
    pub(crate) const fn new() -> Self {
        Self {
            since: None,
            answered: 0,
            translated: 0,
            rounds: 0,
            changed: None,
            stay: LEAST_STAY,
        }
    }

    /// Handles the return of `packets` with an answer that was or wasn't `translated`. Returns true
    /// if the law must change, which happens immediately at the path's first answer, and only after
    /// several round trips later.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        srtt: Duration,
        packets: u64,
        translated: bool,
    ) -> bool {
        if packets == 0 {
            return false;
        }
        let Some(since) = self.since else {
            self.since = Some(now);
            // Nothing is in flight that a change could disturb.
            return translated && self.changed.is_none();
        };
        self.answered = self.answered.saturating_add(packets);
        if translated {
            self.translated = self.translated.saturating_add(packets);
        }
        if ns_since(now, since) < nanos(srtt) {
            return false;
        }
        let most = self.answered.saturating_mul(SHARE.0) <= self.translated.saturating_mul(SHARE.1);
        self.since = Some(now);
        self.answered = 0;
        self.translated = 0;
        self.rounds = if most {
            self.rounds.saturating_add(1)
        } else {
            0
        };
        let stayed = self
            .changed
            .is_none_or(|at| now >= at + srtt.saturating_mul(self.stay));
        self.rounds >= ROUNDS && stayed
    }

    /// Returns true if there was no change within `patience`.
    pub(crate) fn is_settled(&self, now: Instant, patience: Duration) -> bool {
        self.changed.is_none_or(|at| now >= at + patience)
    }

    pub(crate) fn on_change(&mut self, now: Instant, srtt: Duration) {
        let soon = self
            .changed
            .is_some_and(|at| now < at + srtt.saturating_mul(self.stay.saturating_mul(LONG)));
        *self = Self {
            // Answers to earlier packets don't count.
            since: Some(now),
            changed: Some(now),
            stay: if soon {
                self.stay.saturating_mul(2).min(MOST_STAY)
            } else {
                LEAST_STAY
            },
            ..Self::new()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    const RTT: Duration = Duration::from_millis(100);

    /// Returns how many round trips pass before a change is due, reporting ten packets at a time.
    fn rounds_until(judge: &mut Judge, from: Instant, translated: impl Fn(u64) -> bool) -> u64 {
        for tenth in 1..100_000 {
            let now = from + ms(10 * tenth);
            if judge.hear(now, RTT, 10, translated(tenth)) {
                return tenth / 10;
            }
        }
        u64::MAX
    }

    #[test]
    fn the_first_answer_decides_at_once_and_later_ones_over_two_round_trips() {
        let mut judge = Judge::new();
        // Nothing came back.
        assert!(!judge.hear(Instant::ZERO, RTT, 0, true));
        assert!(judge.hear(Instant::ZERO, RTT, 1, true));
        let mut judge = Judge::new();
        assert!(!judge.hear(Instant::ZERO, RTT, 1, false));
        assert_eq!(rounds_until(&mut judge, Instant::ZERO, |_| true), 2);
        // Two ports limit the flow in turn.
        let in_turn = rounds_until(&mut judge, Instant::ZERO, |n| n % 2 == 0);
        assert_eq!(in_turn, u64::MAX);
    }

    #[test]
    fn who_goes_to_and_fro_does_so_more_and_more_seldom() {
        let mut judge = Judge::new();
        let mut now = at(1);
        judge.on_change(now, RTT);
        let mut stays = Vec::new();
        for _ in 0..9 {
            let rounds = rounds_until(&mut judge, now, |_| true);
            now += ms(100 * rounds);
            judge.on_change(now, RTT);
            stays.push(rounds);
        }
        assert_eq!(stays, [8, 16, 32, 64, 128, 256, 512, 512, 512]);
        // After a long time, the stay starts from its minimum again.
        now += ms(100 * 5000);
        judge.on_change(now, RTT);
        assert_eq!(rounds_until(&mut judge, now, |_| true), 8);
    }
}
