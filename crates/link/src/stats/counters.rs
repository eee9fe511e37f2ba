//! Counters of a link.

use pathmark_cc::{Duration, Instant};

use super::delays::Delays;
use super::gauge::{Gauge, Summary};

/// The reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// Active queue management dropped it early.
    Early,
    /// Its room was needed by the other class of a separated port, or by a sparse flow of its
    /// own class.
    PushedOut,
    /// The control law dropped it because its flow sent more than it declared or was granted.
    Policed,
    /// It was lost on the impaired wire.
    RandomLoss,
    /// The wire had no room for further packets.
    WireFull,
    /// The port was taken down, or its queue replaced.
    Removed,
    /// The port's packets had used all the memory that they may.
    NoBuffer,
}

impl DropCause {
    /// All causes, in the order of [`Drops`].
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::Early,
        Self::PushedOut,
        Self::Policed,
        Self::RandomLoss,
        Self::WireFull,
        Self::Removed,
        Self::NoBuffer,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Early => "early",
            Self::PushedOut => "pushed_out",
            Self::Policed => "policed",
            Self::RandomLoss => "random_loss",
            Self::WireFull => "wire_full",
            Self::Removed => "removed",
            Self::NoBuffer => "no_buffer",
        }
    }
}

/// Dropped packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropCause::ALL.len()]);

impl Drops {
    pub(crate) fn count(&mut self, cause: DropCause) {
        if let Some(n) = self.0.get_mut(cause as usize) {
            *n += 1;
        }
    }

    /// Packets dropped for `cause`.
    pub fn of(&self, cause: DropCause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// All dropped packets.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Packets that the queue dropped for any reason.
    pub fn by_queue(&self) -> u64 {
        self.of(DropCause::QueueFull) + self.of(DropCause::Early) + self.of(DropCause::PushedOut)
    }
}

/// A link's counters since it came up.
#[derive(Clone, Debug)]
pub struct LinkStats {
    pub(crate) arrived_packets: u64,
    pub(crate) arrived_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) drops: Drops,
    pub(crate) queue_packets: Gauge,
    /// Of foreign packets, and of those that carry feedback.
    pub(crate) delays: [Delays; 2],
    queue_micros: Gauge,
    /// Microseconds per byte, in 2^-32, because multiplying is cheaper than dividing for each
    /// packet.
    micros_q32: u64,
    capacity: Capacity,
}

impl LinkStats {
    pub(crate) fn new(now: Instant, rate: Option<u64>) -> Self {
        Self {
            arrived_packets: 0,
            arrived_bytes: 0,
            sent_packets: 0,
            sent_bytes: 0,
            drops: Drops::default(),
            queue_packets: Gauge::new(now),
            delays: [Delays::default(); 2],
            queue_micros: Gauge::new(now),
            micros_q32: micros_per_byte(rate),
            capacity: Capacity {
                rate: rate.unwrap_or(0),
                since: now,
                byte_nanos: 0,
            },
        }
    }

    pub(crate) fn on_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.capacity.byte_nanos = self.capacity.until(now);
        self.capacity.since = now;
        self.capacity.rate = rate.unwrap_or(0);
        self.micros_q32 = micros_per_byte(rate);
    }

    #[inline]
    pub(crate) fn queue_bytes(&mut self, now: Instant, bytes: u64) {
        let micros = (u128::from(bytes) * u128::from(self.micros_q32)) >> 32;
        self.queue_micros
            .set(now, u64::try_from(micros).unwrap_or(u64::MAX));
    }

    /// Packets that arrived.
    pub fn arrived_packets(&self) -> u64 {
        self.arrived_packets
    }

    /// IP bytes that arrived.
    pub fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// Packets that left for the wire.
    pub fn sent_packets(&self) -> u64 {
        self.sent_packets
    }

    /// IP bytes that left for the wire.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Drops by cause.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// The queue in packets, weighted by time.
    pub fn queue_packets(&self, now: Instant) -> Summary {
        self.queue_packets.summary(now)
    }

    /// The queue as the time to drain it at the link's current rate, in microseconds, weighted
    /// by time.
    pub fn queue_micros(&self, now: Instant) -> Summary {
        self.queue_micros.summary(now)
    }

    /// Queueing delays of departed packets: foreign ones, and those that carry feedback.
    pub fn delays(&self) -> &[Delays; 2] {
        &self.delays
    }

    /// Bytes that the link could have carried so far, which is its rate integrated over time. 0
    /// for a link without a rate.
    pub fn capacity_bytes(&self, now: Instant) -> u64 {
        u64::try_from(self.capacity.until(now) / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

fn micros_per_byte(rate: Option<u64>) -> u64 {
    rate.and_then(|rate| (1_000_000u64 << 32).checked_div(rate))
        .unwrap_or(0)
}

/// The integral of the rate over time.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    rate: u64,
    since: Instant,
    byte_nanos: u128,
}

impl Capacity {
    fn until(&self, now: Instant) -> u128 {
        let elapsed: Duration = now.saturating_since(self.since);
        self.byte_nanos + u128::from(self.rate) * elapsed.as_nanos()
    }
}
