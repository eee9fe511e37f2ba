//! Filling packets, and what became of them.

use core::ops::Range;

use pathmark_cc::Instant;

use super::{
    SentFrames, StreamEvent, StreamId, Streams, account::STREAM_FLOOR, record::Turn, sent::Sent,
};
use crate::wire::{
    WriteError, Writer,
    frame::{Fit, StreamHeader},
};

/// Packets that take one stream after the other: about as much as a receiver keeps that is as short
/// of memory as can be.
const IN_ORDER: u8 = 32;

/// Acknowledged data of one stream, in adjacent pieces: see [`Streams::gather_acked`].
#[derive(Debug, Default)]
#[must_use = "what is in it has to be settled"]
pub struct AckedRun(Option<(StreamId, Range<u64>, bool)>);

impl AckedRun {
    /// Takes in data just before or behind what is there.
    #[inline]
    fn extend(&mut self, id: StreamId, range: &Range<u64>, fin: bool) -> bool {
        match &mut self.0 {
            Some((stream, held, last)) if *stream == id => {
                // An ACK is read from its largest packet down.
                if range.end == held.start {
                    held.start = range.start;
                } else if range.start == held.end {
                    held.end = range.end;
                } else {
                    return false;
                }
                *last |= fin;
                true
            }
            _ => false,
        }
    }
}

impl Streams {
    /// True if [`write_frames`](Self::write_frames) would write something into an empty packet.
    pub fn wants_to_send(&mut self) -> bool {
        self.ready.is_some()
            || self.connection_frame_due()
            || self.first_control().is_some()
            || self.first_sender().is_some()
    }

    /// Fills the rest of a packet: frames that steer first, then data by priority and in turn, one
    /// packet's worth at a time.
    ///
    /// A STREAM frame without a length is written only where it ends at the writer's limit, so
    /// whatever fits after this call may follow. All frames are ack-eliciting.
    pub fn write_frames(&mut self, now: Instant, w: &mut Writer<'_>) -> SentFrames {
        self.write_some(now, w, usize::MAX)
    }

    /// The same with one STREAM frame at most. A peer that is short of memory acknowledges no
    /// packet in which there is data beyond a gap, whatever else it took from it: alone, data that
    /// it waits for is acknowledged.
    pub fn write_one_frame(&mut self, now: Instant, w: &mut Writer<'_>) -> SentFrames {
        self.write_some(now, w, 1)
    }

    fn write_some(&mut self, now: Instant, w: &mut Writer<'_>, most: usize) -> SentFrames {
        let mut sent = SentFrames::default();
        // A frame that does not fit stays due; smaller ones behind it wait for the next packet with
        // it.
        let fits = self
            .write_connection_frames(now, w, &mut sent)
            .and_then(|()| self.write_stream_control(now, w, &mut sent))
            .is_ok();
        if fits {
            self.write_data(w, &mut sent, most);
        }
        sent
    }

    /// The packet was acknowledged.
    pub fn on_acked(&mut self, frames: &SentFrames) {
        let mut run = AckedRun::default();
        self.gather_acked(frames, &mut run);
        self.settle_acked(&mut run);
    }

    /// The same for one of many packets that one ACK acknowledges: what follows each other in a
    /// stream is put together in `run`, for [`settle_acked`](Self::settle_acked) to tell at once.
    pub fn gather_acked(&mut self, frames: &SentFrames, run: &mut AckedRun) {
        for frame in frames.iter() {
            match frame {
                Sent::Data {
                    id,
                    offset,
                    len,
                    fin,
                    ..
                } => {
                    let range = offset..offset.saturating_add(len.into());
                    if !run.extend(id, &range, fin) {
                        self.settle_acked(run);
                        run.0 = Some((id, range, fin));
                    }
                }
                Sent::Reset(id) => {
                    let record = self.records.get_mut(&id);
                    if let Some(send) = record.and_then(|record| record.send.as_mut()) {
                        send.on_reset_acked();
                        self.events.push_back(StreamEvent::ResetAcked(id));
                        self.forget_if_done(id);
                    }
                }
                Sent::Stop(_) | Sent::MaxStreamData(_) | Sent::StreamDataBlocked(_) => {}
            }
        }
    }

    /// Nothing more of one ACK is to come.
    pub fn settle_acked(&mut self, run: &mut AckedRun) {
        if let Some((id, range, fin)) = run.0.take() {
            self.on_data_acked(id, range, fin);
            self.wake_writers();
        }
    }

    /// The packet was lost.
    pub fn on_lost(&mut self, frames: &SentFrames) {
        for frame in frames.iter() {
            if let Sent::Data {
                id,
                offset,
                len,
                fin,
                again,
            } = frame
            {
                let record = self.records.get_mut(&id);
                if let Some(send) = record.and_then(|record| record.send.as_mut()) {
                    let range = offset..offset.saturating_add(len.into());
                    if again {
                        send.on_lost_again(range, fin);
                    } else {
                        send.on_lost(range, fin);
                    }
                    self.settle_send(id);
                }
            } else {
                self.on_control_lost(frame);
            }
        }
        self.on_connection_frames_lost(frames.connection());
    }

    /// The first `most` bytes that the peer has not acknowledged are sent again, of each stream:
    /// whatever it waits for is there. The lowest stream goes first, and the others in turn: a
    /// reader of one stream after the other waits for the lowest, and a turn of many streams takes
    /// as many probes.
    pub fn repeat_first(&mut self, most: u64) {
        for id in self.sorted_ids() {
            let record = self.records.get_mut(&id);
            if let Some(send) = record.and_then(|record| record.send.as_mut()) {
                send.repeat_first(most);
                self.settle_send(id);
            }
        }
        self.schedule.lowest_first();
        self.ready = None;
    }

    /// The peer refused what it was sent, and has a place for some of it now. It may wait for the
    /// lowest stream alone, and have no place for what others send in turn: the next packets take
    /// one stream after the other. Where that brought nothing since the last time, all take turns.
    pub fn serve_lowest_first(&mut self) {
        self.in_order = 0;
        if core::mem::take(&mut self.progress) {
            self.in_order = IN_ORDER;
            self.schedule.sort();
            self.ready = None;
        }
    }

    fn on_data_acked(&mut self, id: StreamId, range: Range<u64>, fin: bool) {
        self.ready = None;
        self.progress = true;
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        let Some(send) = record.send.as_mut() else {
            return;
        };
        let acked = send.on_acked(range, fin);
        self.account.unacked = self.account.unacked.saturating_sub(acked);
        if record.writer_waits
            && send.unacked() <= STREAM_FLOOR / 2
            && send.useful(STREAM_FLOOR) > 0
        {
            record.writer_waits = false;
            self.events.push_back(StreamEvent::Writable(id));
        }
        if send.state() == super::SendState::DataRecvd {
            self.events.push_back(StreamEvent::Finished(id));
            self.forget_if_done(id);
        }
    }

    /// The stream whose turn it is to send data; others are taken off the schedule, or parked.
    pub(super) fn first_sender(&mut self) -> Option<StreamId> {
        if self.ready.is_none() {
            self.ready = self.find_sender();
        }
        self.ready
    }

    fn find_sender(&mut self) -> Option<StreamId> {
        while let Some(id) = self.schedule.first() {
            if let Some(record) = self.records.get_mut(&id) {
                let send = record.send.as_ref();
                if send.is_some_and(|send| may_send(send, &self.credit)) {
                    return Some(id);
                }
                let fresh = send.is_some_and(super::SendPart::has_fresh);
                record.turn = Turn::None;
                if fresh {
                    record.turn = Turn::Parked;
                    if !record.in_parked {
                        record.in_parked = true;
                        self.parked.push_back(id);
                    }
                    if self.credit.block() {
                        self.due.insert(super::ConnectionFrames::DATA_BLOCKED);
                    }
                }
            }
            self.schedule.pop();
        }
        None
    }

    /// True if a stream's data waits for the connection's credit.
    pub(super) fn any_parked(&mut self) -> bool {
        while let Some(id) = self.parked.front() {
            if let Some(record) = self.records.get_mut(id) {
                let send = record.send.as_ref();
                if record.turn == Turn::Parked && send.is_some_and(super::SendPart::has_fresh) {
                    return true;
                }
                record.in_parked = false;
            }
            self.parked.pop_front();
        }
        false
    }

    fn write_data(&mut self, w: &mut Writer<'_>, sent: &mut SentFrames, most: usize) {
        let (mut wrote, mut frames) = (None, 0);
        while let Some(id) = self.first_sender() {
            let again = wrote == Some(id) && w.remaining() > 0 && self.is_in(sent, id);
            if again || frames == most || !self.write_stream(id, w, sent).unwrap_or(false) {
                // The packet is full: who wrote into it last has had its turn.
                if wrote == Some(id) {
                    self.rotate(id);
                }
                return;
            }
            wrote = Some(id);
            frames += 1;
        }
    }

    /// True if the packet already holds what the stream is to send next. Data that goes in two
    /// packets is due again as soon as it is in the first.
    fn is_in(&self, sent: &SentFrames, stream: StreamId) -> bool {
        let send = self.records.get(&stream).and_then(|r| r.send.as_ref());
        let next = send.map(|send| send.next(u64::MAX).0);
        sent.iter().any(|frame| match frame {
            Sent::Data {
                id, offset, len, ..
            } => {
                let range = offset..offset.saturating_add(len.into());
                id == stream && next.is_some_and(|next| range.contains(&next))
            }
            _ => false,
        })
    }

    /// Behind its equals with it.
    fn rotate(&mut self, id: StreamId) {
        if self.in_order > 0 {
            self.in_order -= 1;
            return;
        }
        let send = self.records.get(&id).and_then(|r| r.send.as_ref());
        if let Some(send) = send
            && self.schedule.rotate(send.priority(), id)
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
    ) -> Result<bool, WriteError> {
        self.ready = None;
        let Some(send) = self.records.get_mut(&id).and_then(|r| r.send.as_mut()) else {
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
        self.account.retransmitted += (fit.len as u64).saturating_sub(piece.fresh);
        sent.push(Sent::Data {
            id,
            offset,
            len: u32::try_from(fit.len).unwrap_or(u32::MAX),
            fin: piece.fin,
            again: piece.fresh == 0,
        });
        let goes_on = may_send(send, &self.credit);
        self.settle_send(id);
        // It is still the first, and need not be looked for before the next packet.
        self.ready = goes_on.then_some(id);
        Ok(true)
    }
}

/// True if a stream has data that may leave: what was lost, or new data within the connection's
/// credit.
fn may_send(send: &super::SendPart, credit: &super::SendCredit) -> bool {
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
