//! Building of one packet: its header, its frames, sealing, and its record.

use core::ops::Range;

use super::building::{Contents, MIN_PACKET_ROOM, Open, PacketBuilder, Permit};
use super::paths::{Departure, ShimUse};
use super::sources::{Asked, Sources};
use super::transmit::Sending;
use crate::observe::{TraceEvent, TracedPacket};
use crate::recovery::{PathNumber, SentPacket};
use crate::wire::{ConnectionId, Frame, PacketType, SpaceId, Writer};
use pathmark_cc::PacketState;

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
}
