//! Flow control credit (RFC 9000 §4), the same for a stream and for the connection as a whole.
//!
//! The receiving side promises `consumed + window` and lets the window grow by itself: the promise
//! must cover what the sender may have in flight one round trip from now, so it is a multiple of
//! what arrived in the last one.
//!
//! What arrived counts if the application took it, or if it waits for it and cannot have it yet,
//! because bytes before it were lost. Only bytes that arrived count, never an offset that the peer
//! wrote.

mod lately;
mod rate;

use pathmark_cc::{Duration, Instant};

use crate::wire::varint;
use lately::Lately;
use rate::{Rate, Totals};

/// Window in bandwidth-delay products that a steady flow needs: under loss, delivery in order waits
/// for two to three round trips, and the promise itself travels for half of one.
const STEADY: u64 = 5;

/// Window, as a multiple of what arrived over the last round trip, while a flow speeds up, or while
/// more than a round trip's worth waits at a gap. A sender that sends 11 times as much in each
/// round trip as in the one before needs 11; the sliding sum of [`Rate`] can come out as low as
/// 77 % of the true one, and the promise may lag by [`UPDATE_FRACTION`]. Of 80,000 packets per
/// round trip, all are there after four or five round trips at 5 % loss, after ten at 30 %.
const SPEEDING_UP: u64 = 16;

/// Round trips for which memory stays that reading has earned. A window of [`SPEEDING_UP`] times
/// what one of them brings is used up by then, if the application stops reading.
const EARNED_ROUNDS: u32 = 16;

/// A new promise goes out once it exceeds the last by this fraction of the window.
const UPDATE_FRACTION: u64 = 16;

/// The rate is looked at each time that this fraction of the window has arrived.
const SAMPLE_FRACTION: u64 = 64;

/// More data than was promised: FLOW_CONTROL_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more data than was promised")]
pub struct CreditExceeded;

/// What the peer allows us to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendCredit {
    limit: u64,
    used: u64,
    /// The limit for which a BLOCKED frame is due or went out.
    blocked_at: Option<u64>,
}

impl SendCredit {
    /// A credit of `limit` bytes, none of it used.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Bytes that may still be sent.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// The highest limit that the peer has announced.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes sent for the first time so far.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The peer announced `limit`. True if that is more than before; limits never shrink (RFC 9000
    /// §4.1).
    pub fn raise(&mut self, limit: u64) -> bool {
        // [9000 4.1 limits-never-fall]
        let raised = limit > self.limit;
        if raised {
            self.limit = limit;
            self.blocked_at = None;
        }
        raised
    }

    /// `bytes` are being sent for the first time.
    pub fn consume(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.available());
        self.used = self.used.saturating_add(bytes);
    }

    /// There is more to send than the limit allows. True the first time at this limit: a BLOCKED
    /// frame is due.
    pub fn block(&mut self) -> bool {
        let new = self.blocked_at != Some(self.limit);
        self.blocked_at = Some(self.limit);
        new
    }

    /// True if a BLOCKED frame with the present limit still holds.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked_at == Some(self.limit) && self.available() == 0
    }
}

/// What we allow the peer to send, and how it grows.
#[derive(Clone, Debug)]
pub struct ReceiveWindow {
    /// The highest limit announced.
    promised: u64,
    /// Sum of the highest offsets seen.
    received: u64,
    /// Bytes that the application took, or that were discarded.
    consumed: u64,
    /// Those of them that the application took.
    read: u64,
    /// Bytes that arrived beyond a gap while the application waited for those before.
    held_up: u64,
    window: u64,
    max: u64,
    /// What memory allows to promise, bytes.
    cap: u64,
    /// What the rate asks for, whatever is allowed.
    wanted: u64,
    /// Memory that what the application read, or waited for, over the last rounds is worth.
    earned: Lately,
    /// It was reading that earned most of it.
    by_reading: bool,
    /// What is promised in addition to the window, KiB.
    extra: u32,
    /// The peer reported that it waits: announce whatever there is.
    peer_waits: bool,
    rate: Rate,
    /// Received bytes at which to look at the rate again.
    next_sample: u64,
}

impl ReceiveWindow {
    /// A window of `initial` bytes, announced in the transport parameters, that grows up to `max`.
    #[must_use]
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

    /// Bytes promised beyond what was consumed.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The highest limit announced so far.
    #[must_use]
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Bytes of memory that were earned: some round trips' worth of what the application reads, or
    /// what arrived within the last few while it waited at a gap.
    #[must_use]
    pub fn earned(&self) -> u64 {
        self.earned.most()
    }

    /// True if the peer has used up all that it was promised, no more is to be promised, and that
    /// is less than `most` bytes beyond what was consumed.
    #[must_use]
    pub fn is_used_up(&self, most: u64) -> bool {
        let used = self.peer_waits || self.received == self.promised;
        used && self.next_promise() == self.promised && self.stretched(1, most) > self.promised
    }

    /// Promises `bytes` more than so far, up to `most` bytes beyond what was consumed.
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

    /// A window of `bytes` from now on, which does not grow by itself. What was promised stays
    /// promised.
    pub fn set(&mut self, bytes: u64) {
        self.max = bytes.min(varint::MAX);
        self.window = self.max;
    }

    /// Sets the most that the window may be, whatever the rate asks for, and the bytes to promise
    /// in addition to it.
    pub fn set_cap(&mut self, cap: u64, extra: u64) {
        self.cap = cap;
        self.extra = u32::try_from(extra / 1024).unwrap_or(u32::MAX);
    }

    /// Bytes that are promised beyond what was consumed, once all that may be is announced.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        self.window.min(self.cap)
    }

    /// Bytes that the peer may send or that are not consumed.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.promised.saturating_sub(self.consumed)
    }

    fn extra(&self) -> u64 {
        u64::from(self.extra) * 1024
    }

    /// True while the rate asks for a larger window than the configuration or memory allows.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.wanted > self.max.min(self.cap)
    }

    /// Received and not consumed yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.received.saturating_sub(self.consumed)
    }

    /// The highest offset seen moved up by `bytes`.
    ///
    /// # Errors
    /// [`CreditExceeded`] if that is beyond what was promised; nothing is counted then.
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

    /// The application took `bytes`.
    pub fn on_read(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes);
        self.on_consumed(bytes);
    }

    /// `bytes` of new data arrived beyond a gap, and the application waits for what is missing.
    pub fn on_held_up(&mut self, bytes: u64) {
        self.held_up = self.held_up.saturating_add(bytes);
    }

    /// `bytes` are gone: read or discarded. What is discarded makes no window grow.
    pub fn on_consumed(&mut self, bytes: u64) {
        self.consumed = self.consumed.saturating_add(bytes).min(self.received);
    }

    /// The peer reports that it is blocked by a limit of `limit`.
    pub fn on_peer_blocked(&mut self, limit: u64) {
        self.peer_waits |= limit >= self.promised;
    }

    /// True if a new limit is worth a frame.
    #[must_use]
    pub fn update_due(&self) -> bool {
        let more = self.next_promise().saturating_sub(self.promised);
        // [9000 4.2 credit-unasked]
        more > 0 && (self.peer_waits || more >= self.allowed() / UPDATE_FRACTION)
    }

    /// The limit to announce now.
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

    /// Looks at the rate now, and lets the window follow it.
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
