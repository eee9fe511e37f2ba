//! One packet: its header, what each part puts into it, its seal, and the record of it.

use core::ops::Range;

use super::Connection;
use super::building::{Building, Contents, MIN_PACKET_ROOM, Open, Permit};
use super::carried::Carried;
use super::control::ControlFrame;
use super::handshake::ACK_DELAY_EXPONENT;
use super::keys::unsealed;
use super::paths::{Departure, ShimUse};
use crate::recovery::{PathNumber, SentPacket};
use crate::wire::packet::{Header, MIN_INITIAL_DATAGRAM};
use crate::wire::{ConnectionId, Frame, PacketType, SpaceId, Writer};
use crate::{Ecn, Instant};
use pathmark_cc::PacketState;

/// A 1-RTT packet that ends this close to its datagram's end is filled up, so that a batch can go
/// on.
const FILL_UP: usize = 64;

impl Connection {
    /// Puts a packet of `space` into the datagram; `more`: others are to follow. False if there was
    /// nothing to put into it, or no room.
    pub(super) fn packet(
        &mut self,
        now: Instant,
        space: SpaceId,
        building: &mut Building<'_>,
        more: bool,
    ) -> bool {
        let start = building.w.position();
        let all = building.permit == Permit::All;
        let probe = self.spaces.probe_index(space);
        self.fill_probe(space);
        let challenges = space == SpaceId::Data && all && self.paths.path().challenges_first(now);
        let bears_shim = space == SpaceId::Data && start == 0 && all && !challenges;
        if bears_shim && self.wants_eliciting(now) {
            building.shim = match self.reserve_question(now, probe, &mut building.w) {
                Some(question) => question,
                None => self.reserve_shim(now, probe, &mut building.w),
            };
        }
        // [9000 12.2 one-destination]
        let dcid = self.control.remote_ids.current().id;
        let Some(open) = self.start_packet(space, &dcid, &mut building.w) else {
            building.w.truncate(start);
            return false;
        };
        let mut contents = Contents {
            shim: building.shim,
            ..Contents::default()
        };
        if challenges {
            self.write_path_frames(now, &mut building.w, &mut contents);
        }
        self.write_acks(now, space, &mut building.w, all, &mut contents);
        if all {
            self.write_eliciting(now, space, &mut building.w, &mut contents);
            // [9002 6.2.4 eliciting-probe]
            if !contents.eliciting && (probe.is_some() || building.shim != ShimUse::Nothing) {
                contents.eliciting = Frame::Ping.encode(&mut building.w).is_ok();
            }
        }
        // [9000 12.4 some-frame]
        if building.w.position() == open.started.payload_at() {
            building.w.truncate(start);
            return false;
        }
        building.eliciting |= contents.eliciting;
        building.long |= open.started.ty().is_long();
        // [9000 14.1 full-initials]
        building.initial |=
            space == SpaceId::Initial && (contents.eliciting || self.side.is_client());
        let crowded = building.w.remaining() < MIN_PACKET_ROOM;
        if !more || crowded {
            self.pad(building, &open, &mut contents);
        }
        building.ecn = self.ecn_of(building);
        contents.ecn = building.ecn;
        let finished = self.finish_packet(now, &open, contents, &mut building.w);
        if finished.is_none() {
            // Without a packet behind it a shim leaves neither.
            building.w.truncate(start);
        }
        finished.is_some()
    }

    /// True if a 1-RTT packet would hold something ack-eliciting.
    pub(super) fn wants_eliciting(&mut self, now: Instant) -> bool {
        self.spaces.probes(SpaceId::Data)
            || self.handshake.can_send(SpaceId::Data)
            || self.wants_data(now)
    }

    /// The ECN field of the datagram as it stands.
    fn ecn_of(&self, building: &Building<'_>) -> Ecn {
        if building.long || !building.eliciting {
            return Ecn::NotEct;
        }
        self.paths.path().mark()
    }

    /// PATH_CHALLENGE and PATH_RESPONSE of the path in use.
    fn write_path_frames(&mut self, now: Instant, w: &mut Writer<'_>, contents: &mut Contents) {
        let full = self.paths.full_datagram();
        let path = self.paths.path_mut();
        let frames = path.write_frames(now, full, &mut self.random, w);
        contents.padded |= frames.padded;
        contents.eliciting |= frames.written;
    }

    /// Keeps room for the shim with the controller's request at the front of a datagram, if it is
    /// to have one, and fills it.
    pub(super) fn reserve_shim(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        w: &mut Writer<'_>,
    ) -> ShimUse {
        let recovery = self.spaces.recovery();
        let srtt = recovery.rtt().srtt_or_initial();
        let path = self.paths.path_mut();
        if !self.handshake.is_complete() || !path.wants_shim(now, probe, srtt) {
            return ShimUse::Nothing;
        }
        let limits = self.streams.limits(recovery.bytes_in_flight());
        let next = self.spaces.next_number();
        path.write_request(now, &limits, recovery.rtt().min(), next, w)
    }

    /// The same for a question for a starting rate, if the controller has one. No probe asks.
    fn reserve_question(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let path = self.paths.path_mut();
        if probe.is_some() || !self.handshake.is_complete() || !path.may_ask(now) {
            return None;
        }
        let in_flight = self.spaces.recovery().bytes_in_flight();
        let limits = self.streams.limits(in_flight);
        path.write_question(now, self.random.next_u64(), &limits, w)
    }

    /// Writes a header, and keeps room for the tag. `None` if what is left would not do for the
    /// shortest packet that can be sealed; the header may stand there then.
    pub(super) fn start_packet(
        &mut self,
        space: SpaceId,
        dcid: &ConnectionId,
        w: &mut Writer<'_>,
    ) -> Option<Open> {
        let (full, number) = self.spaces.number(space);
        let dcid = *dcid;
        // [9000 17.2.5.2 same-source]
        let scid = self.handshake_id();
        let header = match space {
            SpaceId::Initial => Header::Initial {
                dcid,
                scid,
                // [9000 8.1.2 retry-token-repeated] [9000 8.1.3 new-token-sent]
                token: self.handshake.token(),
                number,
            },
            SpaceId::Handshake => Header::Handshake { dcid, scid, number },
            // [9001 4.9 newest-keys]
            SpaceId::Data => match self.spaces.keys().phase() {
                Some(key_phase) => Header::OneRtt {
                    dcid,
                    number,
                    key_phase,
                    // [9000 17.4 spin-bit]
                    spin: false,
                },
                // [9001 5.6 server-seals-none]
                None if self.side.is_client() => Header::ZeroRtt { dcid, scid, number },
                None => return None,
            },
        };
        let tag_len = self.spaces.keys().tag_len(space);
        let end = w.limit();
        let started = header.encode(w).ok()?;
        let limit = end.checked_sub(tag_len)?;
        if started.sample_at() > limit {
            return None;
        }
        w.set_limit(limit);
        Some(Open {
            space,
            number: full,
            started,
            end,
            tag_len,
        })
    }

    fn handshake_id(&self) -> ConnectionId {
        self.control.handshake_id
    }

    /// ACK and, with it, FEEDBACK.
    fn write_acks(
        &mut self,
        now: Instant,
        space: SpaceId,
        w: &mut Writer<'_>,
        more_to_come: bool,
        contents: &mut Contents,
    ) {
        let has_keys = self.spaces.keys().has(SpaceId::Data);
        // [9000 13.2.6 same-space]
        let received = self.spaces.received_mut(space);
        if !received.has_news(now) {
            return;
        }
        // With data in the packet, the two frames get half of it.
        let limit = if more_to_come && space == SpaceId::Data {
            w.remaining() / 2
        } else {
            w.remaining()
        };
        contents.carried.acked = received.write_ack(now, w, ACK_DELAY_EXPONENT, limit);
        let feedback = self.paths.path_mut().feedback_mut();
        // [9000 19.21 known-to-peer]
        if space == SpaceId::Data && feedback.offered() && has_keys {
            feedback.write_frames(now, w);
        }
    }

    /// All that asks for an acknowledgement.
    fn write_eliciting(
        &mut self,
        now: Instant,
        space: SpaceId,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) {
        let start = w.position();
        if space == SpaceId::Data {
            self.write_path_frames(now, w, contents);
        }
        while let Some(range) = self.handshake.write_frame(space, w) {
            contents.carried.add_crypto(range);
        }
        if space == SpaceId::Data && self.may_send_data() {
            let carried = &mut contents.carried;
            if self.control.is_due() {
                self.control.write(w, |frame| carried.add_control(frame));
            }
            if self.is_complete() {
                self.write_ack_request(now, w, carried);
            }
            self.write_data(now, w, carried);
        }
        contents.eliciting |= w.position() > start;
    }

    /// Datagrams and streams. Where both wait, each fills every other packet first.
    fn write_data(&mut self, now: Instant, w: &mut Writer<'_>, carried: &mut Carried) {
        if self.spaces.probes_again() {
            carried.streams = self.streams.write_one_frame(now, w);
        } else if !self.datagrams.wants_to_send() {
            carried.streams = self.streams.write_frames(now, w);
        } else if self.datagrams.yields() {
            carried.streams = self.streams.write_frames(now, w);
            self.datagrams.write(w);
        } else {
            self.datagrams.write(w);
            carried.streams = self.streams.write_frames(now, w);
        }
    }

    /// ACK_FREQUENCY, when what is wanted has changed.
    fn write_ack_request(&mut self, now: Instant, w: &mut Writer<'_>, carried: &mut Carried) {
        let path = self.paths.path();
        let interval = path.measuring_interval();
        let window = path.window() / u64::from(path.mtu().max(1));
        let sequence = self.spaces.write_ack_request(now, interval, window, w);
        if let Some(sequence) = sequence {
            carried.add_control(ControlFrame::AckFrequency(sequence));
        }
    }

    /// Padding at the end of a datagram's last packet.
    fn pad(&mut self, building: &mut Building<'_>, open: &Open, contents: &mut Contents) {
        let w = &mut building.w;
        let full = MIN_INITIAL_DATAGRAM.min(open.end) - open.tag_len;
        // [9001 9.3 padded-hello] [9002 6.2.2.1 client-probe-space]
        let missing = if building.initial || contents.padded {
            full.saturating_sub(w.position())
        } else if matches!(building.shim, ShimUse::Question(_)) {
            // As long as the packets whose rate it asks for.
            w.remaining()
        } else if open.space == SpaceId::Data
            && w.remaining() <= FILL_UP
            && contents.eliciting
            && self.streams.wants_to_send()
        {
            w.remaining()
        } else {
            0
        };
        contents.padded = missing > 0 && w.put_zeros(missing).is_ok();
    }

    /// Seals the packet and records it. `None` if that failed, which ends the connection; nothing
    /// of the packet is left in the writer then.
    pub(super) fn finish_packet(
        &mut self,
        now: Instant,
        open: &Open,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<Range<usize>> {
        w.set_limit(open.end);
        let finished = open.started.finish(w, open.tag_len).ok();
        let packet = finished.and_then(|range| Some((w.range_mut(range.clone())?, range)));
        let sealed = match packet {
            Some((packet, range)) => self
                .spaces
                .keys_mut()
                .seal(open.space, open.number, &open.started, packet)
                .map(|()| range),
            None => Err(unsealed()),
        };
        match sealed {
            Ok(range) => {
                self.record(now, open, contents, range.len());
                Some(range)
            }
            Err(error) => {
                // [9001 6.6 worn-connection]
                w.truncate(open.started.start());
                self.fail(now, error);
                None
            }
        }
    }

    fn record(&mut self, now: Instant, open: &Open, contents: Contents, len: usize) {
        let Open { space, number, .. } = *open;
        let Contents {
            carried,
            eliciting,
            padded,
            mtu_probe,
            off_path,
            shim,
            ecn,
        } = contents;
        let size = u16::try_from(len + shim.len()).unwrap_or(u16::MAX);
        let shimmed = shim != ShimUse::Nothing;
        // [9002 7.5 probes-count]
        let in_flight = (eliciting || padded) && !off_path;
        let departure = Departure {
            number,
            size,
            eliciting,
            mtu_probe,
            shim,
            ecn,
        };
        let mut packet = SentPacket {
            sent_at: now,
            state: PacketState::default(),
            size,
            ack_eliciting: eliciting,
            in_flight,
            shim: shimmed,
            probe: self.paths.path().probes(&departure),
            path: if off_path {
                PathNumber::OTHER
            } else {
                PathNumber::default()
            },
            ecn,
            frames: carried,
        };
        self.stats.packets_sent += 1;
        self.stats.early_packets_sent += u64::from(open.started.ty() == PacketType::ZeroRtt);
        if in_flight {
            self.paths.path_mut().on_in_flight(now, &departure);
            if space == SpaceId::Data {
                packet.state = self.tell_sent(now, &departure);
            }
        }
        if space == SpaceId::Data && !off_path {
            self.paths.path_mut().on_sent(now, &departure);
            self.stats.shims_sent += u64::from(shimmed);
        }
        let random = &mut self.random;
        self.spaces.on_sent(space, number, packet, random);
        if eliciting {
            let pto = self.pto();
            self.lifecycle.on_sent(now, pto);
        }
        // [9001 4.9.1 client-initial-keys]
        if space == SpaceId::Handshake && self.side.is_client() {
            // RFC 9001 §4.9.1.
            self.discard(now, SpaceId::Initial);
        }
    }

    /// Tells the controller of a packet that counts towards bytes in flight.
    fn tell_sent(&mut self, now: Instant, packet: &Departure) -> PacketState {
        let in_flight = self.spaces.recovery().bytes_in_flight() + u64::from(packet.size);
        if self.paths.path().is_full(in_flight) {
            self.spaces.recovery_mut().note_window_limited();
        }
        let limit = self.limit();
        let path = self.paths.path_mut();
        path.tell_sent(now, packet, in_flight, limit)
    }
}
