//! Laws that controlled a connection's window, for how long, and why.

use super::Ruler;
use crate::base::{Duration, Instant};

/// Maximum number of rulers that are distinguished. Any further ones count as [`OTHERS`].
const MOST_RULERS: usize = 12;
/// Maximum number of changes that are kept, dropping the oldest.
const MOST_CHANGES: usize = 12;
/// Represents rulers beyond this maximum. Laws of this crate have fewer.
const OTHERS: Ruler = Ruler {
    law: "others",
    fallback: None,
};

/// Time and bytes of a connection, by the law that controlled the window.
///
/// You should prefer these to the final state when judging a connection: a law can control the
/// window for most of the time and lose it just before the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerShares {
    shares: Vec<ControllerShare>,
    changes: Vec<ControllerChange>,
    forgotten: u64,
    /// Index of the current ruler in `shares`.
    current: usize,
    begun: Option<Instant>,
    /// Time up to which shares are counted.
    counted: Option<Instant>,
}

/// Time and bytes while one law controlled the window for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerShare {
    /// The ruler.
    pub ruler: Ruler,
    /// Total time.
    pub time: Duration,
    /// Bytes of packets sent during this time, including retransmissions.
    pub bytes: u64,
}

/// Change of the law that controls the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerChange {
    /// Time of the change, since the connection's first packet of data.
    pub at: Duration,
    /// The new ruler, including the reason.
    pub ruler: Ruler,
}

impl ControllerShares {
    /// Creates an empty record, without any ruler.
    pub const fn new() -> Self {
        Self {
            shares: Vec::new(),
            changes: Vec::new(),
            forgotten: 0,
            current: 0,
            begun: None,
            counted: None,
        }
    }

    /// Returns true before the first call of [`note`](Self::note).
    pub const fn is_empty(&self) -> bool {
        self.begun.is_none()
    }

    /// Records that `ruler` controls the window from `now` on, whether or not it did before.
    pub fn note(&mut self, now: Instant, ruler: Ruler) {
        self.count(now);
        let rules = |share: &ControllerShare| share.ruler == ruler;
        if self.shares.get(self.current).is_some_and(rules) {
            return;
        }
        let known = self.shares.iter().position(rules);
        let ruler = match known {
            None if self.shares.len() >= MOST_RULERS => OTHERS,
            _ => ruler,
        };
        let place = self.shares.iter().position(|share| share.ruler == ruler);
        if place == Some(self.current) {
            return;
        }
        self.current = place.unwrap_or(self.shares.len());
        if place.is_none() {
            self.shares.push(ControllerShare {
                ruler,
                time: Duration::ZERO,
                bytes: 0,
            });
        }
        if self.changes.len() >= MOST_CHANGES {
            self.changes.remove(0);
            self.forgotten += 1;
        }
        let at = now - *self.begun.get_or_insert(now);
        self.changes.push(ControllerChange { at, ruler });
    }

    /// Adds the time until `now` to the current ruler's share.
    pub fn count(&mut self, now: Instant) {
        let since = self.counted.replace(now).unwrap_or(now);
        if let Some(share) = self.shares.get_mut(self.current) {
            share.time = share.time.saturating_add(now - since);
        }
    }

    /// Adds a sent packet to the current ruler's share.
    pub fn on_sent(&mut self, bytes: u64) {
        if let Some(share) = self.shares.get_mut(self.current) {
            share.bytes = share.bytes.saturating_add(bytes);
        }
    }

    /// Returns the shares, ordered by when each ruler first got the window.
    pub fn shares(&self) -> &[ControllerShare] {
        &self.shares
    }

    /// Returns the latest changes, oldest first. The very first is the beginning of the connection.
    pub fn changes(&self) -> &[ControllerChange] {
        &self.changes
    }

    /// Returns how many earlier changes were dropped.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::super::FallbackReason;
    use super::*;
    use crate::testing::at;

    fn ruler(law: &'static str, fallback: Option<FallbackReason>) -> Ruler {
        Ruler { law, fallback }
    }

    #[test]
    fn time_and_bytes_go_to_the_one_that_rules() {
        let mut shares = ControllerShares::new();
        assert!(shares.is_empty());
        shares.on_sent(1);
        let cubic = ruler("cubic", Some(FallbackReason::NoAnswer));
        let hop = ruler("cubic", Some(FallbackReason::PlainHop));
        let xcp = ruler("xcp", None);
        let turns = [
            (1000, cubic, 10),
            (1100, xcp, 20),
            (1200, xcp, 30),
            (1500, hop, 40),
        ];
        for (ms, ruler, bytes) in turns.into_iter().chain([(1600, xcp, 50)]) {
            shares.note(at(ms), ruler);
            shares.on_sent(bytes);
        }
        shares.count(at(2000));
        let parts = shares.shares().iter();
        let parts: Vec<_> = parts
            .map(|share| (share.ruler, share.time.as_millis(), share.bytes))
            .collect();
        assert_eq!(parts, [(cubic, 100, 10), (xcp, 800, 100), (hop, 100, 40)]);
        let changes = shares.changes().iter();
        let changes: Vec<_> = changes.map(|c| (c.at.as_millis(), c.ruler)).collect();
        assert_eq!(changes, [(0, cubic), (100, xcp), (500, hop), (600, xcp)]);
        assert_eq!(shares.forgotten(), 0);
    }

    /// Neither a law that changes at each acknowledgement nor one that makes up names takes
    /// unbounded memory.
    #[test]
    fn memory_is_bounded() {
        const NAMES: &str = "abcdefghijklmnop";
        let mut shares = ControllerShares::new();
        for round in 0..1600u64 {
            let law = round as usize % NAMES.len();
            shares.note(at(round), ruler(&NAMES[law..=law], None));
        }
        assert_eq!(shares.shares().len(), MOST_RULERS + 1);
        assert_eq!(shares.changes().len(), MOST_CHANGES);
        let time: Duration = shares.shares().iter().map(|share| share.time).sum();
        assert_eq!(time.as_millis(), 1599);
        // Of each 16 names, 12 are distinguished from each other and from the rest.
        assert_eq!(shares.forgotten(), 1300 - MOST_CHANGES as u64);
    }
}
