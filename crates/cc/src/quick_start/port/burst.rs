//! Flows that begin together at a port. The first is granted all free capacity, and returns the
//! excess over its share a round trip later, so that the others then get their shares.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::quick_start::params::{SAMPLE, UNKNOWN_RTT};

/// Round trips after the first grant for which returned rate is dealt out.
const ROUNDS: u32 = 4;

/// The latest flows that began together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Time of the first grant, and the rate that was free at that time in bytes per second.
    at: Instant,
    of: u64,
    lasts: Duration,
    given_back: bool,
    /// Time of the first of the latest questions, and the rate used before it in bytes per second.
    asked: Option<(Instant, u64)>,
}

impl Burst {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            at: now,
            of: 0,
            lasts: Duration::ZERO,
            given_back: false,
            asked: None,
        }
    }

    /// Handles a question that arrived while `used` bytes per second are in use. It may wait in a
    /// queue while the first windows of the asking flows arrive, which must not count in addition
    /// to their grants.
    pub(super) fn on_question(&mut self, now: Instant, used: u64) {
        self.asked = self.asked_lately(now).or(Some((now, used)));
    }

    fn asked_lately(&self, now: Instant) -> Option<(Instant, u64)> {
        self.asked
            .filter(|&(at, _)| ns_since(now, at) < nanos(SAMPLE))
    }

    /// Returns the rate used before the asking flows arrived, given the current usage of `used`.
    pub(super) fn used_before(&self, now: Instant, used: u64) -> u64 {
        let lately = self.asked_lately(now);
        lately.map_or(used, |(_, before)| before.min(used))
    }

    fn lasts(&self, now: Instant) -> bool {
        ns_since(now, self.at) < nanos(self.lasts)
    }

    /// Handles a grant from `free` bytes per second to a flow with an RTT of `rtt`.
    pub(super) fn on_grant(&mut self, now: Instant, free: u64, rtt: Option<Duration>) {
        if !self.lasts(now) {
            *self = Self {
                at: now,
                of: free,
                lasts: rtt.unwrap_or(UNKNOWN_RTT).saturating_mul(ROUNDS),
                given_back: false,
                ..*self
            };
        }
    }

    /// Handles the partial return of a grant made at `at`.
    pub(super) fn on_given_back(&mut self, at: Instant) {
        self.given_back |= at == self.at;
    }

    /// Returns the time since which flows share a start, and the rate in bytes per second that they
    /// share, or `None` if nothing was given back.
    pub(super) fn given_back(&self, now: Instant) -> Option<(Instant, u64)> {
        let shared = self.given_back && self.lasts(now) && !without(Mechanism::Burst);
        shared.then_some((self.at, self.of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    #[test]
    fn what_the_first_gives_back_is_there_for_some_round_trips() {
        let mut burst = Burst::new(at(0));
        assert_eq!(burst.given_back(at(0)), None);
        burst.on_grant(at(1000), 850, Some(ms(100)));
        burst.on_grant(at(1050), 20, Some(ms(100)));
        assert_eq!(burst.given_back(at(1060)), None);
        burst.on_given_back(at(1050));
        assert_eq!(burst.given_back(at(1060)), None, "not the first");
        burst.on_given_back(at(1000));
        assert_eq!(burst.given_back(at(1399)), Some((at(1000), 850)));
        assert_eq!(burst.given_back(at(1400)), None);
        burst.on_grant(at(1400), 300, None);
        assert_eq!(burst.given_back(at(1401)), None);
        burst.on_given_back(at(1400));
        assert_eq!(burst.given_back(at(5399)), Some((at(1400), 300)));
        assert_eq!(burst.given_back(at(5400)), None);
    }
}
