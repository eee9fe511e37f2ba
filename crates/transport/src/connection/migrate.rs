//! Paths that change: a NAT that rebinds, a peer that moves, a socket of ours that does (RFC 9000
//! §9).

use std::net::{IpAddr, SocketAddr};

use super::route::{OffPath, OldPath, Route};
use super::{Connection, Event, Received};
use crate::Instant;
use crate::path::{AmplificationLimit, PathResponses, PathValidation};
use crate::recovery::INITIAL_RTT;
use crate::wire::{ConnectionId, SpaceId};

impl Connection {
    /// Client: from now on datagrams leave from another address of ours (the driver has rebound its
    /// socket). The path is validated anew, with a controller of its own. False if that is not
    /// possible: the handshake is not confirmed, or the server forbids it (RFC 9000 §9.1).
    pub fn migrate(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        let moves = self.leave_for(now, local).is_some();
        if moves {
            // There is no way back.
            self.fallback = None;
        }
        moves
    }

    /// The same while the former address is still ours: if nobody answers at the new one, the
    /// connection goes on at the last that worked, where it stood; if none is known to work, at the
    /// one before. If nobody answers there either, both are tried by turns.
    pub fn try_address(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        let Some(mut left) = self.leave_for(now, local) else {
            return false;
        };
        if left.validation.take().is_none() || self.fallback.is_none() {
            self.fallback = Some(OldPath {
                route: left,
                id: None,
            });
        }
        true
    }

    /// Begins a path from `local`; the one before is returned. `None`: that is not possible.
    fn leave_for(&mut self, now: Instant, local: Option<IpAddr>) -> Option<Route> {
        if !self.handshake.is_confirmed() || self.is_migration_forbidden() {
            return None;
        }
        // An id of its own, so that observers cannot link the paths (RFC 9000 §9.5).
        let id = self.control.remote_ids.current();
        if !id.id.is_empty() && !self.control.remote_ids.switch() {
            return None;
        }
        let mut route = Route::new(now, self.route.remote, local, true, &self.config);
        route.validation = Some(self.validation(now));
        let left = self.change_route(now, route);
        self.feedback.on_new_incoming_path();
        Some(left)
    }

    /// True if this side must never [`migrate`](Self::migrate): it is a server, or its server said
    /// so, as far as that is known (RFC 9000 §9, §18.2).
    #[must_use]
    pub fn is_migration_forbidden(&self) -> bool {
        let peer = self.parameters.peer.as_ref();
        !self.side.is_client() || peer.is_some_and(|p| p.disable_active_migration)
    }

    fn validation(&self, now: Instant) -> PathValidation {
        // The RTT of the new path is unknown (RFC 9000 §8.2.4). What was measured on the one before
        // may be far too long, where a host stood still in between: three periods are to end well
        // within the idle timeout, of which some has passed.
        let period = self.pto().min(self.recovery.longest_pto() / 2);
        PathValidation::new(now, period.max(INITIAL_RTT.saturating_mul(3)))
    }

    /// The newest packet of the peer, with more than probing frames in it, came by `received`: if
    /// that is another path, the connection moves there (RFC 9000 §9.3).
    pub(super) fn follow_peer(&mut self, now: Instant, received: &Received, dcid: &ConnectionId) {
        // What comes while a path is new may be late, and have gone to the address that was left.
        if self.route.local.is_none() && self.route.validation.is_none() {
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
        let on_purpose = self.local_id_in_use != *dcid;
        if on_purpose {
            self.local_id_in_use = *dcid;
            // A peer whose NAT rebinds knows of no other path, and its totals go on.
            self.feedback.on_new_incoming_path();
        }
        if self.return_to_old_path(now, received, on_purpose) {
            return;
        }
        let mut route = Route::new(now, received.remote, received.local, false, &self.config);
        let probed = self.off_path.take_if(|off| off.remote == received.remote);
        let adopted = match probed {
            Some(off) => {
                route.limit = off.limit;
                route.responses = off.responses;
                // Where no other was to be had, it is the one in use.
                let ids = &mut self.control.remote_ids;
                ids.current().sequence != off.id.sequence && ids.adopt(off.id.sequence)
            }
            None => {
                route.limit = self.stray_limit(received.remote);
                false
            }
        };
        if on_purpose && !adopted {
            // Answer with another id of the peer's too (RFC 9000 §9.5).
            self.control.remote_ids.switch();
        }
        route.validation = Some(self.validation(now));
        let left = self.change_route(now, route);
        self.leave(now, left, on_purpose);
    }

    /// True if the peer is back on the path that it left a while ago: that goes on where it stood.
    fn return_to_old_path(&mut self, now: Instant, received: &Received, on_purpose: bool) -> bool {
        let there = self
            .fallback
            .take_if(|old| old.is_known(now) && old.route.is(received.remote, received.local));
        let Some(old) = there else {
            return false;
        };
        match old.id {
            Some(id) if self.control.remote_ids.adopt(id.sequence) => {}
            _ if on_purpose => {
                self.control.remote_ids.switch();
            }
            _ => {}
        }
        let probed = self.off_path.take_if(|off| off.remote == received.remote);
        if let Some(off) = probed {
            self.control.remote_ids.give_up(off.id.sequence);
        }
        let left = self.change_route(now, old.route);
        self.leave(now, left, on_purpose);
        true
    }

    /// The path `left` was the current one. If it worked it is kept, and challenged: where the
    /// packet that moved the connection was a stranger's copy, the peer answers from there (RFC
    /// 9000 §9.3.3).
    fn leave(&mut self, now: Instant, mut left: Route, on_purpose: bool) {
        if !left.limit.is_validated() {
            return;
        }
        if let Some(id) = self.fallback.take().and_then(|older| older.id) {
            self.control.remote_ids.give_up(id.sequence);
        }
        let id = match on_purpose {
            true => self.control.remote_ids.allot(),
            false => None,
        };
        left.validation = (!on_purpose || id.is_some()).then(|| {
            // A peer that moves to and fro is not challenged each time (RFC 9000 §8.2.1).
            let mut validation = self.validation(now);
            if let Some(last) = left.challenged_at {
                validation.wait_since(last);
            }
            validation
        });
        self.fallback = Some(OldPath { route: left, id });
    }

    /// Moves to `route`; the old one is returned.
    fn change_route(&mut self, now: Instant, mut route: Route) -> Route {
        self.bound_mtu(&mut route.mtud);
        route.ecn.follow(&self.route.ecn);
        route
            .validation
            .take_if(|_| route.limit.is_validated() && self.side.is_server());
        let mut old = core::mem::replace(&mut self.route, route);
        old.on_left();
        self.tokens_moved = true;
        self.recovery.on_path_change(now);
        self.recovery.set_amplification_blocked(now, false);
        let next = self.recovery.space(SpaceId::Data).sent().next_number();
        self.feedback.on_new_outgoing_path(next);
        self.route.on_mtu_change(now);
        self.after_controller(now);
        self.events.push_back(Event::PathChanged);
        // A server follows packets with more than probing frames in them (RFC 9000 §9.2): here is
        // one, also where there is nothing to say.
        self.control.ping |= self.side.is_client();
        old
    }

    /// The path was found to swallow shims. Their losses were no sign of congestion, of a path that
    /// drops ECN marks or of too large a datagram: all this is learnt anew, from plain packets.
    pub(super) fn begin_plain(&mut self, now: Instant) {
        let (remote, local) = (self.route.remote, self.route.local);
        let mut fresh = Route::new(now, remote, local, true, &self.config);
        self.bound_mtu(&mut fresh.mtud);
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

    /// A PATH_CHALLENGE arrived, in a datagram of `bytes`.
    pub(super) fn on_path_challenge(&mut self, received: &Received, data: [u8; 8], bytes: usize) {
        self.stats.path_challenges += 1;
        let full_size = bytes >= self.full_datagram();
        if self.route.is(received.remote, received.local) {
            self.route.responses.on_challenge(data, full_size);
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
            self.tokens_moved = true;
            self.off_path = Some(OffPath {
                remote: received.remote,
                local: received.local,
                limit: self.stray_limit(received.remote),
                responses: PathResponses::new(),
                id,
            });
        }
        if let Some(off) = &mut self.off_path {
            off.responses.on_challenge(data, full_size);
        }
    }

    /// A PATH_RESPONSE arrived. It comes to where its challenge left from (RFC 9000 §8.2.2).
    pub(super) fn on_path_response(&mut self, now: Instant, received: &Received, data: [u8; 8]) {
        let answered = |route: &Route| {
            let validation = route.validation.as_ref();
            validation.and_then(|validation| validation.on_response(now, data))
        };
        let Some(validated) = answered(&self.route) else {
            if let Some(old) = &mut self.fallback
                && answered(&old.route).is_some()
            {
                old.route.validation = None;
                old.route.proved_at = now;
            }
            return;
        };
        self.route.proved_at = now;
        self.route.local = self.route.local.or(received.local);
        self.route.limit.validate();
        self.recovery.set_amplification_blocked(now, false);
        // Too small a challenge proves the address, but not that the path carries QUIC (RFC 9000
        // §8.2.1).
        self.route.validation = (!validated.full_size).then(|| self.validation(now));
        if validated.full_size {
            self.stats.migrations += 1;
            if self.side.is_client() {
                self.fallback = None;
            }
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
        if self.side.is_server() && self.route.limit.is_validated() {
            return;
        }
        if let Some(old) = self.fallback.take() {
            if let Some(id) = old.id {
                self.control.remote_ids.adopt(id.sequence);
            }
            let left = self.change_route(now, old.route);
            if self.side.is_client() {
                self.control.remote_ids.switch();
                self.feedback.on_new_incoming_path();
                // Perhaps nothing works for a while: then they are tried by turns.
                self.route.validation = Some(self.validation(now));
                self.fallback = Some(OldPath {
                    route: left,
                    id: None,
                });
            }
        }
    }
}
