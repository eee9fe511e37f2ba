//! Paths that change: a NAT that rebinds, a peer that moves, a socket of ours that does (RFC 9000 §9).

use std::net::{IpAddr, SocketAddr};

use super::building::{Building, Contents};
use super::route::{OffPath, Route};
use super::transmit::Permit;
use super::{Connection, Event, Received, Transmit};
use crate::path::{AmplificationLimit, PathResponses, PathValidation};
use crate::recovery::INITIAL_RTT;
use crate::wire::packet::MIN_INITIAL_DATAGRAM;
use crate::wire::{ConnectionId, Frame, SpaceId, Writer};
use crate::{Ecn, Instant};

impl Connection {
    /// Client: from now on datagrams leave from another address of ours (the driver has rebound its socket).
    /// The path is validated anew, with a controller of its own. False if that is not possible: the handshake
    /// is not confirmed, or the server forbids it (RFC 9000 §9.1).
    pub fn migrate(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        let forbidden = self
            .parameters
            .peer
            .as_ref()
            .is_none_or(|p| p.disable_active_migration);
        if !self.side.is_client() || !self.handshake.is_confirmed() || forbidden {
            return false;
        }
        // An id of its own, so that observers cannot link the paths (RFC 9000 §9.5).
        let id = self.control.remote_ids.current();
        if !id.id.is_empty() && !self.control.remote_ids.switch() {
            return false;
        }
        let mut route = Route::new(now, self.route.remote, local, true, &self.config);
        route.validation = Some(self.validation(now));
        self.change_route(now, route);
        self.feedback.on_new_incoming_path();
        true
    }

    fn validation(&self, now: Instant) -> PathValidation {
        // The RTT of the new path is unknown (RFC 9000 §8.2.4).
        PathValidation::new(now, self.pto().max(INITIAL_RTT.saturating_mul(3)))
    }

    /// The newest packet of the peer, with more than probing frames in it, came by `received`: if that is
    /// another path, the connection moves there (RFC 9000 §9.3).
    pub(super) fn follow_peer(&mut self, now: Instant, received: &Received, dcid: &ConnectionId) {
        if self.route.local.is_none() {
            self.route.local = received.local;
        }
        if self.route.is(received.remote, received.local) {
            self.local_id_in_use = *dcid;
            return;
        }
        if self.side.is_client()
            || !self.config.migration && received.remote.ip() != self.route.remote.ip()
        {
            return;
        }
        if self.local_id_in_use != *dcid {
            // The peer moved on purpose; answer with another id of its too (RFC 9000 §9.5).
            self.local_id_in_use = *dcid;
            self.control.remote_ids.switch();
            // A peer whose NAT rebinds knows of no other path, and its totals go on.
            self.feedback.on_new_incoming_path();
        }
        let mut route = Route::new(now, received.remote, received.local, false, &self.config);
        match self.off_path.take() {
            Some(off) if off.remote == received.remote => {
                route.limit = off.limit;
                route.responses = off.responses;
                self.control.remote_ids.adopt(off.id.sequence);
            }
            other => {
                self.off_path = other;
                route.limit = self.stray_limit(received.remote);
            }
        }
        route.validation = Some(self.validation(now));
        let old = self.change_route(now, route);
        if old.limit.is_validated() {
            self.fallback = Some(old);
        }
    }

    /// Moves to `route`; the old one is returned.
    fn change_route(&mut self, now: Instant, mut route: Route) -> Route {
        if let Some(peer) = &self.parameters.peer {
            route.mtud.set_peer_limit(peer.max_udp_payload_size);
        }
        route.ecn.follow(&self.route.ecn);
        let old = core::mem::replace(&mut self.route, route);
        self.recovery.on_path_change(now);
        let next = self.recovery.space(SpaceId::Data).sent().next_number();
        self.feedback.on_new_outgoing_path(next);
        self.route.on_mtu_change(now);
        self.after_controller(now);
        self.events.push_back(Event::PathChanged);
        old
    }

    /// The path was found to swallow shims. Their losses were no sign of congestion, of a path that drops ECN marks
    /// or of too large a datagram: all this is learnt anew, from plain packets.
    pub(super) fn begin_plain(&mut self, now: Instant) {
        let (remote, local) = (self.route.remote, self.route.local);
        let mut fresh = Route::new(now, remote, local, true, &self.config);
        if let Some(peer) = &self.parameters.peer {
            fresh.mtud.set_peer_limit(peer.max_udp_payload_size);
        }
        fresh.ecn.follow(&self.route.ecn);
        let route = &mut self.route;
        route.controller = fresh.controller;
        route.pacer = fresh.pacer;
        route.mtud = fresh.mtud;
        route.ecn = fresh.ecn;
        route.on_mtu_change(now);
        self.recovery.disown_in_flight();
    }

    /// A datagram came in: it feeds the amplification limit of its address.
    pub(super) fn note_received_bytes(&mut self, now: Instant, received: &Received, bytes: usize) {
        let bytes = bytes as u64;
        if self.route.is(received.remote, received.local) {
            self.route.limit.on_received(bytes);
            self.recovery.set_amplification_blocked(now, false);
        } else if let Some(off) = &mut self.off_path
            && off.remote == received.remote
        {
            off.limit.on_received(bytes);
        } else {
            self.stray = Some((received.remote, bytes));
        }
    }

    /// The limit of a new address, which the datagram at hand has fed.
    fn stray_limit(&mut self, remote: SocketAddr) -> AmplificationLimit {
        let mut limit = AmplificationLimit::new();
        if let Some((from, bytes)) = self.stray.take()
            && from == remote
        {
            limit.on_received(bytes);
        }
        limit
    }

    pub(super) fn on_path_challenge(&mut self, received: &Received, data: [u8; 8]) {
        if self.route.is(received.remote, received.local) {
            self.route.responses.on_challenge(data);
            // Whoever sends by a new path challenges it: from here on its shims tell of that one.
            self.feedback.on_new_incoming_path();
            return;
        }
        let known = self
            .off_path
            .as_ref()
            .is_some_and(|off| off.remote == received.remote);
        if !known {
            if let Some(old) = self.off_path.take() {
                self.control.remote_ids.give_up(old.id.sequence);
            }
            let Some(id) = self.control.remote_ids.allot() else {
                return;
            };
            self.off_path = Some(OffPath {
                remote: received.remote,
                local: received.local,
                limit: self.stray_limit(received.remote),
                responses: PathResponses::new(),
                id,
            });
        }
        if let Some(off) = &mut self.off_path {
            off.responses.on_challenge(data);
        }
    }

    pub(super) fn on_path_response(&mut self, now: Instant, data: [u8; 8]) {
        let Some(validation) = &self.route.validation else {
            return;
        };
        let Some(validated) = validation.on_response(now, data) else {
            return;
        };
        self.route.limit.validate();
        self.recovery.set_amplification_blocked(now, false);
        self.fallback = None;
        // Too small a challenge proves the address, but not that the path carries QUIC (RFC 9000 §8.2.1).
        self.route.validation = (!validated.full_size).then(|| self.validation(now));
        if validated.full_size {
            self.stats.migrations += 1;
        }
    }

    /// A path that nobody answers on is given up for the last one that worked.
    pub(super) fn check_validation(&mut self, now: Instant) {
        let failed = self
            .route
            .validation
            .as_ref()
            .is_some_and(|v| v.failed(now));
        if !failed {
            return;
        }
        self.route.validation = None;
        if let Some(fallback) = self.fallback.take() {
            self.change_route(now, fallback);
        }
    }

    /// PATH_CHALLENGE and PATH_RESPONSE of the current path. True if the datagram must be of full size
    /// (RFC 9000 §8.2.1, §8.2.2).
    pub(super) fn write_path_frames(&mut self, now: Instant, w: &mut Writer<'_>) -> bool {
        let start = w.position();
        while w.remaining() >= 9
            && let Some(data) = self.route.responses.pop()
        {
            let _ = Frame::PathResponse(data).encode(w);
        }
        let full_size = w.limit() + 16 >= MIN_INITIAL_DATAGRAM;
        if let Some(validation) = &mut self.route.validation
            && validation.wants_challenge(now)
        {
            let data = self.random.bytes();
            if Frame::PathChallenge(data).encode(w).is_ok() {
                validation.on_challenge_sent(now, data, full_size);
                self.feedback.on_challenge_sent();
            }
        }
        full_size && w.position() > start
    }

    /// A response over another path than the current one.
    pub(super) fn transmit_off_path(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let off = self.off_path.as_mut()?;
        let size = usize::try_from(off.limit.available())
            .unwrap_or(usize::MAX)
            .min(MIN_INITIAL_DATAGRAM);
        if off.responses.is_empty() || size < 64 || !self.keys.has(SpaceId::Data) {
            return None;
        }
        let (remote, local, dcid) = (off.remote, off.local, off.id.id);
        let data = off.responses.pop()?;
        let room = buffer.get_mut(..size)?;
        let mut building = Building::new(room, Permit::All);
        let open = self.start_packet(SpaceId::Data, &dcid, &mut building.w)?;
        Frame::PathResponse(data).encode(&mut building.w).ok()?;
        let rest = building.w.remaining();
        building.w.put_zeros(rest).ok()?;
        let contents = Contents {
            eliciting: true,
            padded: true,
            off_path: true,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut building.w)?;
        let len = building.len();
        if let Some(off) = &mut self.off_path {
            off.limit.on_sent(len as u64);
        }
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        Some(Transmit {
            remote,
            local,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }
}
