//! Measures how fast packets sent at once arrive, which cannot be faster than the narrowest hop
//! sends them.
//!
//! A sender that begins with ten packets at once learns the path's capacity from their spread, even
//! before filling the path. Other traffic, jitter, and receivers that process packets in batches
//! disturb this measurement. If this makes a bound too low, the window can still grow by a factor
//! per round trip. Paced packets arrive as they were sent, so they only show a lower bound of the
//! path's capacity.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Packets in a train, excluding those of its first acknowledgement.
const LEAST_PACKETS: u64 = 5;
/// After this many arrivals without loss, packets still in flight no longer matter. After more
/// arrivals, losses don't belong to the first packets.
const FIRST: u64 = 20;
/// Packets of a train were sent within this part of a round trip.
const TOGETHER: u64 = 16;
/// Less spread could be caused by the receiver's own batches, or by a report that can't be
/// verified.
const LEAST_SPREAD: Duration = Duration::from_micros(40);
/// If a queue is too short for the first packets, at least `OVERFLOW.0` and one in `OVERFLOW.1` are
/// lost.
const OVERFLOW: (u32, u32) = (3, 4);
/// If some loss is expected, losses must exceed it by this many standard deviations.
const SIGMAS: u64 = 2;
/// If packets take this many times as long to arrive as to be sent, a hop has spread them.
const SPREAD: u64 = 4;
/// The maximum covers one to two spans of this many round trips.
const SPAN_ROUNDS: u8 = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trains {
    /// Times at which the first and the last packet of the current train were sent.
    began: Option<Instant>,
    ended: Instant,
    /// Arrival times in ns of these packets, relative to a clock of their own.
    first: u64,
    last: u64,
    bytes: u64,
    packets: u64,
    /// Bytes and packets of the train after the last packet whose arrival time is known.
    since_last: (u64, u64),
    /// True if the receiver's clock has reported an arrival.
    clocked: bool,
    /// Maximum bytes per second in the current and the previous span.
    most: [u64; 2],
    /// The same for trains that were spread by a hop.
    spread: [u64; 2],
    rounds: u8,
    /// First packets that have arrived, and those that were lost.
    arrived: u32,
    lost: u32,
    overflowed: bool,
    /// True if a train was complete, or if enough packets have arrived without loss.
    whole: bool,
    /// True if `whole` is false, and some of the first packets were lost, or many are in flight:
    /// these may still show a hop slower than the routers' feedback.
    unsure: bool,
}

impl Trains {
    /// Handles an acknowledgement. Returns true if a train has measured a rate, or if
    /// [`is_unsure`](Self::is_unsure) has changed.
    #[inline]
    pub(super) fn on_ack(&mut self, acked: &Acked) -> bool {
        let Some(rtt) = acked.rtt.filter(|_| !without(Mechanism::Train)) else {
            return false;
        };
        let measured = self.add(acked, rtt);
        let before = self.unsure;
        let packets = u32::try_from(acked.packets).unwrap_or(u32::MAX);
        self.arrived = self.arrived.saturating_add(packets);
        if !self.whole {
            // Bytes in flight. There are many if more than `LEAST_PACKETS` of the acknowledged size
            // were in flight before.
            let left = acked.in_flight_before.saturating_sub(acked.bytes);
            let many = acked.bytes.saturating_mul(LEAST_PACKETS);
            let many = acked.in_flight_before.saturating_mul(acked.packets) > many;
            // A single acknowledgement of many packets doesn't give a rate, and the rest may be
            // lost.
            let enough = if left == 0 { LEAST_PACKETS } else { FIRST };
            let arrived = u64::from(self.arrived);
            self.whole =
                measured || self.packets >= LEAST_PACKETS || (arrived > enough && self.lost == 0);
            self.unsure = !self.whole && (self.lost > 0 || (many && left > 0));
        }
        measured || self.unsure != before
    }

    /// Handles the loss of `packets` packets while a loss of `expected`, in 10^-6, is expected.
    /// Returns true if [`overflowed`](Self::overflowed) has changed.
    #[inline]
    pub(super) fn on_loss(&mut self, packets: u64, expected: u64) -> bool {
        let known = self.whole && u64::from(self.arrived) > FIRST;
        if known || without(Mechanism::Train) {
            return false;
        }
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.lost = self.lost.saturating_add(packets);
        self.unsure |= !self.whole;
        let much = self.is_much(expected);
        let changed = much && !self.overflowed;
        self.overflowed |= much;
        changed
    }

    /// Returns true if many of the first packets were lost, considering the expected loss.
    fn is_much(&self, expected: u64) -> bool {
        let sent = u64::from(self.arrived) + u64::from(self.lost);
        let lost = u64::from(self.lost);
        let by_chance = match expected {
            0 => 0,
            _ => mul_div(sent, expected, 1_000_000) + SIGMAS * lost.isqrt(),
        };
        let more = lost.saturating_sub(by_chance);
        self.lost >= OVERFLOW.0 && more >= (sent / u64::from(OVERFLOW.1)).max(1)
    }

    /// Handles a change of the expected loss. Returns true if the loss of the first packets had
    /// counted as an overflow, but is covered by `expected`.
    pub(super) fn on_declared(&mut self, expected: u64) -> bool {
        let cleared = self.overflowed && !self.is_much(expected);
        self.overflowed &= !cleared;
        cleared
    }

    /// Returns true if many of the first packets were lost, because some hop's queue was too short
    /// for all packets sent at once, and no train has since been spread by a hop.
    pub(super) const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Returns true while no train has measured the path's capacity, but one soon may.
    pub(super) const fn is_unsure(&self) -> bool {
        self.unsure
    }

    fn add(&mut self, acked: &Acked, rtt: Duration) -> bool {
        if acked.forward_delay.is_some() != self.clocked {
            if self.clocked {
                // RTTs include the way back and the receiver's delay, so mixing them with the
                // receiver's clock would give arbitrary rates.
                if self.holds(acked) {
                    self.since_last.0 = self.since_last.0.saturating_add(acked.bytes);
                    self.since_last.1 = self.since_last.1.saturating_add(acked.packets);
                }
                return false;
            }
            (self.clocked, self.began) = (true, None);
        }
        let queued = acked
            .forward_delay
            .unwrap_or_else(|| rtt.saturating_sub(acked.min_rtt));
        let arrived = ns_since(acked.sent_at, Instant::ZERO).saturating_add(nanos(queued));
        let (bytes, packets) = core::mem::take(&mut self.since_last);
        if self.holds(acked) {
            self.ended = self.ended.max(acked.sent_at);
            self.last = self.last.max(arrived);
            self.bytes = self.bytes.saturating_add(acked.bytes).saturating_add(bytes);
            self.packets = self
                .packets
                .saturating_add(acked.packets)
                .saturating_add(packets);
            return self.packets >= LEAST_PACKETS && self.tell();
        }
        self.began = Some(acked.sent_at);
        self.ended = acked.sent_at;
        (self.first, self.last) = (arrived, arrived);
        (self.bytes, self.packets) = (0, 0);
        false
    }

    /// Returns true if the packet belongs to the current train.
    fn holds(&self, acked: &Acked) -> bool {
        self.began.is_some_and(|began| {
            acked.sent_at >= began && ns_since(acked.sent_at, began) <= nanos(acked.srtt) / TOGETHER
        })
    }

    fn tell(&mut self) -> bool {
        let spread = self.last.saturating_sub(self.first);
        if spread < nanos(LEAST_SPREAD) {
            return false;
        }
        let rate = crate::base::arith::rate(self.bytes, Duration::from_nanos(spread), 1, 1);
        let sending = self
            .began
            .take()
            .map_or(0, |began| ns_since(self.ended, began));
        self.most[0] = self.most[0].max(rate);
        if sending.saturating_mul(SPREAD) <= spread {
            self.spread[0] = self.spread[0].max(rate);
            self.overflowed = false;
        }
        true
    }

    pub(super) fn turn(&mut self) {
        self.rounds += 1;
        if self.rounds >= SPAN_ROUNDS {
            self.rounds = 0;
            self.most = [0, self.most[0]];
            self.spread = [0, self.spread[0]];
        }
    }

    /// Returns the rate in bytes per second at which trains have arrived, or 0 if it wasn't
    /// measured.
    pub(super) fn rate(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// Returns the capacity of the narrowest hop in bytes per second, minus other traffic at the
    /// time. `None` if no hop has spread a train.
    pub(super) fn narrowest(&self) -> Option<u64> {
        Some(self.spread[0].max(self.spread[1])).filter(|&rate| rate > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{acked, ms};

    /// Acknowledges ten packets of 1000 bytes that were sent at once, each queued for `gap_us`
    /// longer than the one before.
    fn train(trains: &mut Trains, sent: Instant, gap_us: u64) {
        for n in 0..10 {
            let queued = Duration::from_micros(n * gap_us);
            let mut ack = acked(n, 1000, ms(100) + queued);
            (ack.min_rtt, ack.srtt, ack.sent_at) = (ms(100), ms(100), sent);
            ack.forward_delay = Some(queued);
            trains.on_ack(&ack);
        }
    }

    #[test]
    fn packets_sent_at_once_spread_to_the_rate_of_the_narrowest_hop() {
        let mut trains = Trains::default();
        assert_eq!(trains.rate(), 0);
        train(&mut trains, Instant::from_micros(5000), 2000);
        assert_eq!(trains.rate(), 500_000);
        train(&mut trains, Instant::from_micros(200_000), 1000);
        assert_eq!(trains.rate(), 1_000_000);
        for n in 1..=16 {
            train(&mut trains, Instant::from_micros(200_000 * n), 4000);
            trains.turn();
        }
        train(&mut trains, Instant::from_micros(4_000_000), 4000);
        assert_eq!(trains.rate(), 250_000, "the path has changed");
    }

    /// Paced packets don't show a narrow hop, however evenly they arrive.
    #[test]
    fn only_a_train_that_a_hop_spread_tells_what_the_hop_carries() {
        let mut trains = Trains::default();
        let paced = |n: u64| {
            let mut ack = acked(n, 1000, ms(100));
            (ack.min_rtt, ack.srtt) = (ms(100), ms(100));
            (ack.sent_at, ack.forward_delay) = (Instant::from_micros(500 * n), Some(ms(0)));
            ack
        };
        for n in 1..50 {
            trains.on_ack(&paced(n));
        }
        assert_eq!((trains.rate(), trains.narrowest()), (2_000_000, None));
        train(&mut trains, Instant::from_micros(900_000), 1000);
        assert_eq!(trains.narrowest(), Some(1_000_000));
        for _ in 0..16 {
            trains.turn();
        }
        assert_eq!(trains.narrowest(), None, "long ago");
    }

    /// The receiver's clock only reports every third packet. RTTs of the others include the
    /// receiver's delay, so they must not begin or end a train, but they all count.
    #[test]
    fn arrivals_by_the_clock_and_by_round_trips_are_not_mixed() {
        for held in [0, 9] {
            let mut trains = Trains::default();
            for n in 0..40 {
                let queued = Duration::from_millis(n);
                let reported = n % 3 == 1;
                let delay = if reported { 0 } else { held };
                let mut ack = acked(n, 1000, ms(100 + delay) + queued);
                (ack.min_rtt, ack.srtt) = (ms(100), ms(100));
                ack.sent_at = Instant::from_micros(5000);
                ack.forward_delay = reported.then_some(queued);
                trains.on_ack(&ack);
                let most = trains.rate();
                assert!(most == 0 || most == 1_000_000, "{n}, {held} ms: {most}");
            }
            assert_eq!(trains.narrowest(), Some(1_000_000));
        }
    }

    /// A grant waits for the first packets, which were sent at once: while most are in flight, or
    /// after some were lost, until enough have arrived to measure the path's capacity.
    #[test]
    fn the_first_packets_are_waited_for() {
        let first = |n: u64, left: u64| {
            let mut ack = acked(n, 1000, ms(100));
            ack.in_flight_before = 1000 * (left + 1);
            ack
        };
        let mut trains = Trains::default();
        assert!(!trains.is_unsure(), "nothing is under way");
        assert!(trains.on_ack(&first(0, 9)) && trains.is_unsure());
        for n in 1..6 {
            // With the last one, they have come.
            assert_eq!(trains.on_ack(&first(n, 9 - n)), n == 5, "{n}");
        }
        assert!(!trains.is_unsure());

        // A queue only holds three packets. The others are lost, as are most of the following ones.
        let mut trains = Trains::default();
        for n in 0..3 {
            trains.on_ack(&first(n, 9 - n));
        }
        assert!(trains.is_unsure());
        trains.on_loss(1, 0);
        for n in 10..13 {
            let mut ack = first(n, 3);
            ack.sent_at = Instant::from_micros(100_000);
            trains.on_ack(&ack);
            assert!(trains.is_unsure(), "{n}");
        }
        train(&mut trains, Instant::from_micros(200_000), 1000);
        assert!(!trains.is_unsure());
        assert_eq!(trains.narrowest(), Some(1_000_000));

        // A single acknowledgement covers most packets, and the others may be lost.
        let of_seven = |n: u64, left: u64| {
            let mut ack = first(n, left);
            (ack.bytes, ack.packets) = (7000, 7);
            ack.in_flight_before = 7000 + 1000 * left;
            ack
        };
        let mut trains = Trains::default();
        assert!(trains.on_ack(&of_seven(6, 3)) && trains.is_unsure());
        let mut lost = trains;
        assert!(trains.on_ack(&first(9, 0)) && !trains.is_unsure());
        lost.on_loss(1, 0);
        for n in [16, 23] {
            let mut ack = of_seven(n, 3);
            ack.sent_at = Instant::from_micros(10_000 * n);
            assert!(!lost.on_ack(&ack) && lost.is_unsure(), "{n}");
        }

        // Only few packets are sent at first, so there's nothing to wait for.
        let mut trains = Trains::default();
        trains.on_ack(&first(0, 2));
        assert!(!trains.is_unsure());
    }

    /// Losses that routers declare aren't an overflow, even if the declaration arrives later.
    #[test]
    fn losses_as_declared_overflow_no_queue() {
        let mut first = Trains::default();
        for n in 0..7 {
            first.on_ack(&acked(n, 1000, ms(100)));
        }
        let mut known = first;
        assert!((0..3).any(|_| first.on_loss(1, 0)) && first.overflowed());
        assert!(first.on_declared(300_000) && !first.overflowed());
        assert!(!(0..6).any(|_| known.on_loss(1, 300_000)), "six of 13");
        // Beyond chance, they are.
        assert!((0..20).any(|_| known.on_loss(1, 300_000)) && known.overflowed());
        assert!(!known.on_declared(300_000));
    }

    #[test]
    fn packets_that_arrive_together_or_were_sent_apart_tell_nothing() {
        let mut trains = Trains::default();
        train(&mut trains, Instant::from_micros(5000), 0);
        for n in 0..50 {
            let mut ack = acked(n, 1000, ms(100));
            ack.sent_at = Instant::from_micros(10_000 * n);
            trains.on_ack(&ack);
        }
        assert_eq!(trains.rate(), 0);
    }
}
