//! Foreign traffic that keeps a cloud's queue full at any rate of the virtual router.
//!
//! Loss-based senders keep a queue full. A virtual router that takes every standing queue back
//! leaves such a cloud to them (the XCP-i paper, section V-B, does not consider it). So where a
//! queue of a part of a round trip stands for a second although a part of the traffic is foreign,
//! the port reports that the cloud is not accounted for: senders then share it as CUBIC does,
//! within what routers allow. It is accounted for again once hardly any foreign traffic is left.
//!
//! The queueing delay shows only relative to the shortest recent time. Where foreign traffic kept
//! the queue full from the beginning, that time includes most of the queue. So the cloud is also
//! unaccounted for if own flows ask for more for a second and have next to nothing, while foreign
//! traffic has nearly all. The minimum of a flow is next to nothing as well: a packet per round
//! trip.

use crate::base::arith::ns_since;
use crate::base::{Duration, Instant};
use crate::signals::CloudEstimate;

/// A queue of this part of a round trip, as a divisor …
const QUEUE: u128 = 4;
/// … with foreign traffic of this part of the capacity, as a divisor, or half of that queue with
/// foreign traffic of half of the capacity …
const FOREIGN: i64 = 10;
const MOSTLY_FOREIGN: i64 = 2;
/// … for so long means that others fill it.
const LONG: Duration = Duration::from_secs(1);
/// Foreign traffic below this part of the capacity, as a divisor, for as long, means that they are
/// gone.
const GONE: i64 = 20;
/// Own traffic below this part of the capacity, as a divisor, is next to nothing: half the share of
/// as many routers as a port keeps …
const STARVES: i64 = 64;
/// … and less than this number of bytes per round trip below this part of it: two packets of one
/// flow, whose least window is one …
const LEAST_WINDOW: u128 = 2 * 1500;
const STARVES_BY_WINDOW: i64 = 16;
/// … while the part of the capacity, as a divisor, that is not foreign is below this.
const NOT_FOREIGN: i64 = 10;
/// Estimates that are averaged.
const AVERAGED: i64 = 16;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossBasedCompetitor {
    is_there: bool,
    /// Foreign bytes per second, and own ones, averaged: single estimates are a packet or two off.
    foreign: i64,
    own: i64,
    /// Since when the opposite seems true.
    doubted: Option<Instant>,
}

impl LossBasedCompetitor {
    /// An estimate came, over a time in which the virtual router's own flows had `own` bytes per
    /// second; `want` is true if one of them was refused a request lately. True if foreign traffic
    /// has begun to fill the queue.
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

    /// Others fill the queue.
    #[inline]
    pub(crate) const fn is_there(&self) -> bool {
        self.is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(available: i64, queue: u64) -> CloudEstimate {
        CloudEstimate {
            available,
            capacity: 1_000_000,
            queue,
            valid_for: Duration::from_secs(1),
        }
    }

    fn learn(crowd: &mut LossBasedCompetitor, millis: u64, own: i64, queue: u64) -> bool {
        wanting(crowd, millis, own, queue, false)
    }

    fn wanting(
        crowd: &mut LossBasedCompetitor,
        millis: u64,
        own: i64,
        queue: u64,
        want: bool,
    ) -> bool {
        let now = Instant::from_millis(millis);
        let rtt = Duration::from_millis(100);
        crowd.learn(now, &estimate(0, queue), own, want, rtt)
    }

    /// A queue that stood from the beginning does not show. Flows that have a thousandth and want
    /// more have waited for long enough after a second; those that have a 25th, that want no
    /// more, or that began less than a second ago, have not.
    #[test]
    fn who_is_left_nothing() {
        let mut crowd = LossBasedCompetitor::default();
        let found = (0..).find(|millis| wanting(&mut crowd, *millis, 1_000, 0, true));
        assert!((1000..1100).contains(&found.unwrap()), "{found:?}");
        for (own, want) in [(40_000, true), (1_000, false)] {
            let mut crowd = LossBasedCompetitor::default();
            assert!((0..10_000).all(|millis| !wanting(&mut crowd, millis, own, 0, want)));
        }
        let mut crowd = LossBasedCompetitor::default();
        for millis in 0..10_000 {
            let own = if millis < 900 { 1_000 } else { 40_000 };
            assert!(!wanting(&mut crowd, millis, own, 0, true));
        }
    }

    /// Over a path that holds 50 packets, what a flow sends at least is a 50th of the link.
    #[test]
    fn the_least_window_of_a_thin_cloud() {
        for (own, found) in [(1_500, true), (2_900, true), (3_500, false)] {
            let mut crowd = LossBasedCompetitor::default();
            let thin = CloudEstimate {
                capacity: 75_000,
                ..estimate(0, 0)
            };
            let rtt = Duration::from_secs(1);
            let mut millis = (0..5_000).map(Instant::from_millis);
            let seen = millis.any(|now| crowd.learn(now, &thin, own, true, rtt));
            assert_eq!(seen, found, "{own}");
        }
    }

    /// A quarter of a round trip is 25 ms, 25 000 bytes.
    #[test]
    fn a_queue_that_others_keep() {
        let mut crowd = LossBasedCompetitor::default();
        for millis in 0..1000 {
            assert!(!learn(&mut crowd, millis, 200_000, 25_000));
        }
        assert!((1000..1010).any(|millis| learn(&mut crowd, millis, 200_000, 25_000)));
        assert!(crowd.is_there());
        // Half of it is ours: they are still there.
        for millis in 1010..5000 {
            assert!(!learn(&mut crowd, millis, 500_000, 0));
        }
        assert!(crowd.is_there());
        for millis in 5000..6100 {
            assert!(!learn(&mut crowd, millis, 960_000, 50_000));
        }
        assert!(!crowd.is_there());
    }

    /// Half of that, with traffic that is mostly foreign.
    #[test]
    fn a_shorter_queue_of_many() {
        let mut crowd = LossBasedCompetitor::default();
        let found = (0..).find(|millis| learn(&mut crowd, *millis, 200_000, 12_500));
        assert!((1000..1100).contains(&found.unwrap()), "{found:?}");
    }

    /// A queue of the own flows, a short one, and one that drains now and then, do not count as a
    /// crowd.
    #[test]
    fn other_queues() {
        for (own, queue, drains) in [
            (950_000, 90_000, false),
            (600_000, 24_000, false),
            // As much as 32 virtual routers keep that share a cloud.
            (200_000, 8_000, false),
            (200_000, 90_000, true),
        ] {
            let mut crowd = LossBasedCompetitor::default();
            for millis in 0..10_000 {
                let queue = if drains && millis % 900 == 0 {
                    0
                } else {
                    queue
                };
                assert!(!learn(&mut crowd, millis, own, queue));
            }
        }
    }
}
