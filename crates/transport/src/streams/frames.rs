//! Calls for the connection: received frames, sent frames, and their fates.

use pathmark_cc::{Duration, Instant, Limit, Limits};

use super::account::{STREAM_FLOOR, SendAccount};
use super::control::Control;
use super::opening::Opening;
use super::receiving::Receiving;
use super::sent::{AckedRun, Sent};
use super::turns::Turns;
use super::{
    Dir, Events, PeerLimits, Records, SentFrames, Side, StreamEvent, StreamId, Streams,
    StreamsConfig, Turn, sorted_ids,
};
use crate::wire::{
    Frame, TransportError, Writer,
    frame::{Stream, types},
};

/// If the table has room for more streams than this, only the connection's credit is considered,
/// not each stream's credit.
const FEW: usize = 32;

/// Maximum number of streams whose readers are helped at a time.
const HINTS: usize = 16;

impl Streams {
    /// Creates a state without streams. The peer allows none until
    /// [`set_peer_limits`](Self::set_peer_limits) is called.
    pub fn new(side: Side, config: StreamsConfig) -> Self {
        Self {
            opening: Opening::new(side, config),
            account: SendAccount::new(config.max_send_buffer),
            turns: Turns::default(),
            receiving: Receiving::new(&config),
            control: Control::default(),
            records: Records::default(),
            events: Events::default(),
        }
    }

    /// Sets the limits from the peer's transport parameters. Limits only grow, so values
    /// remembered for 0-RTT may be set before.
    pub fn set_peer_limits(&mut self, limits: PeerLimits) {
        let (records, control) = (&mut self.records, &mut self.control);
        self.turns.raise(limits.max_data, records, control);
        self.opening.set_peer(limits, &mut self.events);
        for dir in [Dir::Bi, Dir::Uni] {
            while let Some(id) = self.opening.next_allowed(dir) {
                self.turns.release(id, records, control);
            }
        }
        for id in sorted_ids(records) {
            if let Some(record) = records.get_mut(&id) {
                let credit = self.opening.initial_credit(id);
                self.account
                    .on_credit((id, record), credit, &mut self.events);
                self.turns.settle(id, record, control);
            }
        }
    }

    /// Sends everything again as if for the first time, because the server rejected early data
    /// (RFC 9001 §4.6.2). `limits` replace the remembered limits. This must be called before
    /// anything was acknowledged or received, and after all sent packets were declared
    /// [lost](Self::on_lost). Streams beyond the new limits wait until the peer allows them.
    pub fn start_over(&mut self, limits: PeerLimits) {
        self.turns.start_over(limits.max_data);
        self.opening.start_over(limits, &mut self.events);
        self.control.clear();
        for id in sorted_ids(&self.records) {
            let held = self.opening.holds(id);
            if let Some(record) = self.records.get_mut(&id) {
                record.in_control = false;
                record.in_parked = false;
                record.turn = if held { Turn::Held } else { Turn::None };
                if let Some(send) = record.send.as_mut() {
                    send.start_over(self.opening.initial_credit(id));
                }
                self.turns.settle(id, record, &mut self.control);
                self.control.push(id, record);
            }
        }
    }

    /// Sets the smoothed RTT, from which windows derive their growth.
    pub fn on_rtt(&mut self, smoothed: Duration) {
        self.receiving.on_rtt(smoothed);
    }

    /// Sets the congestion window in bytes, which determines the size of the send buffer.
    pub fn on_congestion_window(&mut self, bytes: u64) {
        self.account.on_congestion_window(bytes);
        self.account
            .wake_writers(&mut self.records, &mut self.events);
    }

    /// Returns the current limit on sending by streams: [`Limit::Window`] if they have something
    /// to send.
    pub fn limit(&mut self) -> Limit {
        if self.wants_to_send() {
            Limit::Window
        } else if self.turns.wait_for_credit(&mut self.records) {
            Limit::Peer
        } else if self.account.writers_wait() {
            Limit::Buffer
        } else {
            Limit::Application
        }
    }

    /// Returns the limits on the bytes in flight other than the congestion window, while
    /// `in_flight` bytes are in flight.
    pub fn limits(&self, in_flight: u64) -> Limits {
        let connection = self.turns.credit();
        let more = self.account.has_more();
        // Walking a table that was large once would take too long every time.
        let (peer, unwritten) = if self.records.capacity() > FEW {
            (connection, (!more).then_some(0))
        } else {
            let sends = self.records.values().filter_map(|r| r.send.as_ref());
            let streams = sends.clone();
            let streams = streams.fold(0u64, |sum, send| sum.saturating_add(send.allowed()));
            // A control stream announces no length either, although it seldom has more to send.
            // Therefore, only streams that use their whole share of the buffer count as
            // endless.
            let mut each = sends.map(|send| match send.unwritten() {
                None if more && send.unacked() >= STREAM_FLOOR => None,
                bytes => Some(bytes.unwrap_or(0)),
            });
            let unwritten = each.try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
            (connection.min(streams), unwritten)
        };
        let own = self.account.unacked().max(in_flight);
        Limits {
            peer: in_flight.saturating_add(peer),
            // The buffer follows the window, so only its maximum size is a limit.
            buffer: self.account.max(),
            application: unwritten.map_or(u64::MAX, |bytes| own.saturating_add(bytes)),
        }
    }

    /// Returns true if [`write_frames`](Self::write_frames) would write anything into an empty
    /// packet.
    #[inline]
    pub fn wants_to_send(&mut self) -> bool {
        self.turns.is_known() || self.finds_frames()
    }

    fn finds_frames(&mut self) -> bool {
        self.receiving.has_frame()
            || self.opening.has_frame()
            || self.turns.has_frame()
            || self.control.first(&mut self.records).is_some()
            || self.turns.next(&mut self.records).is_some()
    }

    /// Fills the rest of a packet: first control frames, then data by priority and in turn, a
    /// packet's worth at a time.
    ///
    /// A STREAM frame without a length is written only if it ends at the writer's limit.
    /// Therefore, any frame that still fits after this call may follow. All frames are
    /// ack-eliciting.
    pub fn write_frames(&mut self, now: Instant, w: &mut Writer<'_>) -> SentFrames {
        let mut sent = SentFrames::default();
        let (rtt, records) = (self.receiving.rtt(), &mut self.records);
        // A frame that doesn't fit stays due, and smaller frames behind it also wait for the next
        // packet.
        let fits = self
            .receiving
            .write(now, w, &mut sent)
            .and_then(|()| self.opening.write(w, &mut sent))
            .and_then(|()| self.turns.write_frame(w, &mut sent))
            .and_then(|()| self.control.write(now, rtt, records, w, &mut sent))
            .is_ok();
        if fits {
            self.turns.write(w, &mut sent, records, &mut self.control);
        }
        sent
    }

    /// Processes the acknowledgement of a packet, which may be one of many in an ACK. Adjacent
    /// data of a stream is collected in `run`, so that [`settle_acked`](Self::settle_acked) can
    /// process it at once.
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
                        run.begin(id, range, fin);
                    }
                }
                Sent::Reset(id) => {
                    let record = self.records.get_mut(&id);
                    if let Some(send) = record.and_then(|record| record.send.as_mut()) {
                        send.on_reset_acked();
                        self.events.push(StreamEvent::ResetAcked(id));
                        self.forget_if_done(id);
                    }
                }
                Sent::Stop(_) | Sent::MaxStreamData(_) | Sent::StreamDataBlocked(_) => {}
            }
        }
    }

    /// Processes the rest of `run`, after the last packet of an ACK.
    pub fn settle_acked(&mut self, run: &mut AckedRun) {
        if let Some((id, range, fin)) = run.take() {
            self.turns.on_change();
            if let Some(record) = self.records.get_mut(&id) {
                let stream = (id, record.as_mut());
                if self.account.on_acked(stream, range, fin, &mut self.events) {
                    self.forget_if_done(id);
                }
            }
            self.account
                .wake_writers(&mut self.records, &mut self.events);
        }
    }

    /// Processes the loss of a packet.
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
                if let Some(record) = self.records.get_mut(&id)
                    && let Some(send) = record.send.as_mut()
                {
                    let range = offset..offset.saturating_add(len.into());
                    if again {
                        send.on_lost_again(range, fin);
                    } else {
                        send.on_lost(range, fin);
                    }
                    self.turns.settle(id, record, &mut self.control);
                }
            } else {
                self.control.on_lost(frame, &mut self.records);
            }
        }
        self.receiving.on_lost(frames.connection());
        self.opening.on_lost(frames.connection());
        self.turns.on_lost(frames.connection());
    }

    /// Sends the first `most` unacknowledged bytes of each stream again, the lowest stream
    /// first.
    pub fn repeat_first(&mut self, most: u64) {
        self.turns
            .repeat_first(most, &mut self.records, &mut self.control);
    }

    /// Called before packets are built. If a reader waits while the peer has spent its credit
    /// on other streams, this grants some more credit and signals to the peer which streams are
    /// waited for.
    pub(crate) fn prepare(&mut self) {
        if !self.receiving.holds_up_a_reader() {
            return;
        }
        self.receiving.stretch();
        let waits = |id: &StreamId| self.records.get(id).is_some_and(|r| r.read_blocked);
        let mut waiting = sorted_ids(&self.records);
        waiting.retain(waits);
        // The first stream is signaled last, so that the peer sends it first.
        for id in waiting.into_iter().take(HINTS).rev() {
            if let Some(record) = self.records.get_mut(&id) {
                record.due.max_data = true;
                self.control.push(id, record);
            }
        }
    }

    /// Processes a STREAM frame.
    ///
    /// # Errors
    /// The error with which the connection must be closed: flow control, final size, stream
    /// limit or stream state.
    pub fn on_stream(&mut self, now: Instant, frame: &Stream<'_>) -> Result<(), TransportError> {
        let (id, records, events) = (frame.id, &mut self.records, &mut self.events);
        let receiver = self.opening.receiver(id, types::STREAM, records, events)?;
        let Some(record) = receiver else {
            return Ok(());
        };
        self.receiving.on_data(now, record, frame, events)?;
        self.control.push(id, record);
        self.forget_if_done(id);
        Ok(())
    }

    /// Processes any other frame about streams. Unrelated frames have no effect.
    ///
    /// # Errors
    /// As [`on_stream`](Self::on_stream).
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) -> Result<(), TransportError> {
        let (records, events) = (&mut self.records, &mut self.events);
        let (opening, control) = (&mut self.opening, &mut self.control);
        match frame {
            Frame::ResetStream(frame) => {
                let (id, ty) = (frame.id, types::RESET_STREAM);
                if let Some(record) = opening.receiver(id, ty, records, events)? {
                    self.receiving.on_reset(now, record, frame, events)?;
                    control.push(id, record);
                    self.forget_if_done(id);
                }
            }
            Frame::StopSending(frame) => {
                let (id, ty) = (frame.id, types::STOP_SENDING);
                let record = opening.sender(id, ty, records, events)?;
                if let Some(send) = record.and_then(|record| record.send.as_mut()) {
                    let dropped = send.unacked();
                    if send.on_stop_sending(frame.error_code) {
                        events.push(StreamEvent::Stopped(id, frame.error_code));
                        self.on_reset_by_us(id, dropped);
                    }
                }
            }
            Frame::MaxData(max) => self.turns.raise(*max, records, control),
            Frame::MaxStreamData(frame) => {
                let (id, ty) = (frame.id, types::MAX_STREAM_DATA);
                if let Some(record) = opening.sender(id, ty, records, events)? {
                    self.account.on_credit((id, record), frame.max, events);
                    self.turns.settle(id, record, control);
                    self.turns.prefer(id);
                }
            }
            Frame::MaxStreams(frame) => {
                opening.raise(frame.dir, frame.max, events);
                while let Some(id) = opening.next_allowed(frame.dir) {
                    self.turns.release(id, records, control);
                }
            }
            Frame::DataBlocked(limit) => self.receiving.on_data_blocked(*limit),
            Frame::StreamDataBlocked(frame) => {
                let (id, ty) = (frame.id, types::STREAM_DATA_BLOCKED);
                if let Some(record) = opening.receiver(id, ty, records, events)? {
                    self.receiving.on_stream_blocked(record, frame.limit);
                    control.push(id, record);
                }
            }
            Frame::StreamsBlocked(frame) => opening.on_peer_blocked(frame.dir, frame.limit),
            _ => {}
        }
        Ok(())
    }

    /// Updates the state after the application or STOP_SENDING reset the sending part, which
    /// dropped `dropped` bytes.
    pub(super) fn on_reset_by_us(&mut self, id: StreamId, dropped: u64) {
        self.account.on_dropped(dropped);
        if let Some(record) = self.records.get_mut(&id) {
            record.due.reset = true;
            record.due.data_blocked = false;
            record.writer_waits = false;
            self.control.push(id, record);
            self.turns.settle(id, record, &mut self.control);
        }
        self.account
            .wake_writers(&mut self.records, &mut self.events);
    }

    /// Removes parts that are done, and the stream if both are. Also cleans up the queues if
    /// many of their streams no longer exist.
    pub(super) fn forget_if_done(&mut self, id: StreamId) {
        self.turns.on_change();
        let Some(record) = self.records.get_mut(&id) else {
            return;
        };
        // [9000 4.4 other-direction]
        if record.send.as_ref().is_some_and(super::SendPart::is_done) {
            record.send = None;
        }
        self.receiving.forget_if_done(record);
        if record.send.is_none() && record.recv.is_none() {
            self.records.remove(&id);
            let records = &self.records;
            let is_live = |id: &StreamId| records.contains_key(id);
            self.turns.forget_gone(records.len(), is_live);
            self.account.forget_gone(records.len(), is_live);
            self.control.forget_gone(records.len(), is_live);
            self.opening.on_closed(id);
        }
    }
}
