//! Building of datagrams: which may be sent now, and how they are batched.
//!
//! Each pass tries the following in order: a datagram on another path, a probe for a larger
//! datagram, a batch of packets, and a question for a starting rate.

use super::Transmit;
use super::building::{Contents, MIN_PACKET_ROOM, PacketBuilder, Permit};
use super::lifecycle::{CloseReason, Lifecycle};
use super::paths::{Admission, Allowance, Paths, least_challenge};
use super::sources::Sources;
use super::spaces::PacketSpaces;
use super::timers::Timer;
use crate::crypto::{Random, Side};
use crate::observe::{Bound, Stats, Tracing};
use crate::wire::frame::{ApplicationClose, ConnectionClose};
use crate::wire::packet::TAG_LEN;
use crate::wire::{Frame, SpaceId, TransportError, Writer};
use crate::{Ecn, Instant};

/// The parts from which datagrams are built, for one pass.
pub(super) struct Sending<'a> {
    pub(super) now: Instant,
    pub(super) side: Side,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) stats: &'a mut Stats,
    pub(super) tracing: &'a mut Tracing,
    pub(super) random: &'a mut Random,
    /// The error if a packet couldn't be sealed, which ends the connection.
    pub(super) failed: Option<TransportError>,
}

/// A datagram that was built.
#[derive(Clone, Copy, Debug)]
struct Built {
    len: usize,
    ecn: Ecn,
    /// Whether another may follow in the batch.
    batches: bool,
}

impl Sending<'_> {
    /// Builds datagrams of an open connection. Returns `None` if there's nothing to send.
    pub(super) fn poll(&mut self, buffer: &mut [u8], max_segments: usize) -> Option<Transmit> {
        // [9000 8.2.2 at-once]
        if let Some(transmit) = self.off_path(buffer) {
            return Some(transmit);
        }
        self.prepare();
        if let Some(transmit) = self.mtu_probe(buffer) {
            return Some(transmit);
        }
        self.batch(buffer, max_segments)
            .or_else(|| self.question_ahead(buffer))
    }

    /// Prepares a batch by renewing keys if needed, restarting the controller after a pause, and
    /// accounting for new flows.
    fn prepare(&mut self) {
        let now = self.now;
        let path = &mut self.paths.path;
        self.sources.drop_long_datagrams(path);
        path.route.poll(now);
        self.sources.streams.prepare();
        let renewed = self.spaces.keys.renew(now);
        self.stats.key_updates += u64::from(renewed);
        let recovery = &self.spaces.recovery;
        let srtt = recovery.rtt().srtt();
        let path = &mut self.paths.path;
        let restarts =
            recovery.bytes_in_flight() == 0 && self.sources.has_data() && path.route.restart(now);
        let starts = self.sources.streams.account.take_starts();
        if let Some(srtt) = srtt.filter(|_| starts > 0) {
            path.route.on_starts(now, starts, srtt);
        }
        if restarts || starts > 0 {
            self.sources.follow_window(now, srtt, path);
        }
    }

    fn batch(&mut self, buffer: &mut [u8], max_segments: usize) -> Option<Transmit> {
        // A receiver is polled after each datagram and seldom has anything to send.
        if !SpaceId::ALL
            .iter()
            .any(|space| self.wants(*space, Permit::All))
        {
            return None;
        }
        let mut batch: Option<Transmit> = None;
        for _ in 0..max_segments {
            let (done, size) = match &batch {
                Some(batch) => (batch.len, batch.segment_size),
                None => (0, usize::from(self.datagram_limit())),
            };
            let Some(size) = self.limited_size(size) else {
                break;
            };
            let Some(room) = buffer.get_mut(done..done + size) else {
                break;
            };
            let permit = self.permit(size);
            // The first datagram determines the size of later datagrams, because the kernel
            // splits a batch into segments of one size, of which only the last may be shorter. A
            // probe doesn't determine the size, because the next one may have to carry more.
            let sets_size = batch.is_none() && !self.spaces.is_probing();
            let Some(built) = self.datagram(room, permit, batch.as_ref()) else {
                break;
            };
            self.on_datagram_sent(built.len);
            let path = &self.paths.path;
            let transmit = batch.get_or_insert_with(|| path.transmit(built.ecn, 0, built.len));
            transmit.len += built.len;
            if !built.batches || (built.len < size && !sets_size) {
                break;
            }
        }
        batch
    }

    fn datagram_limit(&self) -> u16 {
        let path = &self.paths.path;
        if self.spaces.is_probing() {
            path.route.probe_limit(self.spaces.recovery.pto_count())
        } else {
            path.mtu()
        }
    }

    /// Applies the amplification limit to a datagram of `size` bytes (RFC 9000 §8.1). Returns the
    /// permitted size, or `None` if it can't be sent.
    fn limited_size(&mut self, size: usize) -> Option<usize> {
        let probes = self.spaces.is_probing();
        let least = least_challenge(self.sources.control.remote_ids.current().id.len());
        let full = self.paths.full_datagram();
        let path = &self.paths.path;
        match path
            .address
            .allowance(self.now, size, probes, [least, full])
        {
            Allowance::Bytes(size) => Some(size),
            Allowance::Nothing => None,
            Allowance::Blocked => {
                let recovery = &mut self.spaces.recovery;
                recovery.set_amplification_blocked(self.now, true);
                None
            }
        }
    }

    /// Returns which packets the window and the pacer permit in a datagram of `size` bytes.
    fn permit(&mut self, size: usize) -> Permit {
        let now = self.now;
        // Handshake data doesn't wait for room, because the window may be filled by 1-RTT packets
        // that the peer can't acknowledge before this data has arrived and for which no probe
        // timeout runs (RFC 9002 §6.2.1).
        let handshake = [SpaceId::Initial, SpaceId::Handshake];
        // A client's challenge doesn't wait either, because an outage leaves the window full
        // although the path may work again. Each attempt sends at most three. A server's challenge
        // waits, since its peer decides how often there is one.
        // [9002 7.5 probes-pass]
        if self.spaces.is_probing()
            || self.side.is_client() && self.paths.path.wants_challenge(now)
            || handshake.iter().any(|&space| {
                self.spaces.keys.has(space) && self.sources.handshake.crypto.can_send(space)
            })
        {
            return Permit::All;
        }
        let in_flight = self.spaces.recovery.bytes_in_flight();
        match self.paths.path.route.admits(now, size as u64, in_flight) {
            Admission::Now => Permit::All,
            Admission::WindowFull => Permit::AcksOnly,
            Admission::At(at) => {
                self.lifecycle.timers.set(Timer::Pacing, at);
                Permit::AcksOnly
            }
        }
    }

    /// Returns true if `space` has something for a packet. Everything that makes this true is then
    /// written.
    fn wants(&mut self, space: SpaceId, permit: Permit) -> bool {
        let complete = self.sources.handshake.is_complete();
        self.spaces.may_send(space, complete)
            && (self.spaces.received(space).due(self.now)
                || (permit == Permit::All && self.wants_eliciting(space)))
    }

    /// Returns true if a packet of `space` would be ack-eliciting.
    pub(super) fn wants_eliciting(&mut self, space: SpaceId) -> bool {
        let path = &self.paths.path;
        self.spaces.probes(space) || self.sources.have_frames(self.now, space, path)
    }

    /// Builds one datagram of coalesced packets, to follow `batch`. Returns `None` if there's
    /// nothing to send, or nothing that fits.
    fn datagram(
        &mut self,
        room: &mut [u8],
        permit: Permit,
        batch: Option<&Transmit>,
    ) -> Option<Built> {
        let [initial, handshake, data] = SpaceId::ALL.map(|space| self.wants(space, permit));
        if !(initial || handshake || data) {
            return None;
        }
        if let Some(batch) = batch {
            // A batch consists of 1-RTT packets with data, all of the same size and ECN field.
            let alike = self.paths.path.mark() == batch.ecn;
            let eliciting = permit == Permit::All && self.wants_eliciting(SpaceId::Data);
            if initial || handshake || !alike || !eliciting {
                return None;
            }
        }
        // The packets that follow those of the handshake also pad them, so there must be something
        // that certainly fits, unlike a long datagram.
        let data = data
            && (self.sources.handshake.is_complete()
                || !(initial || handshake)
                || self.sources.streams.wants_to_send()
                || self.spaces.received(SpaceId::Data).due(self.now));
        let mut building = PacketBuilder::new(room, permit);
        if initial {
            self.packet(SpaceId::Initial, &mut building, handshake || data);
        }
        if handshake && building.w.remaining() >= MIN_PACKET_ROOM {
            self.packet(SpaceId::Handshake, &mut building, data);
        }
        if data && building.w.remaining() >= MIN_PACKET_ROOM.min(building.w.limit()) {
            self.packet(SpaceId::Data, &mut building, false);
        }
        (building.len() > 0).then(|| Built {
            len: building.len(),
            ecn: building.ecn,
            batches: !building.long && building.eliciting,
        })
    }

    /// Counts a datagram sent on the current path.
    pub(super) fn on_datagram_sent(&mut self, len: usize) {
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths.path.address.on_datagram_sent(len as u64);
    }

    /// Returns the limit of the sender, after everything was sent.
    pub(super) fn bound(&mut self) -> Bound {
        let limit = self.sources.limit();
        let recovery = &mut self.spaces.recovery;
        if limit == pathmark_cc::Limit::Window && self.sources.handshake.is_complete() {
            recovery.note_window_limited();
        } else {
            recovery.note_not_window_limited();
        }
        let explicit = self.paths.path.route.metrics().explicit;
        Bound::new(
            limit,
            explicit,
            self.sources.streams.opening.is_waited_for(),
        )
    }
}

/// Maximum length of a reason that is sent, in bytes, so that even three CONNECTION_CLOSE frames
/// fit into any datagram.
const MAX_REASON: usize = 256;

impl Sending<'_> {
    /// Builds a CONNECTION_CLOSE, if one is due, in a packet of each level whose keys the peer may
    /// have.
    pub(super) fn close(&mut self, buffer: &mut [u8]) -> Option<Transmit> {
        let reason = self.lifecycle.due()?.clone();
        let full = self.paths.full_datagram();
        let room = buffer.get_mut(..full)?;
        let path = &self.paths.path;
        // [9000 10.2.1 closing-elsewhere]
        if !path.is_validated() && path.address.available() < full as u64 {
            return None;
        }
        let mut building = PacketBuilder::new(room, Permit::AcksOnly);
        let levels = SpaceId::ALL.map(|space| {
            // Before the handshake is complete, a server's client may lack 1-RTT keys but has the
            // others.
            // [9000 10.2.3 close-in-one-rtt]
            let complete = self.sources.handshake.is_complete();
            self.spaces.keys.has(space) && (space != SpaceId::Data || complete)
        });
        let last = SpaceId::ALL
            .into_iter()
            .zip(levels)
            .rfind(|(_, has)| *has)?
            .0;
        let pad = self.spaces.keys.has(SpaceId::Initial);
        for (space, has) in SpaceId::ALL.into_iter().zip(levels) {
            if has && building.w.remaining() >= MIN_PACKET_ROOM {
                let pad = pad.then_some(space == last);
                self.close_packet(space, &reason, pad, &mut building);
            }
        }
        self.lifecycle.on_close_sent(self.now);
        let len = building.len();
        if len == 0 {
            return None;
        }
        self.on_datagram_sent(len);
        Some(self.paths.path.transmit(Ecn::NotEct, len, len))
    }

    /// Builds one packet. `pad` is given if the datagram must be of full size, and is true for the
    /// last of its packets. A packet that leaves no room for others is the last, too.
    fn close_packet(
        &mut self,
        space: SpaceId,
        reason: &CloseReason,
        pad: Option<bool>,
        building: &mut PacketBuilder<'_>,
    ) {
        let start = building.w.position();
        let dcid = self.sources.control.remote_ids.current().id;
        let Some(open) = self.start(space, &dcid, &mut building.w) else {
            building.w.truncate(start);
            return;
        };
        write_close(space, reason, &mut building.w);
        let crowded = building.w.remaining() < MIN_PACKET_ROOM;
        let pad = pad.is_some_and(|last| last || crowded);
        let contents = Contents {
            padded: pad,
            ..Contents::default()
        };
        if pad {
            let full = self.paths.full_datagram().saturating_sub(TAG_LEN);
            let missing = full.saturating_sub(building.w.position());
            let fits = missing.min(building.w.remaining());
            let _ = building.w.put_zeros(fits);
        }
        self.finish(&open, contents, &mut building.w);
    }
}

/// Maximum size of a CONNECTION_CLOSE frame without its reason: type, code, frame type, and length.
const CLOSE_FRAME: usize = 1 + 8 + 8 + 2;

fn write_close(space: SpaceId, reason: &CloseReason, w: &mut Writer<'_>) {
    // A long token leaves little room in an Initial packet.
    let most = w.remaining().saturating_sub(CLOSE_FRAME).min(MAX_REASON);
    let cut = |reason: &[u8]| reason.len().min(most);
    let written = match reason {
        CloseReason::Application { code, reason } if space == SpaceId::Data => {
            Frame::ApplicationClose(ApplicationClose {
                error_code: *code,
                reason: reason.get(..cut(reason)).unwrap_or(&[]),
            })
            .encode(w)
        }
        reason => {
            let error = reason.before_one_rtt();
            let text = error.reason.as_bytes();
            Frame::ConnectionClose(ConnectionClose {
                error_code: error.code,
                frame_type: error.frame_type,
                reason: text.get(..cut(text)).unwrap_or(&[]),
            })
            .encode(w)
        }
    };
    // A code beyond 2^62 can't be encoded, but the connection must still close.
    if written.is_err() && space == SpaceId::Data {
        let _ = Frame::ApplicationClose(ApplicationClose {
            error_code: 0,
            reason: &[],
        })
        .encode(w);
    }
}
