//! Datagrams out: what may leave now, and into which batch it goes.
//!
//! One pass asks in a fixed order: for a datagram over another path, a probe for a larger datagram,
//! a batch of packets, a question for a starting rate. The [parts](Sending) say what they have.

use super::Transmit;
use super::bounds::Bound;
use super::building::{MIN_PACKET_ROOM, PacketBuilder, Permit};
use super::lifecycle::Lifecycle;
use super::paths::{Admission, Allowance, Paths, least_challenge};
use super::sources::Sources;
use super::spaces::PacketSpaces;
use super::stats::Stats;
use super::timers::Timer;
use crate::crypto::{Random, Side};
use crate::wire::{SpaceId, TransportError};
use crate::{Ecn, Instant};

/// The parts that datagrams are built from, for one pass.
pub(super) struct Sending<'a> {
    pub(super) now: Instant,
    pub(super) side: Side,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) stats: &'a mut Stats,
    pub(super) random: &'a mut Random,
    /// Why a packet could not be sealed, which ends the connection.
    pub(super) failed: Option<TransportError>,
}

/// A datagram that was built.
#[derive(Clone, Copy, Debug)]
struct Built {
    len: usize,
    ecn: Ecn,
    /// Another may follow in the batch.
    batches: bool,
}

impl Sending<'_> {
    /// Datagrams of a connection that is open. `None`: nothing to send.
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

    /// Before a batch: keys that want renewal, the restart after a pause, and flows that begin.
    fn prepare(&mut self) {
        let now = self.now;
        let path = self.paths.path_mut();
        self.sources.drop_long_datagrams(path);
        path.route_mut().poll(now);
        self.sources.streams.prepare();
        let renewed = self.spaces.keys_mut().renew(now);
        self.stats.key_updates += u64::from(renewed);
        let recovery = self.spaces.recovery();
        let srtt = recovery.rtt().srtt();
        let path = self.paths.path_mut();
        let restarts = recovery.bytes_in_flight() == 0
            && self.sources.has_data()
            && path.route_mut().restart(now);
        let starts = self.sources.streams.account.take_starts();
        if let Some(srtt) = srtt.filter(|_| starts > 0) {
            path.route_mut().on_starts(now, starts, srtt);
        }
        if restarts || starts > 0 {
            self.sources.follow_window(now, srtt, path);
        }
    }

    fn batch(&mut self, buffer: &mut [u8], max_segments: usize) -> Option<Transmit> {
        // A receiver is polled after each datagram and has seldom anything to send.
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
            // The first datagram sets the size of those that follow: the kernel cuts a batch into
            // segments of one size, and only the last may be shorter. A probe sets none, because
            // the next one may have to carry more.
            let sets_size = batch.is_none() && !self.spaces.is_probing();
            let Some(built) = self.datagram(room, permit, batch.as_ref()) else {
                break;
            };
            self.on_datagram_sent(built.len);
            let path = self.paths.path();
            let transmit = batch.get_or_insert_with(|| path.transmit(built.ecn, 0, built.len));
            transmit.len += built.len;
            if !built.batches || (built.len < size && !sets_size) {
                break;
            }
        }
        batch
    }

    fn datagram_limit(&self) -> u16 {
        let path = self.paths.path();
        if self.spaces.is_probing() {
            path.route().probe_limit(self.spaces.recovery().pto_count())
        } else {
            path.mtu()
        }
    }

    /// What the amplification limit makes of a datagram of `size` bytes (RFC 9000 §8.1). `None`: it
    /// forbids it.
    fn limited_size(&mut self, size: usize) -> Option<usize> {
        let probes = self.spaces.is_probing();
        let least = least_challenge(self.sources.control.remote_ids.current().id.len());
        let full = self.paths.full_datagram();
        let path = self.paths.path();
        match path
            .address()
            .allowance(self.now, size, probes, [least, full])
        {
            Allowance::Bytes(size) => Some(size),
            Allowance::Nothing => None,
            Allowance::Blocked => {
                let recovery = self.spaces.recovery_mut();
                recovery.set_amplification_blocked(self.now, true);
                None
            }
        }
    }

    /// What the window and the pacer allow a datagram of `size` bytes.
    fn permit(&mut self, size: usize) -> Permit {
        let now = self.now;
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
            || handshake.iter().any(|&space| {
                self.spaces.keys().has(space) && self.sources.handshake.crypto.can_send(space)
            })
        {
            return Permit::All;
        }
        let in_flight = self.spaces.recovery().bytes_in_flight();
        match self
            .paths
            .path_mut()
            .route_mut()
            .admits(now, size as u64, in_flight)
        {
            Admission::Now => Permit::All,
            Admission::WindowFull => Permit::AcksOnly,
            Admission::At(at) => {
                self.lifecycle.timers_mut().set(Timer::Pacing, at);
                Permit::AcksOnly
            }
        }
    }

    /// True if `space` has something to put into a packet. Whatever makes it true is then written.
    fn wants(&mut self, space: SpaceId, permit: Permit) -> bool {
        let complete = self.sources.handshake.is_complete();
        self.spaces.may_send(space, complete)
            && (self.spaces.received(space).due(self.now)
                || (permit == Permit::All && self.wants_eliciting(space)))
    }

    /// True if a packet of `space` would hold something ack-eliciting.
    pub(super) fn wants_eliciting(&mut self, space: SpaceId) -> bool {
        let path = self.paths.path();
        self.spaces.probes(space) || self.sources.have_frames(self.now, space, path)
    }

    /// One datagram of coalesced packets, to follow `batch`. `None`: nothing to send, or nothing
    /// that fits there.
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
            // A batch is of 1-RTT packets with data, alike in size and ECN field.
            let alike = self.paths.path().mark() == batch.ecn;
            let eliciting = permit == Permit::All && self.wants_eliciting(SpaceId::Data);
            if initial || handshake || !alike || !eliciting {
                return None;
            }
        }
        // Packets of the handshake are padded by what follows them, which is to be something that
        // surely fits: no long datagram.
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

    /// A datagram left over the path in use.
    pub(super) fn on_datagram_sent(&mut self, len: usize) {
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        self.paths
            .path_mut()
            .address_mut()
            .on_datagram_sent(len as u64);
    }

    /// Nothing more leaves: what bounds the sender.
    pub(super) fn bound(&mut self) -> Bound {
        let limit = self.sources.limit();
        let recovery = self.spaces.recovery_mut();
        if limit == pathmark_cc::Limit::Window && self.sources.handshake.is_complete() {
            recovery.note_window_limited();
        } else {
            recovery.note_not_window_limited();
        }
        let explicit = self.paths.path().route().metrics().explicit;
        Bound::new(
            limit,
            explicit,
            self.sources.streams.opening.is_waited_for(),
        )
    }
}
