//! How many streams each side may open (RFC 9000 §4.6) and which ids were opened, using only
//! counters.

use crate::wire::StreamId;

/// A stream beyond the limit: STREAM_LIMIT_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more streams than were allowed")]
pub struct StreamLimitExceeded;

/// Streams of one direction that this side opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalStreams {
    opened: u64,
    /// The peer's limit.
    max: u64,
    /// Whether the application wanted to open a stream beyond this limit.
    blocked: bool,
    /// The limit for which a STREAMS_BLOCKED frame is due or was sent.
    blocked_at: Option<u64>,
}

impl LocalStreams {
    /// Returns the index of a new stream, or `None` at the limit.
    pub fn open(&mut self) -> Option<u64> {
        // [9000 4.6 own-streams]
        if self.opened >= self.max {
            self.blocked = true;
            return None;
        }
        // [9000 2.1 no-reuse]
        let index = self.opened;
        self.opened += 1;
        Some(index)
    }

    /// Returns the number of streams opened so far.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns the peer's limit.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns true while the application waits to open a stream.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Records that the application no longer waits to open a stream.
    pub fn give_up(&mut self) {
        self.blocked = self.opened > self.max;
    }

    /// Raises the limit to the peer's `max`. Returns true if a waiting application can now open
    /// a stream.
    pub fn raise(&mut self, max: u64) -> bool {
        // [9000 4.6 streams-never-fall]
        if max <= self.max {
            return false;
        }
        self.max = max.min(StreamId::MAX_STREAMS);
        self.blocked_at = None;
        let blocked = core::mem::take(&mut self.blocked);
        // Possible only after `start_over`.
        self.blocked = self.opened > self.max;
        blocked
    }

    /// Replaces the limit by `max`, which may be lower. Returns true if a waiting application
    /// can now open a stream.
    pub fn start_over(&mut self, max: u64) -> bool {
        self.max = max.min(StreamId::MAX_STREAMS);
        self.blocked_at = None;
        if self.opened < self.max {
            return core::mem::take(&mut self.blocked);
        }
        self.blocked |= self.opened > self.max;
        false
    }

    /// Returns true if a STREAMS_BLOCKED frame is due, because the application waits and none
    /// was sent for this limit.
    pub fn block_due(&self) -> bool {
        self.blocked && self.blocked_at != Some(self.max)
    }

    /// Returns the limit for a STREAMS_BLOCKED frame that is sent now.
    pub fn announce_blocked(&mut self) -> u64 {
        self.blocked_at = Some(self.max);
        self.max
    }

    /// Records that the frame was lost.
    pub fn on_blocked_lost(&mut self) {
        self.blocked_at = None;
    }
}

/// Streams of one direction that the peer opens.
#[derive(Clone, Copy, Debug)]
pub struct RemoteStreams {
    /// One more than the highest index seen.
    opened: u64,
    /// The next index for the application to accept.
    accepted: u64,
    /// Streams that are done and removed.
    closed: u64,
    /// How many may be open at once.
    concurrent: u64,
    /// The highest limit announced.
    promised: u64,
    /// The peer reported that it is blocked, so any additional streams should be announced.
    peer_waits: bool,
}

impl RemoteStreams {
    /// Allows `concurrent` streams to be open at once, as announced in the transport
    /// parameters.
    pub fn new(concurrent: u64) -> Self {
        let concurrent = concurrent.min(StreamId::MAX_STREAMS);
        Self {
            opened: 0,
            accepted: 0,
            closed: 0,
            concurrent,
            promised: concurrent,
            peer_waits: false,
        }
    }

    /// Records that the peer used `index`. Returns the indices that this opens, including all
    /// lower indices (RFC 9000 §2.1).
    ///
    /// # Errors
    /// [`StreamLimitExceeded`] if the index isn't below the limit.
    pub fn on_index(&mut self, index: u64) -> Result<core::ops::Range<u64>, StreamLimitExceeded> {
        // [9000 4.6 peers-streams]
        if index >= self.promised {
            return Err(StreamLimitExceeded);
        }
        let first = self.opened;
        // [9000 3.2 lower-streams-first]
        self.opened = first.max(index + 1);
        Ok(first..self.opened)
    }

    /// Returns the next stream for the application.
    pub fn accept(&mut self) -> Option<u64> {
        let index = self.accepted;
        (index < self.opened).then(|| {
            self.accepted += 1;
            index
        })
    }

    /// Records that a stream is done on both sides.
    pub fn on_closed(&mut self) {
        self.closed += 1;
    }

    /// Returns the number of open streams.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }

    /// Sets how many may be open at once. A lower number takes effect as streams close.
    pub fn set_concurrent(&mut self, concurrent: u64) {
        self.concurrent = concurrent.min(StreamId::MAX_STREAMS);
    }

    /// Records that the peer reported being blocked at `limit`.
    pub fn on_peer_blocked(&mut self, limit: u64) {
        self.peer_waits |= limit >= self.promised;
    }

    /// Returns true if a new limit should be sent, because an eighth of the streams have closed
    /// or the peer waits.
    pub fn update_due(&self) -> bool {
        let more = self.next_promise() - self.promised;
        // [9000 4.6 streams-unasked]
        more > 0 && (self.peer_waits || more >= self.concurrent / 8)
    }

    /// Returns the limit to announce now.
    pub fn announce(&mut self) -> u64 {
        self.promised = self.next_promise();
        self.peer_waits = false;
        self.promised
    }

    fn next_promise(&self) -> u64 {
        let limit = self.closed.saturating_add(self.concurrent);
        limit.min(StreamId::MAX_STREAMS).max(self.promised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_waits_for_the_peer_and_complains_once_per_limit() {
        // [9000 2.1 no-reuse] [9000 4.6 own-streams] [9000 4.6 streams-never-fall]
        let mut local = LocalStreams::default();
        assert_eq!(local.open(), None);
        assert!(local.block_due());
        assert_eq!(local.announce_blocked(), 0);
        assert_eq!(local.open(), None);
        assert!(!local.block_due());
        local.on_blocked_lost();
        assert!(local.block_due());
        assert!(local.raise(2) && !local.raise(1) && !local.block_due());
        assert_eq!(local.open(), Some(0));
        assert_eq!(local.open(), Some(1));
        assert_eq!(local.open(), None);
        assert!(local.block_due());
        assert!(local.raise(u64::MAX));
        assert_eq!(local.max(), StreamId::MAX_STREAMS);
    }

    /// The new limit may be lower than the one under which streams were opened.
    #[test]
    fn a_lower_limit_in_its_place_holds_up_what_is_open_beyond() {
        let mut local = LocalStreams::default();
        local.raise(3);
        let opened = core::iter::from_fn(|| local.open()).count() as u64;
        assert_eq!((opened, local.opened()), (3, 3));
        assert_eq!(local.announce_blocked(), 3);
        assert!(!local.start_over(1));
        assert_eq!((local.max(), local.block_due()), (1, true));
        assert_eq!((local.announce_blocked(), local.block_due()), (1, false));
        // A slightly higher limit isn't sufficient and is reported again; one for all open
        // streams is.
        assert!(local.raise(2) && local.block_due());
        assert!(local.raise(3) && !local.block_due());
        assert!(!local.raise(3) && !local.raise(4));
        assert_eq!((local.open(), local.open()), (Some(3), None));
        // A waiting opener keeps waiting, and gets an event if there is room immediately.
        assert!(!local.start_over(4) && local.block_due());
        assert!(local.raise(5) && local.open() == Some(4));
        assert!(!local.start_over(5) && !local.block_due());
        assert!(!local.start_over(6) && local.open() == Some(5));
        assert!(local.open().is_none() && local.start_over(u64::MAX));
        assert_eq!(local.max(), StreamId::MAX_STREAMS);
        assert!(!local.block_due());
    }

    /// RFC 9001 §4.6.2: streams that exceed a server's lower limit wait for it.
    #[test]
    fn streams_beyond_a_lower_limit_are_reported_though_none_waits_to_be_opened() {
        let mut local = LocalStreams::default();
        local.raise(2);
        while local.opened() < 2 {
            local.open();
        }
        assert!(!local.start_over(2) && !local.block_due());
        assert!(!local.start_over(1) && local.block_due());
    }

    #[test]
    fn a_limit_is_reported_again_after_each_raise() {
        let mut local = LocalStreams::default();
        for limit in 1..4 {
            assert_eq!(local.open(), None);
            assert!(local.block_due());
            assert_eq!(local.announce_blocked(), limit - 1);
            assert!(!local.raise(limit - 1), "nothing new");
            assert!(local.raise(limit));
            assert_eq!(local.open(), Some(limit - 1));
        }
    }

    #[test]
    fn how_many_are_open_may_be_changed() {
        let mut remote = RemoteStreams::new(8);
        assert_eq!(remote.on_index(7), Ok(0..8));
        remote.on_closed();
        assert_eq!(remote.open(), 7);
        remote.set_concurrent(10);
        remote.on_peer_blocked(8);
        assert!(remote.update_due());
        assert_eq!((remote.announce(), remote.update_due()), (11, false));
        // The report was answered, so one more stream isn't worth a frame immediately.
        remote.set_concurrent(80);
        remote.announce();
        remote.on_closed();
        assert!(!remote.update_due());
        // Promised credit is never revoked, and nothing is announced meanwhile.
        remote.set_concurrent(0);
        assert!(!remote.update_due());
        assert_eq!(remote.announce(), 81);
        remote.on_peer_blocked(81);
        assert!(!remote.update_due());
        remote.set_concurrent(u64::MAX);
        remote.on_closed();
        assert_eq!(remote.announce(), StreamId::MAX_STREAMS);
    }

    #[test]
    fn an_index_opens_all_below_it_up_to_the_limit() {
        let mut remote = RemoteStreams::new(8);
        assert_eq!(remote.on_index(2), Ok(0..3));
        assert_eq!(remote.on_index(1), Ok(3..3));
        assert_eq!(remote.on_index(8), Err(StreamLimitExceeded));
        assert_eq!(remote.on_index(7), Ok(3..8));
        assert_eq!((0..9).map_while(|_| remote.accept()).count(), 8);
        assert_eq!(remote.open(), 8);
    }

    #[test]
    fn closed_streams_make_room() {
        // [9000 4.6 streams-unasked]
        let mut remote = RemoteStreams::new(80);
        assert_eq!(remote.on_index(79), Ok(0..80));
        for _ in 0..9 {
            remote.on_closed();
        }
        assert!(!remote.update_due());
        remote.on_peer_blocked(79);
        assert!(!remote.update_due(), "an old complaint");
        remote.on_peer_blocked(80);
        assert!(remote.update_due());
        assert_eq!(remote.announce(), 89);
        for _ in 0..10 {
            remote.on_closed();
        }
        assert!(remote.update_due());
        assert_eq!(remote.announce(), 99);
        assert!(!remote.update_due());
        assert_eq!(remote.on_index(98), Ok(80..99));
    }

    #[test]
    fn ids_end_at_two_to_the_sixty() {
        let mut remote = RemoteStreams::new(u64::MAX);
        assert_eq!(remote.announce(), StreamId::MAX_STREAMS);
        let beyond = remote.on_index(StreamId::MAX_STREAMS);
        assert_eq!(beyond, Err(StreamLimitExceeded));
    }
}
