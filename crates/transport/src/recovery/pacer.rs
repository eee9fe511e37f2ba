//! Spreads a window over its round trip (RFC 9002 §7.7), and tells the controller whether the
//! window limited the sender (§7.8).

use crate::{Duration, Instant};

/// Byte-nanoseconds per byte: credit is stored in bytes/s × ns, so that no division loses a
/// remainder.
const UNIT: u64 = 1_000_000_000;
/// Packets that may always be sent together: an initial window (RFC 9002 §7.2, §7.7).
const BURST_PACKETS: u64 = 10;
/// At high rates, a batch holds the bytes of this much time, unless the law wants shorter ones.
const QUANTUM: Duration = Duration::from_millis(1);
/// A timer may be this late without loss of rate.
const LATE_TIMER: Duration = Duration::from_millis(1);
/// Largest batch that one system call with segmentation offload can send.
const BATCH_BYTES: u64 = 64 * 1024 - 1500;
/// Upper bound of the credit at any rate (16 MB), far below an overflow of the
/// byte-nanoseconds.
const MAX_BURST: u64 = 1 << 24;
/// Rate from window and RTT: N = 1.25 (RFC 9002 §7.7).
const GAIN: (u64, u64) = (5, 4);

/// A token bucket whose rate follows the controller.
///
/// The bucket holds ten packets, or the bytes of two milliseconds if that is more: one batch,
/// plus an allowance for a late timer. At up to about 60 Mbit/s, a router's buffer therefore
/// receives at most ten packets at once. With shorter batches, it holds two packets or one batch,
/// and more only while the time of [`next`](Self::next) has passed.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Bytes per second. `None`: no rate can be derived yet, so only the window limits the
    /// first flight.
    rate: Option<u64>,
    mtu: u64,
    /// Bytes × 1e9 that may be sent, as of `updated`.
    credit: u64,
    capacity: u64,
    updated: Instant,
    /// The time of a batch.
    quantum: Duration,
    /// When the sender wanted to be called, since it last sent.
    due: Option<Instant>,
    /// The arguments from which `rate` was computed.
    basis: (u64, Option<Duration>, Option<u64>),
}

impl Pacer {
    /// Creates a full bucket without a rate.
    pub const fn new(now: Instant, mtu: u16) -> Self {
        let capacity = BURST_PACKETS * mtu as u64 * UNIT;
        Self {
            rate: None,
            mtu: mtu as u64,
            credit: capacity,
            capacity,
            updated: now,
            quantum: QUANTUM,
            due: None,
            basis: (0, None, None),
        }
    }

    /// Sets the rate to the controller's `pacing_rate` in bytes per second, or else to 1.25 ×
    /// `window` per `srtt`. This is cheap if nothing has changed.
    pub fn set(
        &mut self,
        now: Instant,
        window: u64,
        srtt: Option<Duration>,
        pacing_rate: Option<u64>,
    ) {
        let basis = (window, srtt, pacing_rate);
        if basis == self.basis {
            return;
        }
        self.refill(now);
        self.basis = basis;
        self.rate = pacing_rate.map(|rate| rate.max(1)).or_else(|| {
            let rtt = srtt?.as_nanos().max(1);
            let scaled = u128::from(window) * u128::from(GAIN.0) * u128::from(UNIT);
            let rate = scaled / (rtt * u128::from(GAIN.1));
            Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
        });
        self.resize();
    }

    /// Sets the size of the largest datagram.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) {
        self.refill(now);
        self.mtu = u64::from(mtu);
        self.resize();
    }

    /// Sets the time that a batch takes at most, unless it is a single packet. It can't exceed the
    /// default of 1 ms.
    pub fn set_quantum(&mut self, quantum: Duration) {
        let before = std::mem::replace(&mut self.quantum, quantum.min(QUANTUM));
        if before != self.quantum {
            self.resize();
        }
    }

    fn resize(&mut self) {
        let burst = if self.quantum < QUANTUM {
            (2 * self.mtu).max(self.per_quantum())
        } else {
            (BURST_PACKETS * self.mtu).max(self.per_quantum().saturating_mul(2))
        };
        self.capacity = burst.min(MAX_BURST) * UNIT;
        self.credit = self.credit.min(self.capacity);
    }

    fn per_quantum(&self) -> u64 {
        let micros = u64::try_from(self.quantum.as_micros()).unwrap_or(0);
        self.rate.unwrap_or(0) / 1000 * micros / 1000
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.as_nanos().saturating_sub(self.updated.as_nanos());
        if elapsed == 0 {
            return;
        }
        self.updated = now;
        let rate = self.rate.unwrap_or(u64::MAX);
        let earned = elapsed.saturating_mul(rate);
        let late = self.due.map_or(0, |due| {
            let late = now.saturating_since(due).min(LATE_TIMER);
            rate.saturating_mul(u64::from(late.subsec_nanos()))
        });
        let capacity = self.capacity.saturating_add(late);
        self.credit = self.credit.saturating_add(earned).min(capacity);
    }

    /// Returns how many bytes are worth waiting for, so that they can be sent together: a
    /// packet at low rates, a millisecond's worth at high rates, and at most one system call's.
    pub fn batch(&self) -> u64 {
        match self.rate {
            None => BURST_PACKETS * self.mtu,
            Some(_) => self
                .per_quantum()
                .clamp(self.mtu, BATCH_BYTES.max(self.mtu)),
        }
    }

    /// Returns the bytes that may be sent at `now`.
    pub fn available(&mut self, now: Instant) -> u64 {
        if self.rate.is_none() {
            return u64::MAX;
        }
        self.refill(now);
        self.credit / UNIT
    }

    /// Returns when `bytes` may be sent together, or `None` if they may be sent at `now`.
    /// Amounts above the capacity count as a full bucket.
    pub fn next(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let rate = self.rate?;
        self.refill(now);
        let wanted = bytes.saturating_mul(UNIT).min(self.capacity);
        let missing = wanted
            .checked_sub(self.credit)
            .filter(|&missing| missing > 0)?;
        let at = now + Duration::from_nanos(missing.div_ceil(rate));
        self.due = (self.quantum < QUANTUM).then_some(at);
        Some(at)
    }

    /// Records that `bytes` were sent. If this exceeds the credit, as it can for probes, the
    /// bucket becomes empty without going into debt.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        self.due = None;
        self.credit = self.credit.saturating_sub(bytes.saturating_mul(UNIT));
    }

    /// Returns the current rate in bytes per second.
    pub const fn rate(&self) -> Option<u64> {
        self.rate
    }
}

/// The limits that applied since the sender was last able to send.
///
/// ACKs often arrive in batches that are read before anything is sent. Each ACK of a batch then
/// concerns the same use of the window, so the answer remains valid until the sender has had
/// its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowUse {
    limited: bool,
    /// An ACK has read the report, so the next record starts a new period.
    reported: bool,
}

impl WindowUse {
    /// Records that the window or its pacer limits the sender.
    pub(super) const fn limited(&mut self) {
        self.limited = true;
        self.reported = false;
    }

    pub(super) const fn otherwise(&mut self) {
        if self.reported {
            *self = Self {
                limited: false,
                reported: false,
            };
        }
    }

    /// Returns, for an ACK, whether the window limited the sender since it last had its turn.
    pub(super) const fn report(&mut self) -> bool {
        self.reported = true;
        self.limited
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MTU: u16 = 1400;

    #[test]
    fn a_first_flight_is_not_held_back() {
        let mut pacer = Pacer::new(Instant::ZERO, MTU);
        assert_eq!(pacer.next(Instant::ZERO, 1 << 20), None);
        // 100 ms, ten packets: 1.25 × 140 kB/s.
        let at = Instant::from_millis;
        pacer.set(at(0), 14_000, Some(Duration::from_millis(100)), None);
        assert_eq!((pacer.rate(), pacer.batch()), (Some(175_000), 1400));
        assert_eq!(pacer.available(at(0)), 14_000);
        pacer.on_sent(at(0), 14_000);
        assert_eq!(pacer.next(at(0), 1400), Some(at(8)));
        assert_eq!(pacer.next(at(8), 1400), None);
    }

    /// Credit earned before a change was earned at the previous rate, and it never exceeds the
    /// capacity.
    #[test]
    fn credit_is_earned_at_the_rate_of_its_time_and_bounded() {
        let mut pacer = Pacer::new(Instant::ZERO, MTU);
        assert_eq!(pacer.available(Instant::ZERO), u64::MAX);
        assert_eq!(pacer.batch(), 14_000);
        pacer.set(Instant::ZERO, 0, None, Some(100_000));
        pacer.on_sent(Instant::ZERO, 14_000);
        let at = Instant::from_millis(10);
        pacer.set(at, 0, None, Some(1_000_000));
        assert_eq!(pacer.available(at), 1000);
        assert_eq!(pacer.available(Instant::from_millis(11)), 2000);
        // Time without a call counts before sent bytes do.
        pacer.on_sent(Instant::from_millis(12), 3000);
        assert_eq!(pacer.available(Instant::from_millis(12)), 0);
        let later = Instant::from_millis(60_000);
        assert_eq!(pacer.available(later), 14_000);
        // More than the capacity can be sent with a full bucket.
        assert_eq!(pacer.next(later, 1 << 20), None);
        pacer.on_sent(later, 1 << 20);
        assert_eq!(pacer.available(later), 0, "not in debt");
        let full = Instant::from_millis(60_014);
        assert_eq!(pacer.next(later, 1 << 20), Some(full));
    }

    #[test]
    fn the_bucket_follows_the_largest_datagram() {
        let at = Instant::from_millis;
        let mut pacer = Pacer::new(at(0), MTU);
        pacer.set(at(0), 0, None, Some(100_000));
        pacer.on_sent(at(0), 14_000);
        // Ten packets of 9000 bytes; existing credit is kept.
        pacer.set_mtu(at(10), 9000);
        assert_eq!((pacer.available(at(10)), pacer.batch()), (1000, 9000));
        assert_eq!(pacer.available(at(5000)), 90_000);
        pacer.set_mtu(at(5000), 1200);
        assert_eq!((pacer.available(at(5000)), pacer.batch()), (12_000, 1200));
        pacer.set(at(5000), 0, None, Some(u64::MAX));
        pacer.set_mtu(at(5000), u16::MAX);
        assert_eq!(pacer.batch(), u64::from(u16::MAX), "one packet at least");
    }

    /// With a rate of zero, nothing could ever be sent.
    #[test]
    fn the_rate_is_a_byte_per_second_at_least() {
        let mut pacer = Pacer::new(Instant::ZERO, MTU);
        let now = Instant::ZERO;
        let mut rate = |window, srtt, pacing| {
            pacer.set(now, window, srtt, pacing);
            pacer.rate()
        };
        assert_eq!(rate(0, None, Some(0)), Some(1));
        assert_eq!(rate(0, Some(Duration::from_secs(1)), None), Some(1));
        assert_eq!(rate(u64::MAX, Some(Duration::ZERO), None), Some(u64::MAX));
        assert_eq!(rate(1000, None, None), None);
    }

    #[test]
    fn batches_grow_with_the_rate() {
        let mut pacer = Pacer::new(Instant::ZERO, MTU);
        let now = Instant::ZERO;
        let mut batch = |rate| {
            pacer.set(now, 0, None, Some(rate));
            (pacer.batch(), pacer.capacity / UNIT)
        };
        assert_eq!(batch(1_250_000), (1400, 14_000), "10 Mbit/s");
        assert_eq!(batch(12_500_000), (12_500, 25_000), "100 Mbit/s");
        assert_eq!(batch(1_250_000_000), (BATCH_BYTES, 2_500_000), "10 Gbit/s");
        assert_eq!(batch(u64::MAX).1, MAX_BURST);
    }

    /// A sender that is late by its timer sends what it missed, but no more after a pause.
    #[test]
    fn short_batches_leave_no_burst_after_a_pause() {
        let us = |n| Instant::ZERO + Duration::from_micros(n);
        let mut pacer = Pacer::new(us(0), MTU);
        pacer.set_quantum(Duration::from_micros(250));
        pacer.set(us(0), 0, None, Some(5_000_000));
        assert_eq!(pacer.batch(), 1400, "40 Mbit/s");
        pacer.on_sent(us(0), 2800);
        assert_eq!(pacer.next(us(0), 1400), Some(us(280)));
        assert_eq!(pacer.available(us(1080)), 5400, "800 µs late");
        pacer.on_sent(us(1080), 5400);
        assert_eq!(pacer.available(us(90_000)), 2800);
        // From 90 Mbit/s on, a batch is more than two packets.
        pacer.set(us(90_000), 0, None, Some(125_000_000));
        assert_eq!(pacer.batch(), 31_250);
        assert_eq!(pacer.available(us(190_000)), 31_250);
    }

    proptest! {
        /// At any time, bytes ≤ rate × time + bucket, and never a packet less than rate × time,
        /// from 1 kB/s to 10 GB/s, checked in u128.
        #[test]
        fn keeps_its_rate_exactly(
            exponent in 0u32..7,
            mantissa in 1_000u64..10_000,
            lates in prop::collection::vec(0u64..1_000_000, 1..200),
            changes in any::<bool>(),
        ) {
            // [9002 7.7 bursts]
            let rate = mantissa * 10u64.pow(exponent);
            let mut pacer = Pacer::new(Instant::ZERO, MTU);
            pacer.set(Instant::ZERO, 0, None, Some(rate));
            let bucket = u128::from(pacer.capacity / UNIT);
            let (mut now, mut sent) = (Instant::ZERO, 0u128);
            pacer.on_sent(now, pacer.capacity / UNIT);
            for late in lates {
                let bytes = pacer.batch();
                if let Some(at) = pacer.next(now, bytes) {
                    prop_assert!(pacer.next(at - Duration::from_nanos(1), bytes).is_some());
                    // A driver is late, but never by more than the bucket allows for.
                    let spare = bucket.saturating_sub(u128::from(bytes)) * u128::from(UNIT);
                    let bearable = u64::try_from(spare / u128::from(rate)).unwrap();
                    now = at + Duration::from_nanos(late.min(bearable.saturating_sub(1)));
                }
                if changes {
                    // Setting another rate and then this one again changes nothing.
                    pacer.set(now, 0, None, Some(rate + 1));
                    pacer.set(now, 0, None, Some(rate));
                }
                prop_assert_eq!(pacer.next(now, bytes), None);
                prop_assert!(pacer.available(now) >= bytes);
                pacer.on_sent(now, bytes);
                sent += u128::from(bytes);
                let earned = u128::from(rate) * u128::from(now.as_nanos());
                prop_assert!(sent * u128::from(UNIT) <= earned);
                let left = u128::from(pacer.credit);
                prop_assert_eq!(earned - sent * u128::from(UNIT), left);
            }
        }
    }

    #[test]
    fn stands_until_the_sender_had_its_turn() {
        let mut used = WindowUse::default();
        assert!(!used.report());
        used.limited();
        // The window was full at some point, regardless of later events.
        used.otherwise();
        assert!(used.report());
        // A second ACK of the same batch.
        assert!(used.report());
        used.otherwise();
        assert!(!used.report());
        used.limited();
        assert!(used.report());
    }
}
