//! Detects foreign traffic that keeps a cloud's queue full whatever the virtual router's rate is.
//!
//! Loss-based senders keep a queue full. A virtual router that tries to drain every persistent
//! queue would leave the cloud to them (the XCP-i paper, section V-B, does not consider this case).
//! Therefore, if a queue of a part of a round trip persists for a second while part of the traffic
//! is foreign, the port reports that the cloud is not accounted for. Senders then share it as CUBIC
//! does, within the limits of routers. The cloud is accounted for again once hardly any foreign
//! traffic is left.
//!
//! The queueing delay is measured relative to the shortest recent time. If foreign traffic has kept
//! the queue full from the beginning, this time includes most of the queue. Therefore the cloud is
//! also unaccounted for if own flows request more for a second and have almost nothing, while
//! foreign traffic has nearly everything. The minimum of a flow, a packet per round trip, counts as
//! almost nothing as well.

use crate::base::arith::ns_since;
use crate::base::{Duration, Instant};
use crate::signals::CloudEstimate;

/// Divisor of a round trip: a queue of this part counts if foreign traffic has one part in
/// `FOREIGN` of the capacity. Half of the queue counts if foreign traffic has half of the capacity.
const QUEUE: u128 = 4;
const FOREIGN: i64 = 10;
const MOSTLY_FOREIGN: i64 = 2;
/// A queue that persists for this time means that others fill it.
const LONG: Duration = Duration::from_secs(1);
/// Competitors are gone once foreign traffic has been below one part in `GONE` of the capacity for
/// the same time.
const GONE: i64 = 20;
/// Own traffic below one part in `STARVES` of the capacity is almost nothing: half the share if a
/// port's maximum number of routers share it.
const STARVES: i64 = 64;
/// Below one part in `STARVES_BY_WINDOW`, it is almost nothing if it has fewer bytes per round trip
/// than two packets of one flow, whose minimum window is one packet.
const LEAST_WINDOW: u128 = 2 * 1500;
const STARVES_BY_WINDOW: i64 = 16;
/// Both apply only while less than one part in `NOT_FOREIGN` of the capacity is not foreign.
const NOT_FOREIGN: i64 = 10;
/// Number of estimates over which rates are averaged.
const AVERAGED: i64 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossBasedCompetitor {
    is_there: bool,
    /// Foreign and own bytes per second, averaged because single estimates differ by a packet or
    /// two.
    foreign: i64,
    own: i64,
    /// When the opposite of `is_there` began to seem true.
    doubted: Option<Instant>,
}

impl LossBasedCompetitor {
    /// Handles an estimate for a period in which the virtual router's own flows had `own` bytes per
    /// second; `want` is true if a request of such a flow was refused recently. Returns true if
    /// foreign traffic has begun to fill the queue.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        estimate: &CloudEstimate,
        own: i64,
        want: bool,
        mean_rtt: Duration,
    ) -> bool {
        let capacity = i64::try_from(estimate.capacity).unwrap_or(i64::MAX);
        if capacity == 0 {
            return false;
        }
        let now_foreign = capacity
            .saturating_sub(estimate.available)
            .saturating_sub(own);
        self.foreign += now_foreign.saturating_sub(self.foreign) / AVERAGED;
        self.own += own.saturating_sub(self.own) / AVERAGED;
        let foreign = self.foreign;
        let doubt = if self.is_there {
            foreign < capacity / GONE
        } else {
            let waits = u128::from(estimate.queue) * 1_000_000_000 / u128::from(estimate.capacity);
            let mostly = foreign >= capacity / MOSTLY_FOREIGN;
            let queue_part = if mostly { 2 * QUEUE } else { QUEUE };
            let queue = waits * queue_part >= mean_rtt.as_nanos() && foreign >= capacity / FOREIGN;
            let all = capacity - capacity / NOT_FOREIGN;
            let own = u128::try_from(self.own).unwrap_or(0);
            let least = own.saturating_mul(mean_rtt.as_nanos()) < LEAST_WINDOW * 1_000_000_000;
            let own_part = if least { STARVES_BY_WINDOW } else { STARVES };
            queue || want && self.own < capacity / own_part && foreign >= all
        };
        if !doubt {
            self.doubted = None;
            return false;
        }
        let since = *self.doubted.get_or_insert(now);
        if ns_since(now, since) < u64::try_from(LONG.as_nanos()).unwrap_or(u64::MAX) {
            return false;
        }
        self.is_there = !self.is_there;
        self.doubted = None;
        self.is_there
    }

    pub(crate) const fn is_there(&self) -> bool {
        self.is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn estimate(available: i64, queue: u64) -> CloudEstimate {
        CloudEstimate {
            available,
            capacity: 1_000_000,
            queue,
            valid_for: Duration::from_secs(1),
        }
    }

    fn learn(crowd: &mut LossBasedCompetitor, millis: u64, own: i64, queue: u64) -> bool {
        let rtt = Duration::from_millis(100);
        crowd.learn(at(millis), &estimate(0, queue), own, false, rtt)
    }

    fn wanting(crowd: &mut LossBasedCompetitor, millis: u64, own: i64, want: bool) -> bool {
        let rtt = Duration::from_millis(100);
        crowd.learn(at(millis), &estimate(0, 0), own, want, rtt)
    }

    /// A queue that existed from the beginning cannot be measured. Flows that have a thousandth of
    /// the capacity and want more are detected after a second, unlike flows that have a 25th, that
    /// want no more, or that began less than a second ago.
    #[test]
    fn who_is_left_nothing() {
        let mut crowd = LossBasedCompetitor::default();
        let found = (0..).find(|millis| wanting(&mut crowd, *millis, 1_000, true));
        assert!((1000..1100).contains(&found.unwrap()), "{found:?}");
        for (own, want) in [(40_000, true), (1_000, false)] {
            let mut crowd = LossBasedCompetitor::default();
            assert!((0..10_000).all(|millis| !wanting(&mut crowd, millis, own, want)));
        }
        let mut crowd = LossBasedCompetitor::default();
        for millis in 0..10_000 {
            let own = if millis < 900 { 1_000 } else { 40_000 };
            assert!(!wanting(&mut crowd, millis, own, true));
        }
    }

    /// On a path that holds 50 packets, the minimum of a flow is a 50th of the link.
    #[test]
    fn the_least_window_of_a_thin_cloud() {
        for (own, found) in [(1_500, true), (2_900, true), (3_500, false)] {
            let mut crowd = LossBasedCompetitor::default();
            let thin = CloudEstimate {
                capacity: 75_000,
                ..estimate(0, 0)
            };
            let rtt = Duration::from_secs(1);
            let mut millis = (0..5_000).map(at);
            let seen = millis.any(|now| crowd.learn(now, &thin, own, true, rtt));
            assert_eq!(seen, found, "{own}");
        }
    }

    /// A quarter of a round trip is 25 ms, or 25 000 bytes.
    #[test]
    fn a_queue_that_others_keep() {
        let mut crowd = LossBasedCompetitor::default();
        for millis in 0..1000 {
            assert!(!learn(&mut crowd, millis, 200_000, 25_000));
        }
        assert!((1000..1010).any(|millis| learn(&mut crowd, millis, 200_000, 25_000)));
        assert!(crowd.is_there());
        // Half of the traffic is ours, so they are still there.
        for millis in 1010..5000 {
            assert!(!learn(&mut crowd, millis, 500_000, 0));
        }
        assert!(crowd.is_there());
        for millis in 5000..6100 {
            assert!(!learn(&mut crowd, millis, 960_000, 50_000));
        }
        assert!(!crowd.is_there());
    }

    /// Half of this queue, with traffic that is mostly foreign.
    #[test]
    fn a_shorter_queue_of_many() {
        let mut crowd = LossBasedCompetitor::default();
        let found = (0..).find(|millis| learn(&mut crowd, *millis, 200_000, 12_500));
        assert!((1000..1100).contains(&found.unwrap()), "{found:?}");
    }

    /// A queue caused by own flows, a short queue, and a queue that sometimes drains do not count.
    #[test]
    fn other_queues() {
        for (own, queue, drains) in [
            (950_000, 90_000, false),
            (600_000, 24_000, false),
            // The queue that 32 virtual routers sharing a cloud keep.
            (200_000, 8_000, false),
            (200_000, 90_000, true),
        ] {
            let mut crowd = LossBasedCompetitor::default();
            for millis in 0..10_000 {
                let is_empty = drains && millis % 900 == 0;
                let queue = if is_empty { 0 } else { queue };
                assert!(!learn(&mut crowd, millis, own, queue));
            }
        }
    }
}
