//! Building of one packet: its header, its frames, sealing, and its record. A packet that has its
//! datagram to itself consists of one frame and padding: on another path, to test which size a path
//! carries, and to carry a question for a starting rate.

use core::ops::Range;

use pathmark_cc::PacketState;

use super::Transmit;
use super::building::{Contents, MIN_PACKET_ROOM, Open, PacketBuilder, Permit};
use super::paths::{Departure, OffPathFrame, ShimUse};
use super::sources::{Asked, Sources};
use super::transmit::Sending;
use crate::Ecn;
use crate::observe::{TraceEvent, TracedPacket};
use crate::recovery::{PathNumber, SentPacket};
use crate::wire::{ConnectionId, Frame, PacketType, SpaceId, Writer};

impl Sending<'_> {
    /// Adds a packet of `space` to the datagram. `more` is true if others should follow. Returns
    /// false if there was nothing to add, or no room.
    pub(super) fn packet(
        &mut self,
        space: SpaceId,
        building: &mut PacketBuilder<'_>,
        more: bool,
    ) -> bool {
        let now = self.now;
        let start = building.w.position();
        let all = building.permit == Permit::All;
        let probe = self.spaces.probe_index(space);
        self.sources.fill_probe(space, self.spaces);
        let challenges = space == SpaceId::Data && all && self.paths.path.challenges_first(now);
        let bears_shim = space == SpaceId::Data && start == 0 && all && !challenges;
        if bears_shim && self.wants_eliciting(space) {
            building.shim = match self.write_question(probe, &mut building.w) {
                Some(question) => question,
                None => self.write_request(probe, &mut building.w),
            };
        }
        // [9000 12.2 one-destination]
        let dcid = self.sources.control.remote_ids.current().id;
        let Some(open) = self.start(space, &dcid, &mut building.w) else {
            building.w.truncate(start);
            return false;
        };
        let mut contents = Contents {
            shim: building.shim,
            ..Contents::default()
        };
        let w = &mut building.w;
        if challenges {
            self.asked(space).1.write_path(w, &mut contents);
        }
        let feedback = &mut self.paths.path.feedback;
        contents.carried.acked = self.spaces.write_acks(now, space, all, feedback, w);
        if all {
            let (sources, mut asked) = self.asked(space);
            sources.write(&mut asked, w, &mut contents);
            // [9002 6.2.4 eliciting-probe]
            if !contents.eliciting && (probe.is_some() || building.shim != ShimUse::Nothing) {
                contents.eliciting = Frame::Ping.encode(w).is_ok();
            }
        }
        // [9000 12.4 some-frame]
        if w.position() == open.started.payload_at() {
            w.truncate(start);
            return false;
        }
        building.eliciting |= contents.eliciting;
        building.long |= open.started.ty().is_long();
        // [9000 14.1 full-initials]
        building.initial |=
            space == SpaceId::Initial && (contents.eliciting || self.side.is_client());
        if !more || building.w.remaining() < MIN_PACKET_ROOM {
            let sources = &mut *self.sources;
            building.pad(&open, &mut contents, || sources.has_data());
        }
        building.mark(self.paths.path.mark());
        contents.ecn = building.ecn;
        let finished = self.finish(&open, contents, &mut building.w);
        if finished.is_none() {
            // If no packet follows, the shim isn't sent either.
            building.w.truncate(start);
        }
        finished.is_some()
    }

    /// Borrows the sources together with the parts that they need for a packet of `space`.
    fn asked(&mut self, space: SpaceId) -> (&mut Sources, Asked<'_>) {
        let full = self.paths.full_datagram();
        let asked = Asked {
            now: self.now,
            space,
            spaces: self.spaces,
            path: &mut self.paths.path,
            full,
            random: self.random,
        };
        (self.sources, asked)
    }

    /// Writes a shim with the controller's request at the front of a datagram, if it should have
    /// one.
    pub(super) fn write_request(&mut self, probe: Option<u8>, w: &mut Writer<'_>) -> ShimUse {
        let recovery = &self.spaces.recovery;
        let srtt = recovery.rtt().srtt_or_initial();
        let path = &mut self.paths.path;
        if !self.sources.handshake.is_complete() || !path.wants_shim(self.now, probe, srtt) {
            return ShimUse::Nothing;
        }
        let limits = self.sources.streams.limits(recovery.bytes_in_flight());
        let next = self.spaces.next_number();
        path.write_request(self.now, &limits, recovery.rtt().min(), next, w)
    }

    /// Like [`write_request`](Self::write_request), but with a question for a starting rate, if the
    /// controller has one. Probes never carry a question.
    fn write_question(&mut self, probe: Option<u8>, w: &mut Writer<'_>) -> Option<ShimUse> {
        let path = &mut self.paths.path;
        if probe.is_some() || !self.sources.handshake.is_complete() || !path.may_ask(self.now) {
            return None;
        }
        let in_flight = self.spaces.recovery.bytes_in_flight();
        let limits = self.sources.streams.limits(in_flight);
        path.write_question(self.now, self.random.next_u64(), &limits, w)
    }

    /// Writes a header to `dcid`, reserving room for the tag. Returns `None` if the remaining room
    /// is too small for the shortest packet that can be sealed, in which case the header may have
    /// been written.
    pub(super) fn start(
        &self,
        space: SpaceId,
        dcid: &ConnectionId,
        w: &mut Writer<'_>,
    ) -> Option<Open> {
        // [9000 17.2.5.2 same-source]
        let scid = self.sources.control.handshake_id;
        // [9000 8.1.2 retry-token-repeated] [9000 8.1.3 new-token-sent]
        let token = self.sources.handshake.token();
        self.spaces.start(space, [*dcid, scid], token, w)
    }

    /// Seals the packet and records it. Returns `None` if sealing failed, which ends the connection
    /// and removes the packet from the writer.
    pub(super) fn finish(
        &mut self,
        open: &Open,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<Range<usize>> {
        match self.spaces.seal(open, w) {
            Ok(range) => {
                self.record(open, contents, range.len());
                Some(range)
            }
            Err(error) => {
                // [9001 6.6 worn-connection]
                self.failed = self.failed.take().or(Some(error));
                None
            }
        }
    }

    fn record(&mut self, open: &Open, contents: Contents, len: usize) {
        let now = self.now;
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
        let path = &mut self.paths.path;
        let mut packet = SentPacket {
            sent_at: now,
            state: PacketState::default(),
            size,
            ack_eliciting: eliciting,
            in_flight,
            shim: shimmed,
            probe: path.probes(&departure),
            path: if off_path {
                PathNumber::OTHER
            } else {
                PathNumber::default()
            },
            ecn,
            frames: carried,
        };
        self.stats.packets_sent += 1;
        self.tracing.record(now, || {
            TraceEvent::Sent(TracedPacket {
                ty: open.started.ty(),
                number,
                bytes: size.into(),
                shim: shimmed,
                mtu_probe,
                ack_only: !eliciting,
            })
        });
        self.stats.early_packets_sent += u64::from(open.started.ty() == PacketType::ZeroRtt);
        if in_flight {
            path.route.on_in_flight(now, size.into());
            if space == SpaceId::Data {
                let recovery = &mut self.spaces.recovery;
                let in_flight = recovery.bytes_in_flight() + u64::from(size);
                if path.route.is_full(in_flight) {
                    recovery.note_window_limited();
                }
                let limit = self.sources.limit();
                packet.state = path.tell_sent(now, &departure, in_flight, limit);
            }
        }
        if space == SpaceId::Data && !off_path {
            path.on_sent(now, &departure);
            self.stats.shims_sent += u64::from(shimmed);
        }
        self.spaces.on_sent(space, number, packet, self.random);
        if eliciting {
            self.lifecycle.on_sent(now, self.spaces.pto());
        }
        // [9001 4.9.1 client-initial-keys]
        if space == SpaceId::Handshake && self.side.is_client() {
            self.sources.discard(now, SpaceId::Initial, self.spaces);
        }
    }

    /// Builds a PATH_RESPONSE on the path that the peer probes, or a PATH_CHALLENGE on the path
    /// that was left.
    pub(super) fn off_path(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.spaces.keys.has(SpaceId::Data) {
            return None;
        }
        let ids = &mut self.sources.control.remote_ids;
        let response = self.paths.poll_response(ids);
        let sent = response.and_then(|frame| self.off_path_datagram(buffer, &frame));
        if sent.is_some() {
            return sent;
        }
        let ids = &self.sources.control.remote_ids;
        let challenge = self.paths.poll_challenge(self.now, ids, self.random)?;
        self.off_path_datagram(buffer, &challenge)
    }

    fn off_path_datagram(&mut self, buffer: &mut [u8], frame: &OffPathFrame) -> Option<Transmit> {
        let mut w = Writer::new(buffer.get_mut(..frame.size)?);
        let contents = Contents {
            off_path: true,
            ..Contents::default()
        };
        self.filled_packet(&frame.dcid, &frame.frame(), contents, &mut w)?;
        let len = w.position();
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths.on_off_path_sent(self.now, frame, len as u64);
        Some(Transmit {
            remote: frame.remote,
            local: frame.local,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }

    /// Builds a probe for a larger datagram (RFC 8899). It consists of PING and padding, so that
    /// its loss does no harm. Probes aren't sent before the application has data to send, because a
    /// connection that only receives or is closed immediately would never benefit from them.
    pub(super) fn mtu_probe(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let path = &mut self.paths.path;
        let carries_data = path.route.carries_data(|| self.sources.has_data());
        if !carries_data || !self.sources.handshake.is_confirmed() || self.spaces.is_probing() {
            return None;
        }
        let in_flight = self.spaces.recovery.bytes_in_flight();
        let size = path.poll_mtu_probe(self.now, in_flight)?;
        let mut w = Writer::new(buffer.get_mut(..usize::from(size))?);
        let contents = Contents {
            mtu_probe: true,
            shim: self.write_request(None, &mut w),
            ecn: self.paths.path.mtu_probe_mark(),
            ..Contents::default()
        };
        let (number, transmit) = self.filled_datagram(contents, &mut w)?;
        self.paths.path.route.on_mtu_probe_sent(number, size);
        Some(transmit)
    }

    /// Builds a question for a starting rate, which is sent before the handshake is complete if a
    /// rate of the path is known. It has a separate datagram, which is sent after everything else:
    ///
    /// ```text
    ///   client, may send early data     Initial, 0-RTT …        shim + 0-RTT [PING, padding]
    ///   server, address is validated    Initial, Handshake …    shim + 1-RTT [PING, padding]
    /// ```
    ///
    /// A client asks if the server advertised the signal when the resumed session began, and a
    /// server asks if the ClientHello lists the signal. Both answer with the next flight of the
    /// handshake.
    pub(super) fn question_ahead(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        if self.sources.handshake.is_complete() {
            return None;
        }
        self.ask_ahead(buffer)
    }

    #[cold]
    fn ask_ahead(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let known = self.paths.known()?;
        let keys = if self.side.is_client() {
            self.spaces.keys.has_early()
        } else {
            self.spaces.keys.has(SpaceId::Data)
        };
        let path = &mut self.paths.path;
        if !keys || !path.may_ask(self.now) {
            return None;
        }
        // The question has the size of the packets for whose rate it asks.
        let size = u64::from(path.mtu());
        if self.spaces.recovery.bytes_in_flight() + size > path.window() {
            return None;
        }
        let room = buffer.get_mut(..usize::try_from(size).ok()?)?;
        let mut w = Writer::new(room);
        let random = self.random.next_u64();
        let shim = path.write_question_ahead(self.now, random, &known, &mut w)?;
        let contents = Contents {
            shim,
            ecn: match self.spaces.keys.has(SpaceId::Data) {
                true => path.mark(),
                // A 0-RTT packet has a long header.
                false => Ecn::NotEct,
            },
            ..Contents::default()
        };
        let (_, transmit) = self.filled_datagram(contents, &mut w)?;
        self.paths.path.route.on_asked_ahead();
        Some(transmit)
    }

    /// Builds a datagram filled with PING and padding. Returns the number of its packet, too.
    fn filled_datagram(
        &mut self,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<(u64, Transmit)> {
        let dcid = self.sources.control.remote_ids.current().id;
        let ecn = contents.ecn;
        let number = self.filled_packet(&dcid, &Frame::Ping, contents, w)?;
        let len = w.position();
        self.on_datagram_sent(len);
        Some((number, self.paths.path.transmit(ecn, len, len)))
    }

    /// Builds a packet with one frame, padded to the end of the room. Returns its number.
    fn filled_packet(
        &mut self,
        dcid: &ConnectionId,
        frame: &Frame<'_>,
        contents: Contents,
        w: &mut Writer<'_>,
    ) -> Option<u64> {
        let open = self.start(SpaceId::Data, dcid, w)?;
        frame.encode(w).ok()?;
        let rest = w.remaining();
        w.put_zeros(rest).ok()?;
        let contents = Contents {
            eliciting: true,
            padded: true,
            ..contents
        };
        self.finish(&open, contents, w)?;
        Some(open.number)
    }
}
