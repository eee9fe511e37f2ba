//! Distribution of a decrypted packet's frames to the parts that process them.

use bytes::Bytes;

use super::keys::OpenedPacket;
use super::paths::AckReport;
use super::receive::{Carrier, Receiving};
use super::sources::Sources;
use super::{ApplicationClose, ConnectionError, Event};
use crate::cid::RemoteId;
use crate::crypto::ResetToken;
use crate::wire::frame::{Frames, types};
use crate::wire::packet::Protected;
use crate::wire::{Frame, PacketType, SpaceId, TransportError, TransportErrorCode as Code};
use crate::{Arrived, VarInt};

/// The combined effect of a packet's frames.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    ack_eliciting: bool,
    /// Whether all frames probe a path (RFC 9000 §9.1).
    probing: bool,
    /// Whether the packet must be acknowledged immediately.
    immediate_ack: bool,
}

/// Context of a frame.
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    ty: PacketType,
    opened: &'a OpenedPacket,
    found: &'a Protected,
    carrier: &'a Carrier<'a>,
}

impl Receiving<'_> {
    /// Processes a packet that was decrypted for the first time.
    pub(super) fn on_payload(
        &mut self,
        carrier: &Carrier<'_>,
        found: &Protected,
        opened: &OpenedPacket,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let now = self.now;
        // [9000 12.4 some-frame]
        if payload.is_empty() {
            return Err(TransportError::violation("a packet without frames"));
        }
        if !self.lifecycle.is_open() {
            self.look_for_close(payload);
            return Ok(());
        }
        let at = At {
            ty: found.ty,
            opened,
            found,
            carrier,
        };
        let space = found.ty.space();
        self.lifecycle.on_received(now, self.spaces.pto());
        let summary = self.on_frames(&at, payload)?;
        if !self.lifecycle.is_open() {
            return Ok(());
        }
        let bytes = if carrier.first { carrier.bytes } else { 0 };
        let received = self.spaces.received_mut(space);
        let newest = received.is_newest(opened.number);
        // [9000 13.1 processed-first]
        received.on_packet(
            now,
            opened.number,
            summary.ack_eliciting,
            carrier.received.ecn,
            bytes,
        );
        // A Quick-Start request during the handshake is acknowledged immediately, because the peer
        // waits for the answer.
        let question = carrier.first
            && summary.ack_eliciting
            && !self.sources.handshake.is_confirmed()
            && self.paths.path.feedback.is_question(carrier.prefix);
        if summary.immediate_ack || question {
            received.on_immediate_ack(now);
        }
        if space != SpaceId::Data {
            if space == SpaceId::Initial && self.side.is_server() && summary.ack_eliciting {
                self.sources.repeat_first_flight(now, self.spaces);
            }
            return Ok(());
        }
        if let Some(limit) = received.wanted_ranges() {
            self.make_room_for_ranges(limit);
        }
        let early = at.ty == PacketType::ZeroRtt;
        // Only 1-RTT packets determine the path and carry feedback of routers. Early data is an
        // exception for questions.
        if newest && !summary.probing && !early {
            self.follow_peer(carrier, found);
        }
        let path = &mut self.paths.path;
        let on_path = carrier.first && path.brought(&carrier.received);
        let feedback = &mut path.feedback;
        if on_path && summary.ack_eliciting && feedback.offered() {
            let arrived = Arrived {
                shim: None,
                ecn: carrier.received.ecn,
                ttl: carrier.received.ttl,
                bytes: carrier.bytes as u64,
                now,
                number: opened.number,
            };
            let counted = if early {
                feedback.on_early_packet(carrier.prefix, arrived)
            } else {
                feedback.on_packet(carrier.prefix, arrived)
            };
            self.stats.shims_received += u64::from(counted);
        }
        Ok(())
    }

    /// Follows the peer to the path of its newest packet, which has a non-probing frame.
    fn follow_peer(&mut self, carrier: &Carrier<'_>, found: &Protected) {
        let others = self.spaces.others(&mut self.sources.control.remote_ids);
        let (received, dcid) = (&carrier.received, &found.dcid);
        let moved = self.paths.follow_peer(self.now, received, dcid, others);
        let path = &self.paths.path;
        self.sources.on_move(moved, path, self.outbox);
    }

    /// Allocates room for more ranges of packet numbers. Beyond the minimum, this takes from the
    /// memory for received data.
    #[cold]
    fn make_room_for_ranges(&mut self, limit: usize) {
        let received = self.spaces.received_mut(SpaceId::Data);
        let streams = &mut self.sources.streams;
        if limit < received.room_for_ranges() || !streams.receiving.holds_all_it_may() {
            let (before, after) = received.set_ranges(limit);
            streams.receiving.on_other_memory(before, after);
        }
    }

    fn on_frames(&mut self, at: &At<'_>, payload: &[u8]) -> Result<Summary, TransportError> {
        let space = at.ty.space();
        let mut summary = Summary {
            probing: true,
            ..Summary::default()
        };
        let mut report = AckReport::default();
        for frame in Frames::new(payload) {
            let frame = frame?;
            // [9000 12.4 permitted-frames]
            if !frame.allowed_in(at.ty) || !frame.allowed_from(self.side.peer()) {
                let error = TransportError::violation("a frame that must not stand in this packet");
                return Err(error.in_frame(frame.ty()));
            }
            summary.ack_eliciting |= frame.is_ack_eliciting();
            summary.probing &= frame.is_probing();
            match &frame {
                Frame::Ack(ack) => {
                    // The controller gets the report of one ACK frame at a time.
                    let mut fates = self.fates();
                    fates.settle(space, &report);
                    report = fates.on_ack(space, at.opened.generation, ack)?;
                }
                Frame::Feedback(frame) => {
                    let feedback = &mut self.paths.path.feedback;
                    if !feedback.offered() {
                        return Err(Error::unknown(types::FEEDBACK));
                    }
                    let difference = feedback.on_frame(at.opened.number, frame);
                    report.on_feedback(frame.time, difference);
                }
                Frame::ImmediateAck => summary.immediate_ack = true,
                Frame::Stream(frame) => {
                    self.sources.streams.on_stream(self.now, frame)?;
                }
                frame => self.on_frame(at, frame)?,
            }
            if !self.lifecycle.is_open() {
                break;
            }
        }
        self.fates().settle(space, &report);
        Ok(summary)
    }

    fn on_frame(&mut self, at: &At<'_>, frame: &Frame<'_>) -> Result<(), TransportError> {
        let Sources {
            handshake,
            control,
            streams,
            ..
        } = &mut *self.sources;
        match frame {
            // Except for the first two, the caller processes these frames.
            Frame::Padding(_)
            | Frame::Ping
            | Frame::ImmediateAck
            | Frame::Ack(_)
            | Frame::Feedback(_)
            | Frame::Stream(_) => {}
            Frame::Crypto(frame) => {
                handshake.on_crypto(at.ty.space(), frame.offset, frame.data)?;
                self.levels().drive()?;
            }
            Frame::ResetStream(_) | Frame::StopSending(_) => {
                self.stats.streams_given_up += 1;
                streams.on_frame(self.now, frame)?;
            }
            Frame::MaxData(_)
            | Frame::MaxStreamData(_)
            | Frame::MaxStreams(_)
            | Frame::DataBlocked(_)
            | Frame::StreamDataBlocked(_)
            | Frame::StreamsBlocked(_) => streams.on_frame(self.now, frame)?,
            Frame::NewToken(token) => {
                let event = || Event::NewToken(Bytes::copy_from_slice(token));
                self.outbox.push_if_room(event);
            }
            Frame::NewConnectionId(frame) => {
                self.stats.id_frames += 1;
                let new = RemoteId {
                    sequence: frame.sequence,
                    id: frame.id,
                    token: Some(ResetToken::new(frame.reset_token)),
                };
                control
                    .remote_ids
                    .on_new(frame.retire_prior_to, &new)
                    .map_err(|e| e.in_frame(types::NEW_CONNECTION_ID))?;
            }
            Frame::RetireConnectionId(sequence) => {
                self.stats.id_frames += 1;
                let retired = control
                    .local_ids
                    .on_retire(*sequence, &at.found.dcid)
                    .map_err(|e| e.in_frame(types::RETIRE_CONNECTION_ID))?;
                if let Some(id) = retired {
                    self.outbox.remove_id(id);
                }
            }
            // No endpoint migrates before the handshake is confirmed (RFC 9000 §9).
            Frame::PathChallenge(_)
                if at.ty == PacketType::ZeroRtt
                    && !self.paths.path.brought(&at.carrier.received) => {}
            Frame::PathChallenge(data) => {
                self.stats.path_challenges += 1;
                let ids = &mut control.remote_ids;
                let (received, bytes) = (&at.carrier.received, at.carrier.bytes);
                self.paths.on_challenge(received, *data, bytes, ids);
            }
            Frame::PathResponse(data) => {
                let mut others = self.spaces.others(&mut control.remote_ids);
                let (paths, received) = (&mut self.paths, &at.carrier.received);
                let validated = paths.on_response(self.now, received, *data, &mut others);
                self.stats.migrations += u64::from(validated);
            }
            Frame::ConnectionClose(frame) => {
                let error = TransportError {
                    code: frame.error_code,
                    frame_type: frame.frame_type,
                    reason: String::from_utf8_lossy(frame.reason).into_owned().into(),
                };
                self.drain(ConnectionError::ConnectionClosed(error));
            }
            Frame::ApplicationClose(frame) => {
                let error = ApplicationClose {
                    // The wire has no larger codes.
                    error_code: VarInt::from_u64(frame.error_code).unwrap_or(VarInt::MAX),
                    reason: Bytes::copy_from_slice(frame.reason),
                };
                self.drain(ConnectionError::ApplicationClosed(error));
            }
            Frame::HandshakeDone => self.levels().on_confirmed(),
            Frame::Datagram(data) => {
                let feedback = &self.paths.path.feedback;
                let mark = feedback.mark(at.carrier.received.ecn);
                if self.sources.on_datagram_frame(data, mark)? {
                    self.outbox.push_once(Event::DatagramReceived);
                }
            }
            Frame::AckFrequency(frame) => {
                if frame.max_ack_delay < super::handshake::MIN_ACK_DELAY {
                    let error =
                        TransportError::violation("a max_ack_delay below our min_ack_delay");
                    return Err(error.in_frame(types::ACK_FREQUENCY));
                }
                let received = self.spaces.received_mut(SpaceId::Data);
                received.on_ack_frequency(self.now, frame);
            }
        }
        Ok(())
    }

    /// Checks whether the peer has closed, too, which is all that matters once the connection is
    /// closing.
    fn look_for_close(&mut self, payload: &[u8]) {
        let closed = Frames::new(payload).any(|frame| {
            matches!(
                frame,
                Ok(Frame::ConnectionClose(_) | Frame::ApplicationClose(_))
            )
        });
        if closed {
            self.drain(ConnectionError::LocallyClosed);
        }
    }
}

/// Errors that several frames can cause.
struct Error;

impl Error {
    /// A frame of an extension that we didn't offer counts as unknown (RFC 9000 §12.4).
    fn unknown(ty: u64) -> TransportError {
        TransportError::new(Code::FRAME_ENCODING_ERROR, "an unknown frame type").in_frame(ty)
    }
}
