//! The wire behind a transmitter, with the packets in flight.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use pathmark_cc::{Duration, Instant};

use crate::impair::{Code, Loss, Random};
use crate::queue::{Owner, release_before_last};
use crate::shaper::Retimed;
use crate::stats::DropCause;

/// Random extra delay.
#[derive(Clone, Debug)]
pub struct Jitter {
    /// Each packet gets an extra delay, uniform in 0…`max`.
    pub max: Duration,
    /// Allows packets to overtake each other; otherwise none arrives before its predecessor.
    pub reorder: bool,
    /// The generator.
    pub random: Random,
}

/// The properties of a wire.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// Propagation delay.
    pub delay: Duration,
    /// Random extra delay.
    pub jitter: Option<Jitter>,
    /// Packet losses.
    pub loss: Loss,
    /// Maximum number of packets in flight. Further ones are dropped, so that memory stays
    /// bounded at any rate.
    pub capacity: usize,
}

impl Default for WireConfig {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: None,
            loss: Loss::None,
            capacity: 1 << 20,
        }
    }
}

/// Packets in flight, with their arrival times.
#[derive(Debug)]
pub struct Wire<P> {
    config: WireConfig,
    /// Packets that cannot overtake, in order of arrival.
    ordered: VecDeque<(Instant, P)>,
    /// Packets that can overtake.
    shuffled: BinaryHeap<Flying<P>>,
    last: Instant,
    sequence: u64,
    /// The last packet sent, if it is in flight.
    tail: Option<Tail>,
}

/// The last packet sent.
#[derive(Clone, Copy, Debug)]
struct Tail {
    sent: Instant,
    /// Its time on the wire.
    flight: Duration,
    /// When its predecessor arrives, if it must not overtake.
    after: Option<Instant>,
}

impl<P> Wire<P> {
    /// Creates an empty wire.
    pub fn new(config: WireConfig) -> Self {
        Self {
            config,
            ordered: VecDeque::new(),
            shuffled: BinaryHeap::new(),
            last: Instant::ZERO,
            sequence: 0,
            tail: None,
        }
    }

    /// Returns true if packets pass directly, because there is no delay, jitter, or loss, and
    /// none is in flight.
    pub fn is_transparent(&self) -> bool {
        self.config.delay.is_zero()
            && self.config.jitter.is_none()
            && !self.config.loss.is_some()
            && self.in_flight() == 0
    }

    /// Number of packets in flight.
    pub fn in_flight(&self) -> usize {
        self.ordered.len() + self.shuffled.len()
    }

    /// Returns when a packet of `bytes` arrives whose last bit leaves at `sent`, or `None` if it
    /// is lost. This is for callers that store packets in flight themselves; otherwise use
    /// [`send`](Self::send).
    pub fn fate(&mut self, sent: Instant, bytes: u32) -> Option<Instant> {
        self.tail = None;
        if self.config.loss.strikes(sent, bytes) {
            return None;
        }
        let mut flight = self.config.delay;
        let mut reorder = false;
        if let Some(jitter) = &mut self.config.jitter {
            let max = u64::try_from(jitter.max.as_nanos()).unwrap_or(u64::MAX);
            flight += Duration::from_nanos(jitter.random.below(max.saturating_add(1)));
            reorder = jitter.reorder;
        }
        let mut at = sent + flight;
        self.tail = Some(Tail {
            sent,
            flight,
            after: (!reorder).then_some(self.last),
        });
        if !reorder {
            // Even if the delay decreases, later packets must not overtake.
            at = at.max(self.last);
            self.last = at;
        }
        Some(at)
    }

    /// Sends a packet of `bytes` (including the link's overhead, but before coding) whose last
    /// bit leaves at `sent`. A lost packet is returned to its owner.
    pub fn send(
        &mut self,
        sent: Instant,
        bytes: u32,
        packet: P,
        owner: &mut dyn Owner<P>,
    ) -> Option<DropCause> {
        let Some(at) = self.fate(sent, bytes) else {
            owner.dropped(packet, DropCause::RandomLoss);
            return Some(DropCause::RandomLoss);
        };
        if self.in_flight() >= self.config.capacity {
            self.tail = None;
            owner.dropped(packet, DropCause::WireFull);
            return Some(DropCause::WireFull);
        }
        if self.config.jitter.as_ref().is_some_and(|j| j.reorder) {
            self.sequence += 1;
            self.shuffled.push(Flying {
                at,
                sequence: self.sequence,
                packet,
            });
        } else {
            self.ordered.push_back((at, packet));
        }
        None
    }

    /// Moves the arrival of a packet whose transmission ends at another time than was passed to
    /// [`send`](Self::send).
    #[cold]
    pub(crate) fn retime(&mut self, retimed: Retimed) {
        let Some(tail) = self.tail.as_mut().filter(|tail| tail.sent == retimed.was) else {
            return;
        };
        tail.sent = retimed.is;
        let at = retimed.is + tail.flight;
        let Some(after) = tail.after else {
            // With reordering, the last packet has the highest number.
            let mut flying = std::mem::take(&mut self.shuffled).into_vec();
            let last = flying.iter_mut().max_by_key(|flying| flying.sequence);
            if let Some(last) = last.filter(|last| last.sequence == self.sequence) {
                last.at = at;
            }
            self.shuffled = flying.into();
            return;
        };
        if let Some((arrives, _)) = self.ordered.back_mut() {
            *arrives = at.max(after);
            self.last = *arrives;
        }
    }

    /// Returns the next packet that has arrived by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        match self.in_flight() {
            0 => None,
            _ => self.land(now),
        }
    }

    fn land(&mut self, now: Instant) -> Option<P> {
        // Both contain packets only for a while after reordering was switched on or off.
        if self.shuffled.peek().is_some_and(|flying| flying.at <= now) {
            return self.shuffled.pop().map(|flying| flying.packet);
        }
        if self.ordered.front().is_some_and(|(at, _)| *at <= now) {
            release_before_last(&mut self.ordered);
            return self.ordered.pop_front().map(|(_, packet)| packet);
        }
        None
    }

    /// When the next packet arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let at = self.due();
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// The [`deadline`](Self::deadline), or the far future.
    pub(crate) fn due(&self) -> Instant {
        let never = Instant::FAR_FUTURE;
        let ordered = self.ordered.front().map_or(never, |(at, _)| *at);
        let shuffled = self.shuffled.peek().map_or(never, |flying| flying.at);
        ordered.min(shuffled)
    }

    /// The code that protects packets on it.
    pub(crate) fn code(&self) -> Option<Code> {
        self.config.loss.code()
    }

    /// Replaces the configuration. Packets in flight still arrive when they would have.
    pub(crate) fn configure(&mut self, config: WireConfig) {
        self.config = config;
    }

    pub(crate) fn delay(&self) -> Duration {
        self.config.delay
    }

    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.config.delay = delay;
    }

    pub(crate) fn set_loss(&mut self, loss: Loss) {
        self.config.loss = loss;
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = P> + '_ {
        let ordered = self.ordered.drain(..).map(|(_, packet)| packet);
        ordered.chain(self.shuffled.drain().map(|flying| flying.packet))
    }
}

#[derive(Debug)]
struct Flying<P> {
    at: Instant,
    sequence: u64,
    packet: P,
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Reversed, so that the heap's greatest element is the earliest.
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Flying<P> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Log;
    use proptest::prelude::*;

    fn wire(millis: u64, capacity: usize) -> Wire<u32> {
        Wire::new(WireConfig {
            delay: Duration::from_millis(millis),
            capacity,
            ..WireConfig::default()
        })
    }

    #[test]
    fn delays_by_what_it_was_told() {
        let mut log = Log::default();
        let mut wire = wire(199, 10);
        wire.send(Instant::from_millis(1), 1500, 7u32, &mut log);
        assert_eq!(wire.deadline(), Some(Instant::from_millis(200)));
        assert_eq!(wire.poll(Instant::from_micros(199_999)), None);
        assert_eq!(wire.poll(Instant::from_millis(200)), Some(7));
    }

    #[test]
    fn a_shrinking_delay_does_not_reorder() {
        let mut log = Log::default();
        let mut wire = wire(100, 10);
        wire.send(Instant::ZERO, 1500, 1u32, &mut log);
        wire.set_delay(Duration::from_millis(10));
        wire.send(Instant::from_millis(1), 1500, 2, &mut log);
        assert_eq!(wire.poll(Instant::from_millis(50)), None);
        assert_eq!(wire.poll(Instant::from_millis(100)), Some(1));
        assert_eq!(wire.poll(Instant::from_millis(100)), Some(2));
    }

    #[test]
    fn holds_no_more_than_its_capacity() {
        let mut log = Log::default();
        let mut wire = wire(100, 2);
        for id in 0..3u32 {
            wire.send(Instant::ZERO, 1500, id, &mut log);
        }
        assert_eq!(log.drops, [(2, DropCause::WireFull)]);
    }

    proptest! {
        /// Every packet arrives once, between delay and delay + jitter after leaving, and in
        /// order unless reordering is enabled.
        #[test]
        fn jitter_keeps_its_bounds(
            reorder: bool,
            seed: u64,
            gaps in prop::collection::vec(0u64..3_000, 1..200),
        ) {
            let (mut log, mut now, mut sent) = (Log::default(), 0, Vec::new());
            let mut wire = Wire::new(WireConfig {
                delay: Duration::from_micros(500),
                jitter: Some(Jitter {
                    max: Duration::from_micros(2_000),
                    reorder,
                    random: Random::new(seed, "jitter"),
                }),
                ..WireConfig::default()
            });
            for (id, gap) in (0u32..).zip(gaps) {
                now += gap;
                sent.push(now);
                wire.send(Instant::from_micros(now), 1500, id, &mut log);
            }
            let mut order = Vec::new();
            while let Some(at) = wire.deadline() {
                let id = wire.poll(at).unwrap();
                let flight = at.as_nanos() / 1000 - sent[id as usize];
                prop_assert!((500..=2_500).contains(&flight) , "{flight}");
                order.push(id);
            }
            prop_assert_eq!(order.len(), sent.len());
            if !reorder {
                prop_assert!(order.is_sorted());
            }
        }
    }
}
