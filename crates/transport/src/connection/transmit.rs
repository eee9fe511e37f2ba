//! Datagrams out: what may leave now, and into which batch it goes.

use super::bounds::Bound;
use super::building::{Building, Contents, MIN_PACKET_ROOM, Permit};
use super::paths::{Admission, Allowance, OffPathFrame, Path};
use super::{Connection, Timer, Transmit};
use crate::wire::SpaceId;
use crate::wire::Writer;
use crate::{Ecn, Instant};

/// A datagram that was built.
#[derive(Clone, Copy, Debug)]
struct Built {
    len: usize,
    ecn: Ecn,
    /// Another may follow in the batch.
    batches: bool,
}

impl Connection {
    /// Builds datagrams to send now, back to back into `buffer`: at most `max_segments`, all of one
    /// size but the last. `None`: nothing to send until something happens or
    /// [`deadline`](Self::deadline) comes. Call it until then; `buffer` should hold `max_segments`
    /// times [`mtu`](Self::mtu) bytes, and at least the largest datagram that
    /// [`TransportConfig::max_mtu`](crate::TransportConfig::max_mtu) allows.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        self.lifecycle.timers_mut().on_poll(now);
        if !self.lifecycle.is_open() {
            return self.transmit_close(now, buffer);
        }
        // [9000 8.2.2 at-once]
        if let Some(transmit) = self.transmit_off_path(now, buffer) {
            return Some(transmit);
        }
        self.prepare(now);
        if let Some(transmit) = self.transmit_mtu_probe(now, buffer) {
            return Some(transmit);
        }
        let transmit = self
            .batch(now, buffer, max_segments.max(1))
            .or_else(|| self.transmit_question(now, buffer));
        if transmit.is_none() {
            self.note_bound(now);
            if !self.lifecycle.is_open() {
                return self.transmit_close(now, buffer);
            }
        }
        transmit
    }

    fn batch(&mut self, now: Instant, buffer: &mut [u8], max_segments: usize) -> Option<Transmit> {
        // A receiver is polled after each datagram and has seldom anything to send.
        if !SpaceId::ALL
            .iter()
            .any(|space| self.wants(now, *space, Permit::All))
        {
            return None;
        }
        let mut batch: Option<Transmit> = None;
        for _ in 0..max_segments {
            let (done, size) = match &batch {
                Some(batch) => (batch.len, batch.segment_size),
                None => (0, usize::from(self.datagram_limit())),
            };
            let Some(size) = self.limited_size(now, size) else {
                break;
            };
            let Some(room) = buffer.get_mut(done..done + size) else {
                break;
            };
            let permit = self.permit(now, size);
            let Some(built) = self.datagram(now, room, permit, batch.as_ref()) else {
                break;
            };
            self.on_datagram_sent(built.len);
            let path = self.paths.path();
            let transmit = batch.get_or_insert_with(|| path.transmit(built.ecn, 0, built.len));
            transmit.len += built.len;
            if built.len < size || !built.batches {
                break;
            }
        }
        batch
    }

    /// Largest datagram that is sent now, bytes of UDP payload.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.paths.path().mtu()
    }

    pub(super) fn datagram_limit(&self) -> u16 {
        if !self.spaces.is_probing() {
            self.mtu()
        } else {
            let count = self.spaces.recovery().pto_count();
            self.paths.path().probe_limit(count)
        }
    }

    /// What the amplification limit makes of a datagram of `size` bytes (RFC 9000 §8.1). `None`: it
    /// forbids it.
    fn limited_size(&mut self, now: Instant, size: usize) -> Option<usize> {
        let probes = self.spaces.is_probing();
        let least = Path::least_challenge(self.control.remote_ids.current().id.len());
        let full = self.paths.full_datagram();
        let path = self.paths.path();
        match path.allowance(now, size, probes, [least, full]) {
            Allowance::Bytes(size) => Some(size),
            Allowance::Nothing => None,
            Allowance::Blocked => {
                let recovery = self.spaces.recovery_mut();
                recovery.set_amplification_blocked(now, true);
                None
            }
        }
    }

    /// A PATH_RESPONSE over the path that the peer probes, or a PATH_CHALLENGE over the one that
    /// was left.
    fn transmit_off_path(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.spaces.keys().has(SpaceId::Data) {
            return None;
        }
        let response = self.paths.poll_response(&mut self.control.remote_ids);
        let sent = response.and_then(|frame| self.off_path_datagram(now, buffer, &frame));
        if sent.is_some() {
            return sent;
        }
        let ids = &self.control.remote_ids;
        let challenge = self.paths.poll_challenge(now, ids, &mut self.random)?;
        self.off_path_datagram(now, buffer, &challenge)
    }

    fn off_path_datagram(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        frame: &OffPathFrame,
    ) -> Option<Transmit> {
        let mut w = Writer::new(buffer.get_mut(..frame.size)?);
        let open = self.start_packet(SpaceId::Data, &frame.dcid, &mut w)?;
        frame.frame().encode(&mut w).ok()?;
        let rest = w.remaining();
        w.put_zeros(rest).ok()?;
        let contents = Contents {
            eliciting: true,
            padded: true,
            off_path: true,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut w)?;
        let len = w.position();
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths.on_off_path_sent(now, frame, len as u64);
        Some(Transmit {
            remote: frame.remote,
            local: frame.local,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }

    /// Before a batch: keys that want renewal, and the restart after a pause.
    fn prepare(&mut self, now: Instant) {
        self.prepare_datagrams();
        self.paths.path_mut().poll(now);
        if self.streams.prepare(now) {
            self.ask_for_refused(now);
        }
        let renewed = self.spaces.keys_mut().renew(now);
        self.stats.key_updates += u64::from(renewed);
        if self.spaces.recovery().bytes_in_flight() == 0
            && self.has_data()
            && self.paths.path_mut().restart(now)
        {
            self.after_controller(now);
        }
    }

    /// Data that was refused has a place now. The peer sends it again once a packet is acknowledged
    /// that it sent later: it is asked for one.
    #[cold]
    fn ask_for_refused(&mut self, now: Instant) {
        let received = self.spaces.received_mut(SpaceId::Data);
        if !received.hides_refusals() {
            return;
        }
        received.ask_for_refused(now);
        self.ask_for_packet();
    }

    /// The peer is to send a packet at once.
    pub(super) fn ask_for_packet(&mut self) {
        self.control.ping |= !self.spaces.ask_at_once();
    }

    /// What the window and the pacer allow a datagram of `size` bytes.
    fn permit(&mut self, now: Instant, size: usize) -> Permit {
        // Handshake data does not wait for room: what fills the window may be 1-RTT packets that
        // the peer cannot acknowledge before it has arrived, and no probe timeout runs for those
        // (RFC 9002 §6.2.1).
        let handshake = [SpaceId::Initial, SpaceId::Handshake];
        // A client's challenge does not wait either: an outage leaves the window full, and the path
        // may answer again. Each attempt sends three at most. A server's waits, for its peer
        // decides how often there is one.
        // [9002 7.5 probes-pass]
        if self.spaces.is_probing()
            || self.side.is_client() && self.paths.path().wants_challenge(now)
            || handshake
                .iter()
                .any(|&space| self.spaces.keys().has(space) && self.handshake.can_send(space))
        {
            return Permit::All;
        }
        let in_flight = self.spaces.recovery().bytes_in_flight();
        match self.paths.path_mut().admits(now, size as u64, in_flight) {
            Admission::Now => Permit::All,
            Admission::WindowFull => Permit::AcksOnly,
            Admission::At(at) => {
                self.lifecycle.timers_mut().set(Timer::Pacing, at);
                Permit::AcksOnly
            }
        }
    }

    /// True if `space` has something to put into a packet. Whatever makes it true is then written.
    fn wants(&mut self, now: Instant, space: SpaceId, permit: Permit) -> bool {
        let may = match space {
            SpaceId::Data => self.may_send_data(),
            space => self.spaces.keys().has(space),
        };
        if !may {
            return false;
        }
        self.spaces.received(space).due(now)
            || (permit == Permit::All
                && (self.spaces.probes(space)
                    || self.handshake.can_send(space)
                    || (space == SpaceId::Data && self.wants_data(now))))
    }

    /// True if the Data space has something ack-eliciting other than CRYPTO and probes.
    pub(super) fn wants_data(&mut self, now: Instant) -> bool {
        self.has_data()
            || self.control.is_due()
            || (self.is_complete() && self.spaces.immediate_due())
            || self.paths.path().wants_frames(now)
    }

    /// One datagram of coalesced packets, to follow `batch`. `None`: nothing to send, or nothing
    /// that fits there.
    fn datagram(
        &mut self,
        now: Instant,
        room: &mut [u8],
        permit: Permit,
        batch: Option<&Transmit>,
    ) -> Option<Built> {
        let [initial, handshake, data] = SpaceId::ALL.map(|space| self.wants(now, space, permit));
        if !(initial || handshake || data) {
            return None;
        }
        if let Some(batch) = batch {
            // A batch is of 1-RTT packets with data, alike in size and ECN field.
            let alike = self.paths.path().mark() == batch.ecn;
            let eliciting = permit == Permit::All && self.wants_eliciting(now);
            if initial || handshake || !alike || !eliciting {
                return None;
            }
        }
        // Packets of the handshake are padded by what follows them, which is to be something that
        // surely fits: no long datagram.
        let data = data
            && (self.is_complete()
                || !(initial || handshake)
                || self.streams.wants_to_send()
                || self.spaces.received(SpaceId::Data).due(now));
        let mut building = Building::new(room, permit);
        if initial {
            self.packet(now, SpaceId::Initial, &mut building, handshake || data);
        }
        if handshake && building.w.remaining() >= MIN_PACKET_ROOM {
            self.packet(now, SpaceId::Handshake, &mut building, data);
        }
        if data && building.w.remaining() >= MIN_PACKET_ROOM.min(building.w.limit()) {
            self.packet(now, SpaceId::Data, &mut building, false);
        }
        (building.len() > 0).then(|| Built {
            len: building.len(),
            ecn: building.ecn,
            batches: !building.long && building.eliciting,
        })
    }

    pub(super) fn on_datagram_sent(&mut self, len: usize) {
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths.path_mut().on_datagram_sent(len as u64);
    }

    /// Nothing more leaves: notes why.
    fn note_bound(&mut self, now: Instant) {
        let limit = self.limit();
        if limit == pathmark_cc::Limit::Window && self.is_complete() {
            self.spaces.recovery_mut().note_window_limited();
        } else {
            self.spaces.recovery_mut().note_not_window_limited();
        }
        let explicit = self.paths.path().metrics().explicit;
        let opening = self.streams.waits_to_open();
        self.bounds.set(now, Bound::new(limit, explicit, opening));
    }
}
