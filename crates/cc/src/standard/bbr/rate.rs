//! Delivery rate samples (draft-ietf-ccwg-bbr, "Delivery Rate Samples").
//!
//! The draft stores six numbers with each packet. They change only with acknowledgements and
//! losses, so packets that leave between two of these events share one [`Snapshot`]. A ring keeps
//! the latest snapshots, and a packet stores the number of its snapshot, the bytes in flight, and
//! whether the application was the limit. A snapshot is older than its packets by at most
//! 1/[`SPACING`] of a round trip, so samples span up to that much more than a round trip.

use crate::base::arith::{nanos, ns_since, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Lost, PacketState, Sent};

/// Number of snapshots kept: four round trips of snapshots at [`SPACING`]. Older packets give no
/// sample, for example after an outage, but the round trip that spaces snapshots has grown by then.
const RING: usize = 128;
/// Maximum number of snapshots per round trip.
const SPACING: u64 = 32;

/// Bits of a packet's state: number of its snapshot, application limit, bytes in flight.
const NUMBER_BITS: u32 = 23;
const IN_FLIGHT_BITS: u32 = 40;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const IN_FLIGHT_MASK: u64 = (1 << IN_FLIGHT_BITS) - 1;

/// The state of the connection when a packet left.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    number: u64,
    /// `C.delivered` and `C.lost`, in bytes.
    delivered: u64,
    lost: u64,
    /// `C.delivered_time` and `C.first_send_time`.
    delivered_at: Instant,
    first_sent: Instant,
}

/// The sample of an acknowledged packet (`RS` in the draft).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RateSample {
    /// Bytes per second; 0: no reliable sample.
    pub(super) rate: u64,
    /// Bytes delivered while the packet was in flight.
    pub(super) delivered: u64,
    /// `C.delivered` when the packet was sent.
    pub(super) prior_delivered: u64,
    /// Bytes newly acknowledged.
    pub(super) acked: u64,
    /// Bytes declared lost while the packet was in flight.
    pub(super) lost: u64,
    /// Bytes in flight when the packet was sent, including the packet.
    pub(super) tx_in_flight: u64,
    /// The application had less to send than the path could have carried.
    pub(super) app_limited: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Sampler {
    ring: Box<[Snapshot; RING]>,
    /// Number of the latest snapshot.
    latest: u64,
    /// True if acknowledgements or losses have arrived since the latest snapshot.
    moved: bool,
    taken: Instant,
    delivered: u64,
    lost: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// `C.app_limited`: samples are limited by the application until more than this is delivered.
    app_limited: Option<u64>,
}

impl Sampler {
    pub(super) fn new(now: Instant) -> Self {
        let first = Snapshot {
            delivered_at: now,
            first_sent: now,
            ..Snapshot::default()
        };
        Self {
            ring: Box::new([first; RING]),
            latest: 0,
            moved: false,
            taken: now,
            delivered: 0,
            lost: 0,
            delivered_at: now,
            first_sent: now,
            app_limited: None,
        }
    }

    /// A new sampler, for which packets already in flight give no sample.
    pub(super) fn restarted(&self, now: Instant) -> Self {
        let mut sampler = Self::new(now);
        sampler.latest = self.latest.wrapping_add(RING as u64);
        sampler.take(now);
        sampler
    }

    /// `C.delivered`.
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) const fn is_app_limited(&self) -> bool {
        self.app_limited.is_some()
    }

    /// Records that the application limits the sender until everything in flight has been
    /// delivered.
    pub(super) fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited = Some(self.delivered.saturating_add(in_flight).max(1));
    }

    /// Records a packet; `rtt` is the current round trip, including queues.
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent, rtt: Duration) -> PacketState {
        if sent.in_flight <= sent.bytes {
            self.delivered_at = now;
            self.first_sent = now;
            self.take(now);
        } else if self.moved && ns_since(now, self.taken) >= nanos(rtt) / SPACING {
            self.take(now);
        }
        let limited = u64::from(self.app_limited.is_some());
        let in_flight = sent.in_flight.min(IN_FLIGHT_MASK);
        let number = self.latest & NUMBER_MASK;
        PacketState {
            standard: number << (IN_FLIGHT_BITS + 1) | limited << IN_FLIGHT_BITS | in_flight,
            ..PacketState::default()
        }
    }

    fn take(&mut self, now: Instant) {
        self.moved = false;
        self.taken = now;
        self.latest += 1;
        let snapshot = Snapshot {
            number: self.latest,
            delivered: self.delivered,
            lost: self.lost,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        };
        if let Some(slot) = self.ring.get_mut(slot(self.latest)) {
            *slot = snapshot;
        }
    }

    fn snapshot(&self, state: PacketState) -> Option<Snapshot> {
        let number = state.standard >> (IN_FLIGHT_BITS + 1);
        let age = self.latest.wrapping_sub(number) & NUMBER_MASK;
        let number = self.latest.checked_sub(age)?;
        let snapshot = *self.ring.get(slot(number))?;
        (snapshot.number == number).then_some(snapshot)
    }

    /// Handles an acknowledgement. Returns `None` if its newest packet is too old for a sample.
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) -> Option<RateSample> {
        self.moved = true;
        self.delivered = self.delivered.saturating_add(acked.bytes);
        self.delivered_at = now;
        let snapshot = self.snapshot(acked.state);
        if self.app_limited.is_some_and(|until| self.delivered > until) {
            self.app_limited = None;
        }
        // The newest packet of a late acknowledgement can be older than that of a previous
        // acknowledgement.
        self.first_sent = self.first_sent.max(acked.sent_at);
        let snapshot = snapshot?;
        let send = ns_since(acked.sent_at, snapshot.first_sent);
        let ack = ns_since(now, snapshot.delivered_at);
        let interval = send.max(ack);
        let delivered = self.delivered.saturating_sub(snapshot.delivered);
        // This amount cannot have been delivered in less than the minimum RTT.
        let reliable = interval > 0 && interval >= nanos(acked.min_rtt);
        Some(RateSample {
            rate: if reliable {
                rate(delivered, Duration::from_nanos(interval), 1, 1)
            } else {
                0
            },
            delivered,
            prior_delivered: snapshot.delivered,
            acked: acked.bytes,
            lost: self.lost.saturating_sub(snapshot.lost),
            tx_in_flight: acked.state.standard & IN_FLIGHT_MASK,
            app_limited: app_limited(acked.state),
        })
    }

    /// Handles lost packets. Returns the sample of the oldest packet, as if the others were not
    /// lost yet, and the sample of the newest, or `None` if the newest is too old.
    pub(super) fn on_loss(&mut self, lost: &Lost) -> Option<(RateSample, RateSample)> {
        self.moved = true;
        let one = lost.bytes / lost.packets.max(1);
        let with_first = self.lost.saturating_add(one);
        self.lost = self.lost.saturating_add(lost.bytes);
        let newest = self.loss_sample(lost.state, self.lost)?;
        let oldest = self.loss_sample(lost.first_state, with_first);
        Some((oldest.unwrap_or(newest), newest))
    }

    fn loss_sample(&self, state: PacketState, lost: u64) -> Option<RateSample> {
        let snapshot = self.snapshot(state)?;
        Some(RateSample {
            prior_delivered: snapshot.delivered,
            lost: lost.saturating_sub(snapshot.lost),
            tx_in_flight: state.standard & IN_FLIGHT_MASK,
            app_limited: app_limited(state),
            ..RateSample::default()
        })
    }
}

const fn slot(number: u64) -> usize {
    (number % RING as u64) as usize
}

const fn app_limited(state: PacketState) -> bool {
    state.standard >> IN_FLIGHT_BITS & 1 == 1
}
