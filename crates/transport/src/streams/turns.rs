//! Whose turn it is to send data, within the credit of the connection and of each stream.

use std::collections::VecDeque;

use super::{
    Schedule, SendCredit, SendPart, SentFrames, StreamId,
    account::mostly_gone,
    control::Control,
    record::{Record, Records, Turn, sorted_ids},
    sent::{ConnectionFrames, Sent},
};
use crate::wire::{
    Frame, WriteError, Writer,
    frame::{Fit, StreamHeader},
};

/// With less than this of the connection's credit, new data goes first where the peer's application
/// waits for it.
const LITTLE: u64 = 32 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The peer's credit, on all streams together.
    credit: SendCredit,
    /// DATA_BLOCKED is due.
    blocked_due: bool,
    schedule: Schedule,
    /// The stream whose turn it is to send data, if that is known: it is asked for several times
    /// for each packet. Forgotten whenever a stream's data, its place or the credit changes.
    ready: Option<StreamId>,
    /// The peer has named streams that its application waits for: what is left of the connection's
    /// credit is for these, and then for the lowest stream.
    prefers: bool,
    /// Streams whose data waits for the connection's credit alone.
    parked: VecDeque<StreamId>,
    /// Streams whose data waits for the peer's credit on that stream.
    stalled: usize,
    /// Bytes that were sent again, over all streams and times.
    retransmitted: u64,
}

impl Turns {
    /// Bytes that the peer still allows on all streams together.
    pub(crate) fn credit(&self) -> u64 {
        self.credit.available()
    }

    /// Bytes sent again so far, on all streams.
    pub(crate) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// About the sum of the weights of the streams whose data may leave.
    pub(crate) fn waiting(&self) -> usize {
        self.schedule.weight()
    }

    /// Puts a stream where its sending part belongs now: into the schedule, among the stalled, or
    /// nowhere.
    pub(super) fn settle(&mut self, id: StreamId, record: &mut Record, control: &mut Control) {
        self.ready = None;
        let Some(send) = record.send.as_mut() else {
            return;
        };
        let stalled = send.is_stalled();
        if stalled != record.stalled {
            record.stalled = stalled;
            if stalled {
                self.stalled += 1;
            } else {
                self.stalled = self.stalled.saturating_sub(1);
            }
        }
        let waits_for_credit = record.turn == Turn::Parked && !send.has_old();
        if !matches!(record.turn, Turn::Scheduled | Turn::Held)
            && !waits_for_credit
            && (send.has_old() || send.has_fresh())
        {
            record.turn = Turn::Scheduled;
            self.schedule.push_back(send.turn(), id);
        }
        if stalled && send.block() {
            record.due.data_blocked = true;
            control.push(id, record);
        }
    }

    /// A stream's data, or the stream itself, has changed.
    pub(super) fn on_change(&mut self) {
        self.ready = None;
    }

    /// MAX_DATA: streams that waited for it are scheduled again.
    pub(super) fn raise(&mut self, max: u64, records: &mut Records, control: &mut Control) {
        if !self.credit.raise(max) {
            return;
        }
        self.prefers = false;
        while let Some(id) = self.parked.pop_front() {
            let Some(record) = records.get_mut(&id) else {
                continue;
            };
            record.in_parked = false;
            if record.turn == Turn::Parked {
                record.turn = Turn::None;
                self.settle(id, record, control);
            }
        }
    }

    /// The peer allows a stream that it did not allow before.
    pub(super) fn release(&mut self, id: StreamId, records: &mut Records, control: &mut Control) {
        if let Some(record) = records.get_mut(&id)
            && record.turn == Turn::Held
        {
            record.turn = Turn::None;
            self.settle(id, record, control);
            control.push(id, record);
        }
    }

    /// No stream has a turn, and the peer allows `max` bytes on all together. The caller settles
    /// each stream after this.
    pub(super) fn start_over(&mut self, max: u64) {
        self.ready = None;
        self.credit = SendCredit::new(max);
        self.blocked_due = false;
        self.schedule = Schedule::default();
        self.parked.clear();
    }

    /// True if [`next`](Self::next) is known to have a stream.
    #[inline]
    pub(super) const fn is_known(&self) -> bool {
        self.ready.is_some()
    }

    /// The stream whose turn it is to send data; others are taken off the schedule, or parked.
    pub(super) fn next(&mut self, records: &mut Records) -> Option<StreamId> {
        if self.ready.is_none() {
            self.ready = self.find(records);
        }
        self.ready
    }

    fn find(&mut self, records: &mut Records) -> Option<StreamId> {
        while let Some(id) = self.schedule.first() {
            if let Some(record) = records.get_mut(&id) {
                let send = record.send.as_ref();
                if send.is_some_and(|send| may_send(send, &self.credit)) {
                    return Some(id);
                }
                let fresh = send.is_some_and(SendPart::has_fresh);
                record.turn = Turn::None;
                if fresh {
                    record.turn = Turn::Parked;
                    if !record.in_parked {
                        record.in_parked = true;
                        self.parked.push_back(id);
                    }
                    self.blocked_due |= self.credit.block();
                }
            }
            self.schedule.pop();
        }
        None
    }

    /// True if a stream's data waits for the peer's credit.
    pub(super) fn wait_for_credit(&mut self, records: &mut Records) -> bool {
        self.any_parked(records) || self.stalled > 0
    }

    fn any_parked(&mut self, records: &mut Records) -> bool {
        while let Some(id) = self.parked.front() {
            if let Some(record) = records.get_mut(id) {
                let send = record.send.as_ref();
                if record.turn == Turn::Parked && send.is_some_and(SendPart::has_fresh) {
                    return true;
                }
                record.in_parked = false;
            }
            self.parked.pop_front();
        }
        false
    }

    /// True if DATA_BLOCKED is due.
    pub(super) const fn has_frame(&self) -> bool {
        self.blocked_due
    }

    /// Writes it, if it fits and still holds.
    pub(super) fn write_frame(
        &mut self,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        if self.blocked_due {
            if self.credit.is_blocked() {
                Frame::DataBlocked(self.credit.limit()).encode(w)?;
                sent.insert(ConnectionFrames::DATA_BLOCKED);
            }
            self.blocked_due = false;
        }
        Ok(())
    }

    /// The packet with these frames was lost.
    pub(super) fn on_lost(&mut self, lost: ConnectionFrames) {
        let blocked = lost.contains(ConnectionFrames::DATA_BLOCKED);
        self.blocked_due |= blocked && self.credit.is_blocked();
    }

    /// Fills a packet, by priority and in turn, one packet's worth at a time.
    pub(super) fn write(
        &mut self,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
        records: &mut Records,
        control: &mut Control,
    ) {
        let mut wrote = None;
        while let Some(id) = self.next(records) {
            let again = wrote == Some(id) && w.remaining() > 0 && is_in(sent, id, records);
            if again
                || !self
                    .write_stream(id, w, sent, records, control)
                    .unwrap_or(false)
            {
                // The packet is full: who wrote into it last has had its turn.
                if wrote == Some(id) {
                    self.rotate(id, records);
                }
                return;
            }
            wrote = Some(id);
        }
    }

    /// Behind its equals with it.
    fn rotate(&mut self, id: StreamId, records: &Records) {
        if self.prefers && self.credit.available() < LITTLE {
            return;
        }
        let send = records.get(&id).and_then(|r| r.send.as_ref());
        if let Some(send) = send
            && self.schedule.rotate(send.turn(), id)
        {
            self.ready = None;
        }
    }

    /// Writes one STREAM frame; false if it does not fit.
    fn write_stream(
        &mut self,
        id: StreamId,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
        records: &mut Records,
        control: &mut Control,
    ) -> Result<bool, WriteError> {
        self.ready = None;
        let Some(record) = records.get_mut(&id) else {
            return Ok(false);
        };
        let Some(send) = record.send.as_mut() else {
            return Ok(false);
        };
        let credit = self.credit.available();
        let (offset, available) = send.next(credit);
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        let mut header = StreamHeader {
            id,
            offset,
            fin: false,
        };
        let Some(fit) = fit(&header, w.remaining(), available) else {
            return Ok(false);
        };
        let Some(piece) = send.take(fit.len as u64, credit) else {
            return Ok(false);
        };
        header.fin = piece.fin;
        let written = w.all_or_nothing(|w| {
            header.encode(w, fit)?;
            let mut data = Ok(());
            send.read(piece.range.clone(), |bytes| {
                data = data.and_then(|()| w.put_slice(bytes));
            });
            data
        });
        self.credit.consume(piece.fresh);
        if let Err(error) = written {
            send.on_lost(piece.range, piece.fin);
            return Err(error);
        }
        self.retransmitted += (fit.len as u64).saturating_sub(piece.fresh);
        sent.push(Sent::Data {
            id,
            offset,
            len: u32::try_from(fit.len).unwrap_or(u32::MAX),
            fin: piece.fin,
            again: piece.fresh == 0,
        });
        let goes_on = may_send(send, &self.credit);
        self.settle(id, record, control);
        // It is still the first, and need not be looked for before the next packet.
        self.ready = goes_on.then_some(id);
        Ok(true)
    }

    /// The first `most` bytes that the peer has not acknowledged are sent again, of each stream:
    /// whatever it waits for is there. The lowest stream goes first.
    pub(super) fn repeat_first(&mut self, most: u64, records: &mut Records, control: &mut Control) {
        for id in sorted_ids(records) {
            if let Some(record) = records.get_mut(&id)
                && let Some(send) = record.send.as_mut()
            {
                send.repeat_first(most);
                self.settle(id, record, control);
            }
        }
        self.schedule.sort();
        self.ready = None;
    }

    /// The peer allows more on a stream, perhaps no more than before. While it allows little on all
    /// streams together, that stream goes first: the peer's application waits for its data, and
    /// others would use up the rest. The lowest goes next, for readers of one stream after the
    /// other.
    pub(super) fn prefer(&mut self, id: StreamId) {
        if self.credit.available() >= LITTLE {
            return;
        }
        if !core::mem::replace(&mut self.prefers, true) {
            self.schedule.sort();
        }
        self.schedule.move_to_front(id);
        self.ready = None;
    }

    /// Drops streams that are gone, once they are most of a queue.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        self.schedule.forget_gone(live, &is_live);
        if mostly_gone(self.parked.len(), live) {
            self.parked.retain(is_live);
        }
    }

    /// Entries of the schedule, and of the queue of those that wait for the connection's credit.
    #[cfg(test)]
    pub(super) fn queued(&self) -> [usize; 2] {
        [self.schedule.len(), self.parked.len()]
    }
}

/// True if the packet already holds what the stream is to send next. Data that goes in two packets
/// is due again as soon as it is in the first.
fn is_in(sent: &SentFrames, id: StreamId, records: &Records) -> bool {
    let send = records.get(&id).and_then(|r| r.send.as_ref());
    send.is_some_and(|send| sent.has_data(id, send.next(u64::MAX).0))
}

/// True if a stream has data that may leave: what was lost, or new data within the connection's
/// credit.
fn may_send(send: &SendPart, credit: &SendCredit) -> bool {
    send.has_old() || (send.has_fresh() && credit.available() > 0)
}

/// How much data goes into a frame of at most `room` bytes. Without a length only if the frame then
/// ends where the room does: behind such a frame nothing may follow.
fn fit(header: &StreamHeader, room: usize, available: usize) -> Option<Fit> {
    let fit = header.fit(room, available)?;
    if fit.explicit_len || header.len(None) + fit.len == room {
        return Some(fit);
    }
    // All that is available would leave a byte or two: give the length, and leave the last bytes
    // for later.
    let len = room.checked_sub(header.len(Some(available)))?;
    (len > 0).then_some(Fit {
        len,
        explicit_len: true,
    })
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
