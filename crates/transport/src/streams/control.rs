//! Frames other than STREAM: which are due, and writing them.

use pathmark_cc::Instant;

use super::{
    Dir, SentFrames, StreamId, Streams,
    record::{Record, Turn},
    sent::{ConnectionFrames, Sent},
    slot,
};
use crate::wire::{
    Frame, WriteError, Writer,
    frame::{
        MaxStreamData, MaxStreams, ResetStream, StopSending, StreamDataBlocked, StreamsBlocked,
    },
};

impl Streams {
    /// A stream whose `due` was set stands in the queue once.
    pub(super) fn queue_control(&mut self, id: StreamId) {
        if let Some(record) = self.records.get_mut(&id)
            && record.due.any()
            && !record.in_control
            && record.turn != Turn::Held
        {
            record.in_control = true;
            self.control.push_back(id);
        }
    }

    /// The first stream with a frame due; others are taken off the queue.
    pub(super) fn first_control(&mut self) -> Option<StreamId> {
        while let Some(&id) = self.control.front() {
            if let Some(record) = self.records.get_mut(&id) {
                if record.drop_void() {
                    return Some(id);
                }
                record.in_control = false;
            }
            self.control.pop_front();
        }
        None
    }

    /// True if a frame of the connection as a whole is due.
    pub(super) fn connection_frame_due(&self) -> bool {
        !self.due.is_empty()
            || self.window.update_due()
            || self.remote.iter().any(super::RemoteStreams::update_due)
            || self.local.iter().any(super::LocalStreams::block_due)
    }

    /// Writes the frames of the connection as a whole that are due and fit.
    pub(super) fn write_connection_frames(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        use ConnectionFrames as F;
        if self.due.contains(F::MAX_DATA) || self.window.update_due() {
            room_for(w, 9)?;
            Frame::MaxData(self.window.announce(now, self.rtt)).encode(w)?;
            self.note(F::MAX_DATA, sent);
        }
        for dir in [Dir::Bi, Dir::Uni] {
            let (max_streams, streams_blocked) = F::of_streams(dir);
            if let Some(remote) = self.remote.get_mut(slot(dir))
                && (self.due.contains(max_streams) || remote.update_due())
            {
                room_for(w, 9)?;
                let max = remote.announce();
                Frame::MaxStreams(MaxStreams { dir, max }).encode(w)?;
                self.note(max_streams, sent);
            }
            if let Some(local) = self.local.get_mut(slot(dir))
                && local.block_due()
            {
                room_for(w, 9)?;
                let limit = local.announce_blocked();
                Frame::StreamsBlocked(StreamsBlocked { dir, limit }).encode(w)?;
                self.note(streams_blocked, sent);
            }
        }
        if self.due.contains(F::DATA_BLOCKED) {
            if self.credit.is_blocked() {
                Frame::DataBlocked(self.credit.limit()).encode(w)?;
                self.note(F::DATA_BLOCKED, sent);
            }
            self.due.remove(F::DATA_BLOCKED);
        }
        Ok(())
    }

    fn note(&mut self, frame: ConnectionFrames, sent: &mut SentFrames) {
        self.due.remove(frame);
        sent.insert(frame);
    }

    /// Writes the frames of single streams, other than STREAM, that are due and fit.
    pub(super) fn write_stream_control(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        sent: &mut SentFrames,
    ) -> Result<(), WriteError> {
        while let Some(id) = self.first_control() {
            let rtt = self.rtt;
            let Some(record) = self.records.get_mut(&id) else {
                continue;
            };
            let due = record.due;
            if due.reset
                && let Some((error_code, final_size)) =
                    record.send.as_ref().and_then(super::SendPart::reset_frame)
            {
                Frame::ResetStream(ResetStream {
                    id,
                    error_code,
                    final_size,
                })
                .encode(w)?;
                record.due.reset = false;
                sent.push(Sent::Reset(id));
            }
            if let Some(recv) = record.recv.as_mut() {
                if due.stop
                    && let Some(error_code) = recv.stop_frame()
                {
                    Frame::StopSending(StopSending { id, error_code }).encode(w)?;
                    record.due.stop = false;
                    sent.push(Sent::Stop(id));
                }
                if due.max_data {
                    room_for(w, 17)?;
                    let max = recv.window_mut().announce(now, rtt);
                    Frame::MaxStreamData(MaxStreamData { id, max }).encode(w)?;
                    record.due.max_data = false;
                    sent.push(Sent::MaxStreamData(id));
                }
            }
            if due.data_blocked
                && let Some(limit) = record.send.as_ref().and_then(super::SendPart::blocked_at)
            {
                Frame::StreamDataBlocked(StreamDataBlocked { id, limit }).encode(w)?;
                record.due.data_blocked = false;
                sent.push(Sent::StreamDataBlocked(id));
            }
        }
        Ok(())
    }

    /// Frames of a lost packet become due again where they still mean something.
    pub(super) fn on_control_lost(&mut self, frame: Sent) {
        let id = match frame {
            Sent::Data { .. } => return,
            Sent::Reset(id)
            | Sent::Stop(id)
            | Sent::MaxStreamData(id)
            | Sent::StreamDataBlocked(id) => id,
        };
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        match frame {
            Sent::Data { .. } => {}
            Sent::Reset(_) => record.due.reset = true,
            Sent::Stop(_) => record.due.stop = true,
            Sent::MaxStreamData(_) => record.due.max_data = true,
            Sent::StreamDataBlocked(_) => record.due.data_blocked = true,
        }
        record.drop_void();
        self.queue_control(id);
    }

    /// The same for frames of the connection as a whole.
    pub(super) fn on_connection_frames_lost(&mut self, lost: ConnectionFrames) {
        use ConnectionFrames as F;
        if lost.contains(F::MAX_DATA) {
            self.due.insert(F::MAX_DATA);
        }
        if lost.contains(F::DATA_BLOCKED) && self.credit.is_blocked() {
            self.due.insert(F::DATA_BLOCKED);
        }
        for dir in [Dir::Bi, Dir::Uni] {
            let (max_streams, streams_blocked) = F::of_streams(dir);
            if lost.contains(max_streams) {
                self.due.insert(max_streams);
            }
            if lost.contains(streams_blocked)
                && let Some(local) = self.local.get_mut(slot(dir))
            {
                local.on_blocked_lost();
            }
        }
    }
}

impl Record {
    /// Takes back what is due but has lost its meaning. True if anything is left.
    fn drop_void(&mut self) -> bool {
        let (send, recv) = (self.send.as_ref(), self.recv.as_ref());
        self.due.reset &= send.is_some_and(|send| send.reset_frame().is_some());
        self.due.data_blocked &= send.is_some_and(|send| send.blocked_at().is_some());
        self.due.stop &= recv.is_some_and(|recv| recv.stop_frame().is_some());
        self.due.max_data &= recv.is_some_and(super::RecvPart::wants_more);
        self.due.any()
    }
}

/// Checked before a value is announced that must then be sent.
fn room_for(w: &Writer<'_>, bytes: usize) -> Result<(), WriteError> {
    if w.remaining() < bytes {
        return Err(WriteError::NoRoom);
    }
    Ok(())
}
