//! Data beyond a gap that is taken although memory is short.
//!
//! A packet whose data is refused is not acknowledged. If all packets that arrive are of that kind,
//! their sender does not learn what was lost before them: it waits, its probes carry newer data,
//! and what the application waits for never comes. So where nothing was taken for some round trips,
//! what comes next beyond a gap is taken. Its ACK tells the sender of all losses before it. At most
//! [`FLOOR`] bytes and a packet are taken so while memory is short.

use super::memory::FLOOR;
use crate::{Duration, Instant};

/// The least time without data after which some is taken.
const QUIET: Duration = Duration::from_millis(10);
/// The same in round trips.
const QUIET_ROUNDS: u32 = 2;

/// What a piece counts beside its bytes: a tiny one takes memory too, and causes an ACK.
const PIECE: u64 = 1024;

/// What was taken beyond gaps.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// When data was taken last, for whatever reason.
    taken_at: Option<Instant>,
    /// When data beyond a gap was taken by this rule.
    beyond_at: Option<Instant>,
    /// How much of it while memory was short, bytes and [`PIECE`]s.
    counted: u64,
}

impl Beyond {
    /// True if `bytes` beyond a gap are to be taken; they count as taken then.
    pub(super) fn take(&mut self, now: Instant, rtt: Option<Duration>, bytes: usize) -> bool {
        let quiet = rtt.map_or(QUIET, |rtt| (rtt * QUIET_ROUNDS).max(QUIET));
        let was_quiet = self
            .taken_at
            .is_none_or(|at| now.saturating_since(at) >= quiet);
        // All that came at one time: a packet is acknowledged if all its frames are taken.
        let takes = (was_quiet || self.beyond_at == Some(now)) && self.counted < FLOOR;
        if takes {
            self.beyond_at = Some(now);
            self.counted = self.counted.saturating_add(bytes as u64 + PIECE);
        }
        takes
    }

    /// Data was taken.
    pub(super) fn on_taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// `bytes` became readable: gaps are closed, and what was taken beyond them may go.
    pub(super) fn on_progress(&mut self, bytes: u64) {
        self.counted = self.counted.saturating_sub(bytes);
    }

    /// Memory is not short.
    pub(super) fn on_plenty(&mut self) {
        self.counted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(20));

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    #[test]
    fn one_packet_is_taken_after_silence() {
        let mut beyond = Beyond::default();
        beyond.on_taken(at(0));
        assert!(!beyond.take(at(39), RTT, 500));
        assert!(beyond.take(at(40), RTT, 500));
        beyond.on_taken(at(40));
        // Another frame of the same packet.
        assert!(beyond.take(at(40), RTT, 500));
        assert!(!beyond.take(at(41), RTT, 500));
        // Before a round trip is known.
        assert!(!beyond.take(at(49), None, 500) && beyond.take(at(50), None, 500));
    }

    #[test]
    fn what_is_taken_while_memory_is_short_is_bounded() {
        let mut beyond = Beyond::default();
        for bytes in [1, 1000, 1024, 60_000] {
            let mut pieces = 0;
            for round in 0..1000 {
                if beyond.take(at(round * 100), RTT, bytes) {
                    beyond.on_taken(at(round * 100));
                    pieces += 1;
                }
            }
            assert_eq!(pieces, FLOOR.div_ceil(bytes as u64 + PIECE), "{bytes}");
            assert!(!beyond.take(at(1_000_000), RTT, bytes));
            beyond.on_plenty();
            assert!(beyond.take(at(1_000_000), RTT, bytes));
            beyond = Beyond::default();
        }
    }

    #[test]
    fn what_closes_gaps_makes_room_for_more_beyond_them() {
        let mut beyond = Beyond::default();
        while beyond.take(at(0), RTT, 1000) {}
        beyond.on_progress(3 * (1000 + PIECE));
        let taken = (0..10).filter(|_| beyond.take(at(0), RTT, 1000));
        assert_eq!(taken.count(), 3);
    }
}
