//! Delivery rate of each round trip in bytes per second.

use super::window_of;
use crate::base::arith::{nanos, ns_since, rate};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// The maximum covers one to two spans of this many round trips in which the window limited the
/// sender.
const SPAN_ROUNDS: u32 = 8;
/// While the delivery rate grows by more than 1/`GROWTH` in `GROWTH_ROUNDS` round trips, no hop is
/// overloaded.
const GROWTH: u64 = 4;
const GROWTH_ROUNDS: usize = 4;
/// A round trip with fewer packets counts as one with few packets.
const FEW_PACKETS: u64 = 24;

#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    since: Instant,
    bytes: u64,
    packets: u64,
    /// True if the window limited the sender in the current round trip.
    limited: bool,
    last_packets: u64,
    /// Bytes per second in each of the previous round trips, starting with the latest.
    rates: [u64; GROWTH_ROUNDS],
    /// Maximum of these rates in the current and the previous span.
    most: [u64; 2],
    /// Maximum bytes per round trip in the same spans.
    most_bytes: [u64; 2],
    rounds: u32,
}

impl Arrivals {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            bytes: 0,
            packets: 0,
            limited: false,
            last_packets: 0,
            rates: [0; GROWTH_ROUNDS],
            most: [0; 2],
            most_bytes: [0; 2],
            rounds: 0,
        }
    }

    /// Returns true if a round trip is over.
    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) -> bool {
        let elapsed = ns_since(now, self.since);
        let over = elapsed >= nanos(acked.srtt);
        if over {
            self.turn(now, elapsed, acked.srtt);
        }
        self.bytes = self.bytes.saturating_add(acked.bytes);
        self.packets = self.packets.saturating_add(acked.packets);
        self.limited |= acked.window_limited;
        over
    }

    fn turn(&mut self, now: Instant, elapsed: u64, srtt: Duration) {
        let delivered = rate(self.bytes, Duration::from_nanos(elapsed.max(1)), 1, 1);
        self.since = now;
        self.bytes = 0;
        self.last_packets = core::mem::take(&mut self.packets);
        // If the application had little to send, this doesn't show that the path carries less.
        self.rounds += u32::from(core::mem::take(&mut self.limited));
        if self.rounds >= SPAN_ROUNDS {
            self.rounds = 0;
            self.most = [0, self.most[0]];
            self.most_bytes = [0, self.most_bytes[0]];
        }
        self.most[0] = self.most[0].max(delivered);
        self.most_bytes[0] = self.most_bytes[0].max(window_of(delivered, srtt));
        self.rates.rotate_right(1);
        self.rates[0] = delivered;
    }

    /// Returns bytes per second in the previous round trip, or 0 if there wasn't any.
    #[inline]
    pub(super) const fn delivered(&self) -> u64 {
        self.rates[0]
    }

    /// Returns the current bytes per second, including the current round trip after its first
    /// third.
    pub(super) fn now(&self, now: Instant, srtt: Duration) -> u64 {
        let elapsed = ns_since(now, self.since);
        if elapsed < nanos(srtt) / 3 {
            return self.delivered();
        }
        let running = rate(self.bytes, Duration::from_nanos(elapsed), 1, 1);
        self.delivered().max(running)
    }

    /// Returns the maximum bytes per round trip in the recent spans. If round trips have become
    /// longer because of a queue or another route, the maximum isn't scaled up, because the rate of
    /// a fast path doesn't prove anything about a slow path with a standing queue.
    pub(super) fn proven(&self, srtt: Duration) -> u64 {
        let bytes = self.most_bytes[0].max(self.most_bytes[1]);
        window_of(self.most[0].max(self.most[1]), srtt).min(bytes)
    }

    /// Discards the maximum, because the path has changed.
    pub(super) const fn forget_most(&mut self) {
        self.most = [0; 2];
        self.most_bytes = [0; 2];
    }

    pub(super) const fn is_growing(&self) -> bool {
        let [latest, .., oldest] = self.rates;
        latest > oldest.saturating_add(oldest / GROWTH)
    }

    pub(super) const fn are_few(&self) -> bool {
        self.delivered() > 0 && self.last_packets < FEW_PACKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{acked, at, ms};

    /// A queue extends round trips from 400 ms to 7 s. Earlier rates don't apply to these.
    #[test]
    fn what_arrived_in_shorter_round_trips_proves_no_more_for_longer_ones() {
        let mut arrivals = Arrivals::new(Instant::ZERO);
        for n in 1..=4000 {
            let mut ack = acked(n, 1000, ms(400));
            ack.srtt = ms(400);
            arrivals.on_ack(at(n), &ack);
        }
        assert!((390_000..=410_000).contains(&arrivals.proven(ms(400))));
        assert!((390_000..=410_000).contains(&arrivals.proven(ms(7000))));
        assert!((95_000..=105_000).contains(&arrivals.proven(ms(100))));
    }

    /// For a while, the application only has a hundredth of the rate to send.
    #[test]
    fn round_trips_that_the_application_bounds_disprove_nothing() {
        let mut arrivals = Arrivals::new(Instant::ZERO);
        let mut now = 0;
        let mut rounds = |count: u64, packets: u64, window_limited: bool| {
            for n in 0..count * packets {
                now += 100_000 / packets;
                let ack = Acked {
                    window_limited,
                    ..acked(n, 1000, ms(100))
                };
                arrivals.on_ack(Instant::from_micros(now), &ack);
            }
            arrivals.proven(ms(100))
        };
        let proven = rounds(10, 200, true);
        assert!((190_000..=210_000).contains(&proven), "{proven}");
        assert_eq!(rounds(40, 2, false), proven);
        assert!(rounds(40, 2, true) < 10_000);
    }

    #[test]
    fn rates_follow_round_trips_and_the_most_is_forgotten_after_two_spans() {
        let mut arrivals = Arrivals::new(Instant::ZERO);
        let mut largest = 0;
        let mut send = |arrivals: &mut Arrivals, round: u64, packets: u64| {
            for n in 0..packets {
                largest += 1;
                let now = Instant::from_micros(round * 100_000 + n * 100_000 / packets);
                arrivals.on_ack(now, &acked(largest, 1000, ms(100)));
            }
        };
        for round in 0..10 {
            send(&mut arrivals, round, 10 << round.min(5));
        }
        assert_eq!(arrivals.delivered(), 320 * 1000 * 10);
        assert!(!arrivals.is_growing() && !arrivals.are_few());
        assert_eq!(arrivals.proven(ms(100)), 320_000);
        for round in 10..30 {
            send(&mut arrivals, round, 10);
        }
        assert_eq!(arrivals.proven(ms(100)), 10_000);
        assert!(arrivals.are_few());
        for round in 30..34 {
            send(&mut arrivals, round, 20);
        }
        assert!(arrivals.is_growing());
    }
}
