//! How much all streams together may buffer for sending, and the writers that wait for room.

use core::ops::Range;
use std::collections::VecDeque;

use super::{
    SendPart, SendState, StreamEvent, StreamId, WriteError,
    event::Events,
    record::{Record, Records},
};

/// Buffer in congestion windows: one in flight, one to go on with. Bytes acknowledged behind a hole
/// do not count, so loss needs no more.
const WINDOWS: u64 = 2;

/// Buffer in addition to that: what the application may be ahead while the window is small.
const AHEAD: u64 = 128 * 1024;

/// Each stream may buffer this much however full the rest is: a stream that waits for its peer's
/// credit cannot keep others from sending.
const STREAM_FLOOR: u64 = 16 * 1024;

/// Entries of a queue that are worth no walk over it.
const FEW_ENTRIES: usize = 32;

/// True if most of a queue's `entries` are of streams that are gone, where `live` are there and
/// each stands in it once. Dropping all of them costs at most as much as adding them did.
pub(super) const fn mostly_gone(entries: usize, live: usize) -> bool {
    entries > FEW_ENTRIES && entries / 2 > live
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SendAccount {
    /// Bytes written and not acknowledged.
    unacked: u64,
    limit: u64,
    max: u64,
    /// Bytes with which flows begin that were written since they were last taken.
    starts: u64,
    /// Streams whose writers wait for room.
    waiting: VecDeque<StreamId>,
}

impl SendAccount {
    pub(super) fn new(max: u64) -> Self {
        let mut account = Self {
            unacked: 0,
            limit: 0,
            max,
            starts: 0,
            waiting: VecDeque::new(),
        };
        account.on_congestion_window(0);
        account
    }

    /// Bytes written and not acknowledged, on all streams.
    pub(crate) fn unacked(&self) -> u64 {
        self.unacked
    }

    /// Bytes with which [flows](super::Streams::start_flow) begin, since the last call.
    #[inline]
    pub(crate) fn take_starts(&mut self) -> u64 {
        core::mem::take(&mut self.starts)
    }

    /// The limit when the window knows no bound.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// The greatest limit from now on.
    pub(super) fn set_max(&mut self, bytes: u64) {
        self.max = bytes;
        self.limit = self.limit.min(bytes);
    }

    /// The limit follows the congestion window.
    pub(super) fn on_congestion_window(&mut self, bytes: u64) {
        let limit = bytes.saturating_mul(WINDOWS).saturating_add(AHEAD);
        self.limit = limit.min(self.max);
    }

    /// True unless it looks as if the application had nothing more than what is buffered: a writer
    /// waits, or the buffer is so full that none needs to have written the rest yet.
    pub(super) fn has_more(&self) -> bool {
        self.writers_wait() || self.unacked > self.limit / 2
    }

    pub(super) fn writers_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes that a stream which holds `own` may add.
    fn room(&self, own: u64) -> u64 {
        let shared = self.limit.saturating_sub(self.unacked);
        shared.max(STREAM_FLOOR.saturating_sub(own))
    }

    /// Puts as many of `wanted` bytes into a stream's buffer as there is room for, and returns how
    /// many: at least one, unless none are wanted. The writer waits after
    /// [`WriteError::Blocked`].
    pub(super) fn write(
        &mut self,
        (id, record): (StreamId, &mut Record),
        wanted: usize,
        put: impl FnOnce(&mut SendPart, usize),
    ) -> Result<usize, WriteError> {
        let send = record.send.as_mut().ok_or(WriteError::Closed)?;
        send.check_writable()?;
        let shared = self.room(send.unacked());
        let room = shared.min(send.useful(STREAM_FLOOR));
        if room == 0 && wanted > 0 {
            record.writer_waits = true;
            if shared == 0 && !record.in_waiting {
                record.in_waiting = true;
                self.waiting.push_back(id);
            }
            return Err(WriteError::Blocked);
        }
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(wanted);
        put(send, taken);
        self.unacked += taken as u64;
        self.starts += send.take_start(taken as u64);
        Ok(taken)
    }

    /// Data of a stream was acknowledged. True if that was the last of it: the sending part is
    /// done.
    pub(super) fn on_acked(
        &mut self,
        (id, record): (StreamId, &mut Record),
        range: Range<u64>,
        fin: bool,
        events: &mut Events,
    ) -> bool {
        let Some(send) = record.send.as_mut() else {
            return false;
        };
        let acked = send.on_acked(range, fin);
        self.unacked = self.unacked.saturating_sub(acked);
        if record.writer_waits
            && send.unacked() <= STREAM_FLOOR / 2
            && send.useful(STREAM_FLOOR) > 0
        {
            record.writer_waits = false;
            events.push(StreamEvent::Writable(id));
        }
        let done = send.state() == SendState::DataRecvd;
        if done {
            events.push(StreamEvent::Finished(id));
        }
        done
    }

    /// `bytes` were dropped with a stream that was reset.
    pub(super) fn on_dropped(&mut self, bytes: u64) {
        self.unacked = self.unacked.saturating_sub(bytes);
    }

    /// The peer lets us send up to `max` on a stream.
    pub(super) fn on_credit(
        &mut self,
        (id, record): (StreamId, &mut Record),
        max: u64,
        events: &mut Events,
    ) {
        let Some(send) = record.send.as_mut() else {
            return;
        };
        send.on_max_stream_data(max);
        let room = self.room(send.unacked());
        if record.writer_waits && room.min(send.useful(STREAM_FLOOR)) > 0 {
            record.writer_waits = false;
            events.push(StreamEvent::Writable(id));
        }
    }

    /// Tells writers that there is room, once there is enough of it to be worth their while: an
    /// eighth of the limit.
    pub(super) fn wake_writers(&mut self, records: &mut Records, events: &mut Events) {
        while self.unacked <= self.limit - self.limit / 8
            && let Some(id) = self.waiting.pop_front()
        {
            if let Some(record) = records.get_mut(&id) {
                record.in_waiting = false;
                // One that waits for the peer's credit as well is woken by that.
                let useful = record.send.as_ref().map_or(0, |s| s.useful(STREAM_FLOOR));
                if record.writer_waits && useful > 0 {
                    record.writer_waits = false;
                    events.push(StreamEvent::Writable(id));
                }
            }
        }
    }

    /// Drops streams that are gone, once they are most of those that wait.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        if mostly_gone(self.waiting.len(), live) {
            self.waiting.retain(is_live);
        }
    }

    /// Bytes that all streams together may buffer now.
    #[cfg(test)]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Entries of the queue of writers.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 2 * STREAM_FLOOR;

    fn id(n: u64) -> StreamId {
        StreamId::from_u64(n).unwrap()
    }

    /// Streams 0, 4 and so on, which may send `credit` bytes each.
    fn records(count: u64, credit: u64) -> Records {
        let record = || Box::new(Record::new(Some(SendPart::new(credit)), None));
        (0..count).map(|n| (id(4 * n), record())).collect()
    }

    fn write(
        account: &mut SendAccount,
        records: &mut Records,
        n: u64,
    ) -> Result<usize, WriteError> {
        let data = [7; 3 * STREAM_FLOOR as usize];
        let record = records.get_mut(&id(n)).unwrap();
        account.write((id(n), record), data.len(), |send, room| {
            send.write(&data[..room]);
            send.take(room as u64, u64::MAX);
        })
    }

    fn acked(account: &mut SendAccount, records: &mut Records, range: Range<u64>) -> Events {
        let mut events = Events::default();
        let record = records.get_mut(&id(0)).unwrap();
        assert!(!account.on_acked((id(0), record), range, false, &mut events));
        account.wake_writers(records, &mut events);
        events
    }

    #[test]
    fn each_stream_has_a_floor_and_writers_wait_in_one_place() {
        let mut account = SendAccount::new(LIMIT);
        let mut records = records(2, 1 << 20);
        assert_eq!(write(&mut account, &mut records, 0), Ok(LIMIT as usize));
        assert_eq!(
            write(&mut account, &mut records, 4),
            Ok(STREAM_FLOOR as usize)
        );
        assert!(!account.writers_wait() && account.has_more());
        for n in [0, 4, 0, 4] {
            let result = write(&mut account, &mut records, n);
            assert_eq!(result, Err(WriteError::Blocked));
        }
        assert_eq!(
            (account.queued(), account.unacked()),
            (2, LIMIT + STREAM_FLOOR)
        );
        // Nothing is wanted, so nothing is missing.
        let record = records.get_mut(&id(0)).unwrap();
        assert_eq!(
            account.write((id(0), record), 0, |_, room| assert_eq!(room, 0)),
            Ok(0)
        );
    }

    #[test]
    fn an_eighth_of_the_buffer_wakes_the_writers_in_turn() {
        let mut account = SendAccount::new(LIMIT);
        let mut records = records(3, 1 << 20);
        for n in [0, 4, 0, 4] {
            let _ = write(&mut account, &mut records, n);
        }
        let few = STREAM_FLOOR + LIMIT / 8 - 1;
        assert_eq!(acked(&mut account, &mut records, 0..few).pop(), None);
        let mut events = acked(&mut account, &mut records, few..few + 1);
        assert_eq!(events.pop(), Some(StreamEvent::Writable(id(0))));
        assert_eq!(events.pop(), Some(StreamEvent::Writable(id(4))));
        assert_eq!((events.pop(), account.queued()), (None, 0));
    }

    #[test]
    fn a_writer_without_the_peers_credit_is_woken_by_credit() {
        let mut account = SendAccount::new(LIMIT);
        let mut records = records(1, 0);
        // What is buffered ahead of credit.
        assert_eq!(
            write(&mut account, &mut records, 0),
            Ok(STREAM_FLOOR as usize)
        );
        assert_eq!(
            write(&mut account, &mut records, 0),
            Err(WriteError::Blocked)
        );
        assert_eq!(account.queued(), 0, "there is room for others");
        let mut events = Events::default();
        account.on_credit((id(0), records.get_mut(&id(0)).unwrap()), 0, &mut events);
        assert_eq!(events.pop(), None);
        account.on_credit((id(0), records.get_mut(&id(0)).unwrap()), 1, &mut events);
        assert_eq!(events.pop(), Some(StreamEvent::Writable(id(0))));
    }

    #[test]
    fn the_limit_follows_the_window_up_to_its_greatest() {
        let mut account = SendAccount::new(1 << 20);
        assert_eq!((account.limit(), account.max()), (AHEAD, 1 << 20));
        account.on_congestion_window(100_000);
        assert_eq!(account.limit(), AHEAD + 200_000);
        account.on_congestion_window(1 << 30);
        assert_eq!(account.limit(), 1 << 20);
        account.set_max(1000);
        assert_eq!((account.limit(), account.max()), (1000, 1000));
    }

    #[test]
    fn the_end_of_a_stream_is_reported_once_all_is_acknowledged() {
        let mut account = SendAccount::new(LIMIT);
        let mut records = records(1, 1 << 20);
        let record = records.get_mut(&id(0)).unwrap();
        let written = account.write((id(0), record), 9, |send, room| {
            send.write(&[1; 9][..room]);
            send.finish().unwrap();
            assert!(send.take(9, 9).unwrap().fin);
        });
        assert_eq!(written, Ok(9));
        let mut events = Events::default();
        assert!(!account.on_acked((id(0), record), 5..9, true, &mut events));
        assert_eq!((events.pop(), account.unacked()), (None, 5));
        assert!(account.on_acked((id(0), record), 0..5, false, &mut events));
        assert_eq!(events.pop(), Some(StreamEvent::Finished(id(0))));
        assert_eq!(account.unacked(), 0);
        // A reset drops the rest, and streams that are gone wait no longer.
        account.unacked = 3;
        account.on_dropped(7);
        account.waiting = (0..100).map(id).collect();
        account.forget_gone(1, |waiting| *waiting == id(0));
        assert_eq!((account.unacked(), account.queued()), (0, 1));
    }
}
