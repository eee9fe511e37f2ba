//! How fast packets that were sent at once arrive: no faster than the narrowest hop sends them.
//!
//! A sender that begins with ten packets at once learns from how they spread on the way what the
//! path can carry, before it has filled it. Other traffic, jitter and receivers that take packets
//! in batches disturb that: where it narrows a bound, growth of a few times per round trip is left.
//! Packets that are paced arrive as they were sent, which shows what a path carries at least, and
//! not what it carries at most.

use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Packets of a train, without those of its first acknowledgement.
const LEAST_PACKETS: u64 = 5;
/// With this many arrivals and no loss, packets still in flight no longer matter. Losses after more
/// arrivals are not those of the first packets.
const FIRST: u64 = 20;
/// They were sent within this part of a round trip.
const TOGETHER: u64 = 16;
/// Less spread comes from the receiver's own batches, or from a report that cannot be checked.
const LEAST_SPREAD: Duration = Duration::from_micros(40);
/// Where a queue is too short for the first packets, `OVERFLOW.0` of them and one in `OVERFLOW.1`
/// are lost …
const OVERFLOW: (u32, u32) = (3, 4);
/// … beyond the expected loss by this many standard deviations, where some loss is expected.
const SIGMAS: u64 = 2;
/// A hop has spread packets that take this many times as long to arrive as to be sent.
const SPREAD: u64 = 4;
/// The most of one to two spans of this many round trips counts.
const SPAN_ROUNDS: u8 = 8;

/// Trains of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trains {
    /// When the first and the last packet of the running train were sent.
    began: Option<Instant>,
    ended: Instant,
    /// Arrival of the first and of the last one, on a clock of its own, in ns.
    first: u64,
    last: u64,
    bytes: u64,
    packets: u64,
    /// Bytes and packets of the train that arrived after the last one whose arrival is known.
    since_last: (u64, u64),
    /// The receiver's clock has reported an arrival.
    clocked: bool,
    /// Bytes per second, the most of the running and of the last span.
    most: [u64; 2],
    /// The same of trains that a hop spread.
    spread: [u64; 2],
    rounds: u8,
    /// Of the first packets: those that have arrived, and those that were lost.
    arrived: u32,
    lost: u32,
    /// Many of them were lost.
    overflowed: bool,
    /// A train came whole, or as many packets as one has and none was lost or under way.
    whole: bool,
    /// `whole` is false, and some of many first packets are in flight or were lost: they may show a
    /// hop slower than the routers' feedback.
    unsure: bool,
}

impl Trains {
    /// An acknowledgement came. True if a train ended with a rate, or if
    /// [`is_unsure`](Self::is_unsure) changed.
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
            // Packets under way, of the size of those that arrived.
            let left = acked.in_flight_before.saturating_sub(acked.bytes);
            let many = acked.bytes.saturating_mul(LEAST_PACKETS);
            let many = acked.in_flight_before.saturating_mul(acked.packets) > many;
            // One acknowledgement of many packets gives no rate, and the others may be lost.
            let enough = if left == 0 { LEAST_PACKETS } else { FIRST };
            let arrived = u64::from(self.arrived);
            self.whole =
                measured || self.packets >= LEAST_PACKETS || (arrived > enough && self.lost == 0);
            self.unsure = !self.whole && (self.lost > 0 || (many && left > 0));
        }
        measured || self.unsure != before
    }

    /// `packets` packets were lost, at an expected loss of `expected`, in 10^-6. True if
    /// [`overflowed`](Self::overflowed) changed.
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

    /// Many of the first packets were lost, at an expected loss of `expected`.
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

    /// Routers declare a loss of `expected`. True if the loss of the first packets is at most that,
    /// and had counted as an overflow.
    pub(super) fn on_declared(&mut self, expected: u64) -> bool {
        let cleared = self.overflowed && !self.is_much(expected);
        self.overflowed &= !cleared;
        cleared
    }

    /// True if many of the first packets were lost, and no train since has measured what the path
    /// carries: the queue of some hop is shorter than what was sent at once.
    pub(super) const fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// True while no train has measured what the path carries and one may soon.
    pub(super) const fn is_unsure(&self) -> bool {
        self.unsure
    }

    fn add(&mut self, acked: &Acked, rtt: Duration) -> bool {
        if acked.forward_delay.is_some() != self.clocked {
            if self.clocked {
                // Round trips include the way back and the receiver's delay. Mixed with arrival
                // times of the receiver's clock they would yield any rate.
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

    /// The packet belongs to the running train.
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

    /// A round trip is over.
    pub(super) fn turn(&mut self) {
        self.rounds += 1;
        if self.rounds >= SPAN_ROUNDS {
            self.rounds = 0;
            self.most = [0, self.most[0]];
            self.spread = [0, self.spread[0]];
        }
    }

    /// What the path carries by the trains, in bytes per second. 0: not measured.
    pub(super) fn rate(&self) -> u64 {
        self.most[0].max(self.most[1])
    }

    /// What the narrowest hop carries, in bytes per second, less what others sent through it
    /// meanwhile. `None`: no train was spread by a hop.
    pub(super) fn narrowest(&self) -> Option<u64> {
        Some(self.spread[0].max(self.spread[1])).filter(|&rate| rate > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{acked, ms};

    /// Ten packets of 1000 bytes, sent at once, of which each queues `gap_us` longer than the one
    /// before.
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

    /// Paced packets show no narrow hop, however evenly they arrive.
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

    /// The receiver's clock reports every third packet. Round trips of the others include its
    /// delay: none of them begins or ends a train, and all of them count.
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

    /// A grant waits for the first packets, which were sent at once: while most of them are in
    /// flight, or after some were lost, until enough have arrived to measure what the path carries.
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
        for n in 1..5 {
            assert!(!trains.on_ack(&first(n, 9 - n)));
        }
        assert!(
            trains.on_ack(&first(5, 4)) && !trains.is_unsure(),
            "they have come"
        );

        // A queue of three packets: the others are lost, and so are most of the next ones.
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

        // One acknowledgement covers most of them: the others may be lost.
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

        // Few packets at first: there is nothing to wait for.
        let mut trains = Trains::default();
        trains.on_ack(&first(0, 2));
        assert!(!trains.is_unsure());
    }

    /// Losses that routers declare, before or after the declaration arrives, are not an overflow.
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
        // Beyond chance they are.
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
