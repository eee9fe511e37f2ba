//! A one-way link with a virtual clock: latency, rate, and seeded loss, reordering, duplication and
//! corruption.

use std::collections::BTreeMap;

use super::*;

/// xorshift64*, which is small, seeded, and good enough for selecting packets.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns true with a probability of `ppm` in a million.
    fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.next() % 1_000_000 < u64::from(ppm)
    }
}

/// Effects of a link on datagrams, in parts per million.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u32,
    pub(crate) reorder: u32,
    pub(crate) duplicate: u32,
    pub(crate) corrupt: u32,
    /// Larger datagrams are dropped.
    pub(crate) mtu: Option<usize>,
    /// Datagrams that begin with a shim are dropped.
    pub(crate) eats_shims: bool,
    /// Extra delay of datagrams with a shim of this kind.
    pub(crate) holds: Option<(u8, Duration)>,
    /// Datagrams with an ECN mark are dropped.
    pub(crate) eats_marks: bool,
    /// ECN marks are changed to CE.
    pub(crate) marks_all: bool,
    /// The ECN field is set to this value.
    pub(crate) ecn: Option<Ecn>,
}

impl Faults {
    /// Faults of a bad path: 15 % lost, 10 % reordered, 5 % each duplicated and damaged.
    pub(crate) fn bad() -> Self {
        Self {
            loss: 150_000,
            reorder: 100_000,
            duplicate: 50_000,
            corrupt: 50_000,
            ..Self::default()
        }
    }
}

/// A datagram in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: Vec<u8>,
}

impl Datagram {
    /// A datagram without an ECN mark.
    pub(crate) fn new(from: &Host, to: &Host, bytes: Vec<u8>) -> Self {
        Self {
            from: from.address,
            to: to.address,
            ecn: Ecn::NotEct,
            bytes,
        }
    }
}

/// One direction between two hosts.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) latency: Duration,
    /// Rate in bytes per second, or `None` if unlimited.
    pub(crate) rate: Option<u64>,
    /// Maximum number of bytes that may wait for the rate.
    pub(crate) queue: u64,
    pub(crate) faults: Faults,
    rng: Rng,
    free_at: Instant,
    order: u64,
    /// By time of arrival, and a number that preserves the order.
    flying: BTreeMap<(Instant, u64), Datagram>,
    /// Number of datagrams that never arrived.
    pub(crate) dropped: u64,
    /// Number of all datagrams.
    pub(crate) entered: u64,
}

impl Link {
    pub(crate) fn new(latency: Duration, seed: u64) -> Self {
        Self {
            latency,
            rate: None,
            queue: u64::MAX,
            faults: Faults::default(),
            rng: Rng::new(seed),
            free_at: Instant::ZERO,
            order: 0,
            flying: BTreeMap::new(),
            dropped: 0,
            entered: 0,
        }
    }

    pub(crate) fn send(&mut self, now: Instant, mut datagram: Datagram) {
        self.entered += 1;
        let size = datagram.bytes.len();
        let shimmed = datagram.bytes.first().is_some_and(|b| b & 0xf8 == 8);
        if self.faults.mtu.is_some_and(|mtu| size > mtu)
            || (self.faults.eats_shims && shimmed)
            || (self.faults.eats_marks && datagram.ecn != Ecn::NotEct)
            || self.rng.chance(self.faults.loss)
        {
            self.dropped += 1;
            return;
        }
        let mut at = now + self.latency;
        if let Some(rate) = self.rate {
            let start = self.free_at.max(now);
            let waiting = (start - now).as_nanos() as u64 * rate / 1_000_000_000;
            if waiting > self.queue {
                self.dropped += 1;
                return;
            }
            self.free_at = start + Duration::from_nanos(size as u64 * 1_000_000_000 / rate);
            at = self.free_at + self.latency;
        }
        if self.rng.chance(self.faults.reorder) {
            at += self.latency / 4;
        }
        if let Some((kind, longer)) = self.faults.holds
            && datagram.bytes.first() == Some(&(8 | kind))
        {
            at += longer;
        }
        if self.rng.chance(self.faults.corrupt) {
            let at = (self.rng.next() % size as u64) as usize;
            datagram.bytes[at] ^= 1 << (self.rng.next() % 8);
        }
        if self.faults.marks_all && datagram.ecn != Ecn::NotEct {
            datagram.ecn = Ecn::Ce;
        }
        if let Some(ecn) = self.faults.ecn {
            datagram.ecn = ecn;
        }
        if self.rng.chance(self.faults.duplicate) {
            self.push(at, datagram.clone());
        }
        self.push(at, datagram);
    }

    fn push(&mut self, at: Instant, datagram: Datagram) {
        self.order += 1;
        self.flying.insert((at, self.order), datagram);
    }

    /// Returns when the next datagram arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.flying.keys().next().map(|(at, _)| *at)
    }

    /// Returns a datagram that has arrived by `now`.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Datagram> {
        let next = self.flying.first_entry()?;
        (next.key().0 <= now).then(|| next.remove())
    }

    /// Drops all datagrams in flight.
    pub(crate) fn cut(&mut self) {
        self.dropped += self.flying.len() as u64;
        self.flying.clear();
    }
}
