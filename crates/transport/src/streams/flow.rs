//! Flow control credit (RFC 9000 §4), for a stream as well as for the whole connection.
//!
//! The receiving side promises `consumed + window`. The promise must cover the data that the
//! sender may have in flight one round trip from now, so the window grows automatically to a
//! multiple of the bytes that arrived in the last round trip.
//!
//! Bytes count for this growth if the application read them, or if it is waiting for them and
//! earlier bytes were lost. Only bytes that arrived count, never an offset that the peer wrote.

mod rate;

use pathmark_cc::{Duration, Instant};

use crate::wire::varint;
use rate::{Lately, Rate, Totals};

/// Window in bandwidth-delay products that a steady flow needs. Under loss, in-order delivery
/// waits for two to three round trips, and the promise itself takes half of one.
const STEADY: u64 = 5;

/// Window, as a multiple of the bytes that arrived over the last round trip, while a flow
/// speeds up or while more than a round trip's worth waits at a gap. A sender that sends 11
/// times as much in each round trip as in the previous one needs 11. In addition, the sliding
/// sum of [`Rate`] can be as low as 77 % of the true one, and the promise may lag by
/// [`UPDATE_FRACTION`]. Of 80,000 packets per round trip, all have arrived after four or five
/// round trips at 5 % loss, and after ten at 30 %.
const SPEEDING_UP: u64 = 16;

/// Round trips for which memory earned by reading is kept. If the application stops reading, a
/// window of [`SPEEDING_UP`] times the bytes of one round trip is exhausted by then.
const EARNED_ROUNDS: u32 = 16;

/// A new promise is sent once it exceeds the previous one by this fraction of the window.
const UPDATE_FRACTION: u64 = 16;

/// The rate is updated each time that this fraction of the window has arrived.
const SAMPLE_FRACTION: u64 = 64;

/// More data than was promised: FLOW_CONTROL_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more data than was promised")]
pub struct CreditExceeded;

/// The credit that the peer grants this side.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendCredit {
    limit: u64,
    used: u64,
    /// The limit for which a BLOCKED frame is due or was sent.
    blocked_at: Option<u64>,
}

impl SendCredit {
    /// Creates an unused credit of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Returns the bytes that may still be sent.
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// Returns the highest limit that the peer has announced.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes sent so far, without retransmissions.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Raises the limit to `limit`. Returns false if it isn't higher than before, because
    /// limits never shrink (RFC 9000 §4.1).
    pub fn raise(&mut self, limit: u64) -> bool {
        // [9000 4.1 limits-never-fall]
        let raised = limit > self.limit;
        if raised {
            self.limit = limit;
            self.blocked_at = None;
        }
        raised
    }

    /// Uses credit for `bytes` that are being sent for the first time.
    pub fn consume(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.available());
        self.used = self.used.saturating_add(bytes);
    }

    /// Records that there is more to send than the limit allows. Returns true the first time at
    /// this limit, when a BLOCKED frame is due.
    pub fn block(&mut self) -> bool {
        let new = self.blocked_at != Some(self.limit);
        self.blocked_at = Some(self.limit);
        new
    }

    /// Returns true if a BLOCKED frame with the current limit is still accurate.
    pub fn is_blocked(&self) -> bool {
        self.blocked_at == Some(self.limit) && self.available() == 0
    }
}

/// The credit that this side grants the peer, and its growth.
#[derive(Clone, Debug)]
pub struct ReceiveWindow {
    /// The highest limit announced.
    promised: u64,
    /// Sum of the highest offsets received.
    received: u64,
    /// Bytes that the application read or that were discarded.
    consumed: u64,
    /// The part of `consumed` that the application read.
    read: u64,
    /// Bytes that arrived beyond a gap while the application waited for the missing bytes.
    held_up: u64,
    window: u64,
    max: u64,
    /// The largest window that memory allows, bytes.
    cap: u64,
    /// The window that the rate requires, regardless of limits.
    wanted: u64,
    /// Memory earned by the bytes that the application read or waited for over the last rounds.
    earned: Lately,
    /// Whether most of this memory was earned by reading.
    by_reading: bool,
    /// Bytes promised in addition to the window, KiB.
    extra: u32,
    /// The peer reported that it is blocked, so any additional credit should be announced.
    peer_waits: bool,
    rate: Rate,
    /// Received bytes at which the rate is updated next.
    next_sample: u64,
}

impl ReceiveWindow {
    /// Creates a window of `initial` bytes, announced in the transport parameters, that can
    /// grow up to `max`.
    pub fn new(initial: u64, max: u64) -> Self {
        let initial = initial.min(varint::MAX);
        Self {
            promised: initial,
            received: 0,
            consumed: 0,
            read: 0,
            held_up: 0,
            window: initial,
            max: max.max(initial),
            cap: u64::MAX,
            extra: 0,
            wanted: 0,
            earned: Lately::default(),
            by_reading: false,
            peer_waits: false,
            rate: Rate::default(),
            next_sample: 0,
        }
    }

    /// Returns the bytes promised beyond those consumed.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns the highest limit announced so far.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Returns the bytes of memory that were earned: several round trips' worth of the
    /// application's reading, or the bytes that arrived recently while it waited at a gap.
    pub fn earned(&self) -> u64 {
        self.earned.most()
    }

    /// Returns true if the peer has used its whole credit, no more would be promised, and the
    /// credit is less than `most` bytes beyond those consumed.
    pub fn is_used_up(&self, most: u64) -> bool {
        let used = self.peer_waits || self.received == self.promised;
        used && self.next_promise() == self.promised && self.stretched(1, most) > self.promised
    }

    /// Promises `bytes` more than so far, up to `most` bytes beyond those consumed.
    pub fn stretch(&mut self, bytes: u64, most: u64) {
        let window = self.stretched(bytes, most) - self.consumed;
        let window = window.saturating_sub(self.extra());
        self.window = self.window.max(window);
        self.cap = self.cap.max(window);
        self.peer_waits = true;
    }

    fn stretched(&self, bytes: u64, most: u64) -> u64 {
        let end = self.consumed.saturating_add(most.min(self.max));
        self.promised
            .saturating_add(bytes)
            .min(end)
            .max(self.promised)
    }

    /// Sets a window of `bytes`, which doesn't grow automatically anymore. Earlier promises
    /// remain valid.
    pub fn set(&mut self, bytes: u64) {
        self.max = bytes.min(varint::MAX);
        self.window = self.max;
    }

    /// Sets the maximum window, regardless of the rate, and the bytes to promise in addition to
    /// it.
    pub fn set_cap(&mut self, cap: u64, extra: u64) {
        self.cap = cap;
        self.extra = u32::try_from(extra / 1024).unwrap_or(u32::MAX);
    }

    /// Returns the bytes promised beyond those consumed once the full window is announced.
    pub fn allowed(&self) -> u64 {
        self.window.min(self.cap)
    }

    /// Returns the bytes that the peer may still send or that aren't consumed yet.
    pub fn outstanding(&self) -> u64 {
        self.promised.saturating_sub(self.consumed)
    }

    fn extra(&self) -> u64 {
        u64::from(self.extra) * 1024
    }

    /// Returns true while the rate requires a larger window than the configuration or memory
    /// allows.
    pub fn is_limited(&self) -> bool {
        self.wanted > self.max.min(self.cap)
    }

    /// Returns the bytes that were received but not consumed yet.
    pub fn pending(&self) -> u64 {
        self.received.saturating_sub(self.consumed)
    }

    /// Records that the highest received offset increased by `bytes`.
    ///
    /// # Errors
    /// [`CreditExceeded`] if this exceeds the promise, in which case nothing is recorded.
    pub fn on_received(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        bytes: u64,
    ) -> Result<(), CreditExceeded> {
        let received = self.received.saturating_add(bytes);
        // [9000 4.1 credit-exceeded]
        if received > self.promised {
            return Err(CreditExceeded);
        }
        self.received = received;
        if received >= self.next_sample {
            self.next_sample = received + self.window / SAMPLE_FRACTION;
            self.measure(now, rtt);
        }
        Ok(())
    }

    /// Records that the application read `bytes`.
    pub fn on_read(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes);
        self.on_consumed(bytes);
    }

    /// Records that `bytes` of new data arrived beyond a gap while the application waits for
    /// the missing bytes.
    pub fn on_held_up(&mut self, bytes: u64) {
        self.held_up = self.held_up.saturating_add(bytes);
    }

    /// Records that `bytes` were read or discarded. Discarded bytes don't make a window grow.
    pub fn on_consumed(&mut self, bytes: u64) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.received);
    }

    /// Records that the peer reported being blocked at `limit`.
    pub fn on_peer_blocked(&mut self, limit: u64) {
        self.peer_waits |= limit >= self.promised;
    }

    /// Returns true if a new limit should be sent.
    pub fn update_due(&self) -> bool {
        let more = self.next_promise().saturating_sub(self.promised);
        // [9000 4.2 credit-unasked]
        more > 0 && (self.peer_waits || more >= self.allowed() / UPDATE_FRACTION)
    }

    /// Returns the limit to announce now.
    pub fn announce(&mut self, now: Instant, rtt: Option<Duration>) -> u64 {
        self.measure(now, rtt);
        self.promised = self.next_promise();
        self.peer_waits = false;
        self.promised
    }

    fn next_promise(&self) -> u64 {
        let window = self.allowed().saturating_add(self.extra());
        let limit = self.consumed.saturating_add(window);
        limit.min(varint::MAX).max(self.promised)
    }

    /// Updates the rate, and lets the window follow it.
    pub fn measure(&mut self, now: Instant, rtt: Option<Duration>) {
        let totals = Totals {
            received: self.received,
            read: self.read,
            held_up: self.held_up,
        };
        let bytes = self.rate.sample(now, rtt, totals);
        let factor = if self.rate.speeds_up() || self.rate.is_held_up() {
            SPEEDING_UP
        } else {
            STEADY
        };
        let by_reading = bytes.min(self.rate.taken()).saturating_mul(SPEEDING_UP);
        let held_up = self.rate.held_up();
        if by_reading != held_up {
            self.by_reading = by_reading > held_up;
        }
        let stays = rtt.filter(|_| self.by_reading);
        let stays = stays.map_or(Duration::ZERO, |rtt| {
            rtt.min(rate::LONGEST_ROUND).saturating_mul(EARNED_ROUNDS)
        });
        self.earned.sample(now, by_reading.max(held_up), stays);
        self.wanted = bytes.saturating_mul(factor);
        self.raise(self.wanted);
    }

    fn raise(&mut self, window: u64) {
        self.window = self.window.max(window.min(self.max));
    }
}

#[cfg(test)]
mod tests;
