//! Selects the stream that sends next, within the credit of the connection and of each stream.

use std::collections::VecDeque;

use super::account::mostly_gone;
use super::control::Control;
use super::sent::{ConnectionFrames, Sent};
use super::{
    Record, Records, Schedule, SendCredit, SendPart, SentFrames, StreamId, Turn, sorted_ids,
};
use crate::wire::{
    Frame, WriteError, Writer,
    frame::{Fit, StreamHeader},
};

/// Below this connection credit, new data is sent first on streams for which the peer's
/// application waits.
const LITTLE: u64 = 32 * 1024;

/// Which streams have data to send, and what they wait for.
///
/// [`settle`](Self::settle) puts each stream into the schedule if its own credit allows it to send,
/// or counts it as stalled until MAX_STREAM_DATA arrives. If the connection's credit is used up, a
/// stream whose turn it is leaves the schedule and is parked until MAX_DATA arrives.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// The peer's credit for all streams together.
    credit: SendCredit,
    blocked_due: bool,
    schedule: Schedule,
    /// The stream whose turn it is, if known. This is a cache because it is needed several
    /// times per packet. It is cleared whenever a stream's data, its position or the credit
    /// changes.
    ready: Option<StreamId>,
    /// Whether the peer has named streams for which its application waits. These streams get
    /// the rest of the connection's credit, followed by the lowest stream.
    prefers: bool,
    /// Streams whose data waits only for the connection's credit.
    parked: VecDeque<StreamId>,
    /// Number of streams whose data waits for the peer's credit on that stream.
    stalled: usize,
    /// Retransmitted bytes, over all streams.
    retransmitted: u64,
}

impl Turns {
    /// Returns the bytes that the peer still allows on all streams together.
    pub(crate) fn credit(&self) -> u64 {
        self.credit.available()
    }

    pub(crate) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Returns approximately the sum of the weights of the streams that can send data.
    pub(crate) fn waiting(&self) -> usize {
        self.schedule.weight()
    }

    /// Puts a stream where its sending part belongs: in the schedule, among the stalled
    /// streams, or nowhere.
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

    pub(super) fn on_change(&mut self) {
        self.ready = None;
    }

    /// Processes MAX_DATA by rescheduling the streams that waited for it.
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

    /// Schedules a stream that the peer didn't allow before.
    pub(super) fn release(&mut self, id: StreamId, records: &mut Records, control: &mut Control) {
        if let Some(record) = records.get_mut(&id)
            && record.turn == Turn::Held
        {
            record.turn = Turn::None;
            self.settle(id, record, control);
            control.push(id, record);
        }
    }

    /// Clears all turns, and sets the credit for all streams to `max` bytes. The caller must
    /// settle each stream afterwards.
    pub(super) fn start_over(&mut self, max: u64) {
        self.ready = None;
        self.credit = SendCredit::new(max);
        self.blocked_due = false;
        self.schedule = Schedule::default();
        self.parked.clear();
    }

    /// Returns true if [`next`](Self::next) is known to return a stream.
    pub(super) const fn is_known(&self) -> bool {
        self.ready.is_some()
    }

    /// Returns the stream whose turn it is to send data. Streams in front that can't send are
    /// removed from the schedule or parked.
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

    /// Returns true if a stream's data waits for the peer's credit.
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

    pub(super) const fn has_frame(&self) -> bool {
        self.blocked_due
    }

    /// Writes DATA_BLOCKED if it is due, fits, and is still accurate.
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

    pub(super) fn on_lost(&mut self, lost: ConnectionFrames) {
        let blocked = lost.contains(ConnectionFrames::DATA_BLOCKED);
        self.blocked_due |= blocked && self.credit.is_blocked();
    }

    /// Fills a packet by priority and in turn, so that each stream sends a packet's worth at a
    /// time.
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
                // The packet is full, so the stream that wrote last has had its turn.
                if wrote == Some(id) {
                    self.rotate(id, records);
                }
                return;
            }
            wrote = Some(id);
        }
    }

    /// Moves a stream behind the others of its priority.
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

    /// Writes a STREAM frame. Returns false if it doesn't fit.
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
        // It is still the first stream, so the next packet need not search again.
        self.ready = goes_on.then_some(id);
        Ok(true)
    }

    /// Sends the first `most` unacknowledged bytes of each stream again, because they include
    /// all data for which the peer waits. The lowest stream is sent first.
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

    /// Processes MAX_STREAM_DATA for a stream, even if it doesn't raise the limit. While the
    /// connection's credit is low, this stream is sent first, because the peer's application
    /// waits for its data and others would use up the rest. The lowest stream is next, for
    /// applications that read one stream after the other.
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

    /// Removes streams that no longer exist once they make up most of a queue.
    pub(super) fn forget_gone(&mut self, live: usize, is_live: impl Fn(&StreamId) -> bool) {
        self.schedule.forget_gone(live, &is_live);
        if mostly_gone(self.parked.len(), live) {
            self.parked.retain(is_live);
        }
    }

    /// Returns the lengths of the schedule and of the queue of parked streams.
    #[cfg(test)]
    pub(super) fn queued(&self) -> [usize; 2] {
        [self.schedule.len(), self.parked.len()]
    }
}

/// Returns true if the packet already contains the data that the stream would send next. Data
/// that is sent in two packets is due again as soon as it is in the first one.
fn is_in(sent: &SentFrames, id: StreamId, records: &Records) -> bool {
    let send = records.get(&id).and_then(|r| r.send.as_ref());
    send.is_some_and(|send| sent.has_data(id, send.next(u64::MAX).0))
}

/// Returns true if a stream can send data: either lost data, or new data within the
/// connection's credit.
fn may_send(send: &SendPart, credit: &SendCredit) -> bool {
    send.has_old() || (send.has_fresh() && credit.available() > 0)
}

/// Chooses how much data to write into a frame of at most `room` bytes. The length is omitted
/// only if the frame ends exactly where the room does, because no other frame may follow it
/// then.
fn fit(header: &StreamHeader, room: usize, available: usize) -> Option<Fit> {
    let fit = header.fit(room, available)?;
    if fit.explicit_len || header.len(None) + fit.len == room {
        return Some(fit);
    }
    // Sending everything without a length would leave a byte or two unused, so write the length
    // and defer the last bytes.
    let len = room.checked_sub(header.len(Some(available)))?;
    (len > 0).then_some(Fit {
        len,
        explicit_len: true,
    })
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
