//! The counters that a receiver returns, and their interpretation by a sender.
//!
//! | index | name | meaning |
//! |---|---|---|
//! | 0 | packets | that arrived with a request |
//! | 1 | bytes | of UDP payload of these packets, including the shim |
//! | 2 | rate | code of the rate in the latest packet |
//! | 3 | ttl | its IP TTL minus its QS TTL, as below |
//! | 4 | nonce | its nonce |
//!
//! The difference of TTLs is modulo 256, plus 1, or 0 if the IP TTL is unknown. If a router has
//! answered, 512 is added.

use pathmark_cc::{BadFeedback, Breach, Countable, QuickStartFeedback};
use pathmark_shim::quick_start::{Rate, Repr};

/// Number of counters.
pub const LEN: usize = 5;

/// Added to a TTL difference if a router has answered.
const ANSWERED: u64 = 512;

/// Maximum of totals (the largest QUIC varint).
const CEILING: u64 = (1 << 62) - 1;

const COUNT: BadFeedback = BadFeedback::new(Breach::Form, "not 5 Quick-Start counters");
const RANGE: BadFeedback = BadFeedback::new(Breach::Form, "Quick-Start field out of range");
const BACKWARDS: BadFeedback =
    BadFeedback::new(Breach::Backwards, "Quick-Start total ran backwards");
const MORE_THAN_SENT: BadFeedback = BadFeedback::new(
    Breach::Packets,
    "more Quick-Start requests counted than sent",
);
const SUM: BadFeedback =
    BadFeedback::new(Breach::Sum, "Quick-Start bytes do not fit their packets");

/// The totals of one path epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    packets: u64,
    bytes: u64,
    rate: Rate,
    ttl_difference: Option<u8>,
    answered: bool,
    nonce: u64,
}

impl Totals {
    /// Counts a packet with this shim and `bytes` of UDP payload. Reports do not count.
    pub fn count(&mut self, shim: &Repr, bytes: u64, ttl: Option<u8>) {
        if shim.function.answered().is_none() {
            return;
        }
        self.packets = self.packets.saturating_add(1).min(CEILING);
        self.bytes = self.bytes.saturating_add(bytes).min(CEILING);
        self.rate = shim.rate;
        self.ttl_difference = ttl.map(|ttl| ttl.wrapping_sub(shim.qs_ttl));
        self.answered = shim.function.is_answered();
        self.nonce = shim.nonce;
    }

    /// Returns true if nothing was counted yet.
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The counters for a FEEDBACK frame, in the order of the table above.
    pub fn encode(&self) -> [u64; LEN] {
        [
            self.packets,
            self.bytes,
            self.rate.code().into(),
            self.ttl_difference.map_or(0, |ttl| u64::from(ttl) + 1)
                | if self.answered { ANSWERED } else { 0 },
            self.nonce,
        ]
    }

    /// Reads counters from a FEEDBACK frame.
    ///
    /// # Errors
    /// [`BadFeedback`]: there are too few or too many, or a field is out of its range.
    pub fn decode(counters: &[u64]) -> Result<Self, BadFeedback> {
        let &[packets, bytes, rate, ttl, nonce] = counters else {
            return Err(COUNT);
        };
        let range = |_| RANGE;
        if packets.max(bytes) > CEILING || nonce >> 48 != 0 {
            return Err(RANGE);
        }
        Ok(Self {
            packets,
            bytes,
            rate: Rate::from_code(rate.try_into().map_err(range)?),
            answered: ttl & ANSWERED != 0,
            ttl_difference: match (ttl & !ANSWERED).checked_sub(1) {
                None => None,
                Some(ttl) => Some(ttl.try_into().map_err(range)?),
            },
            nonce,
        })
    }

    /// Returns the difference between `self` and `older`. At most `most` can have been counted
    /// in the epoch so far.
    ///
    /// # Errors
    /// [`BadFeedback`]: the counters contradict `older` or the sent packets.
    pub fn since(&self, older: &Self, most: &Countable) -> Result<QuickStartFeedback, BadFeedback> {
        if self.packets > most.packets {
            return Err(MORE_THAN_SENT);
        }
        let less = |newer: u64, older: u64| newer.checked_sub(older).ok_or(BACKWARDS);
        let packets = less(self.packets, older.packets)?;
        let bytes = less(self.bytes, older.bytes)?;
        if self.bytes > most.bytes
            || bytes < packets
            || bytes > packets.saturating_mul(most.longest)
        {
            return Err(SUM);
        }
        Ok(QuickStartFeedback {
            packets,
            bytes,
            rate: self.rate.bytes_per_second(),
            ttl_difference: self.ttl_difference,
            answered: self.answered,
            nonce: self.nonce,
            nonce_bits: self.rate.nonce_bits(),
        })
    }
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
