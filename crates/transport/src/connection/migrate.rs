//! Paths that change: a NAT that rebinds, a peer that moves, a socket of ours that does (RFC 9000
//! §9).

use std::net::{IpAddr, SocketAddr};

use super::route::{Address, Left, OffPath, OldPath, Route};
use super::{Connection, Event, Received};
use crate::Instant;
use crate::path::{AmplificationLimit, PathResponses, PathValidation};
use crate::recovery::{INITIAL_RTT, PathRecovery};
use crate::wire::{ConnectionId, SpaceId};

/// Where a change of address leads to.
enum Next {
    /// A path of which nothing is known.
    New,
    /// The path that was left a while ago.
    Back(Box<Left>),
    /// The path in use, to another port of the same host.
    Same,
}

/// What may be sent without proof to an address that the peer has left, also when it seems to be
/// back: an initial window (RFC 9002 §7.2).
fn initial_window(mtu: u16) -> u64 {
    let mtu = u64::from(mtu);
    (10 * mtu).min((2 * mtu).max(14_720))
}

impl Connection {
    /// Client: from now on datagrams leave from another address of ours (the driver has rebound its
    /// socket). The path is validated again, with a controller of its own. False if that is not
    /// possible: the handshake is not confirmed, or the server forbids it (RFC 9000 §9.1).
    pub fn migrate(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        let moves = self.leave_for(now, local, false).is_some();
        if moves {
            // There is no way back.
            self.fallback = None;
        }
        moves
    }

    /// The same while the former address is still ours: if the new one gets no answer, the
    /// connection goes on at the last that worked, where it stood; if none is known to work, at the
    /// one before. If that gets no answer either, both are tried by turns.
    pub fn try_address(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        let is_new = self.fallback.is_none() || self.address.validation.is_none();
        let Some((mut address, path)) = self.leave_for(now, local, is_new) else {
            return false;
        };
        if is_new {
            address.validation = None;
            self.fallback = Some(OldPath {
                address,
                path,
                id: None,
            });
        }
        true
    }

    /// Begins a path from `local`; what was left is returned. `keep`: the connection may go back
    /// there. `None`: that is not possible.
    fn leave_for(
        &mut self,
        now: Instant,
        local: Option<IpAddr>,
        keep: bool,
    ) -> Option<(Address, Option<Box<Left>>)> {
        if !self.handshake.is_confirmed() || self.is_migration_forbidden() {
            return None;
        }
        // An id of its own, so that observers cannot link the paths (RFC 9000 §9.5).
        let id = self.control.remote_ids.current();
        if !id.id.is_empty() && !self.control.remote_ids.switch() {
            return None;
        }
        let limit = AmplificationLimit::validated();
        let mut address = Address::new(now, self.address.remote, local, limit);
        address.validation = Some(self.validation(now));
        let left = self.change_address(now, address, Next::New, keep);
        self.feedback.on_new_incoming_path();
        Some(left)
    }

    /// True if this side must never [`migrate`](Self::migrate): it is a server, or its server sent
    /// `disable_active_migration`, as far as that is known (RFC 9000 §9, §18.2).
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
        if self.address.local.is_none() && self.address.validation.is_none() {
            self.address.local = received.local;
        }
        if self.address.is(received.remote, received.local) {
            self.local_id_in_use = *dcid;
            return;
        }
        if self.side.is_client()
            || !self.config.migration && received.remote.ip() != self.address.remote.ip()
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
        let (limit, next) = match self.port_limit(now, received) {
            Some(limit) => (limit, Next::Same),
            None => (AmplificationLimit::new(), Next::New),
        };
        let mut address = Address::new(now, received.remote, received.local, limit);
        address.limit.on_received(self.take_credit(received.remote));
        let probed = self.off_path.take_if(|off| off.remote == received.remote);
        let adopted = probed.is_some_and(|off| {
            if matches!(next, Next::New) {
                address.limit = off.limit;
            }
            address.responses = off.responses;
            // Where no other was to be had, it is the one in use.
            let ids = &mut self.control.remote_ids;
            ids.current().sequence != off.id.sequence && ids.adopt(off.id.sequence)
        });
        if on_purpose && !adopted {
            // Answer with another id of the peer's too (RFC 9000 §9.5).
            self.control.remote_ids.switch();
        }
        address.validation = Some(self.validation(now));
        self.leave_by(now, address, next, on_purpose);
    }

    /// Where nothing but the peer's port has changed, it is most likely a NAT that rebinds:
    /// congestion control, RTT and bytes in flight stand, and the transfer goes on while the
    /// address is validated (RFC 9000 §9.4). The limit of the new port: a window, since what is in
    /// flight to former ports fills it, too. `None`: this is another host, or nothing proves that
    /// the peer is there.
    fn port_limit(&self, now: Instant, received: &Received) -> Option<AmplificationLimit> {
        let is_here = |known: &Address| {
            known.is_known(now) && known.is_same_host(received.remote, received.local)
        };
        let mut before = self.fallback.iter().filter(|old| old.path.is_none());
        if !is_here(&self.address) && !before.any(|old| is_here(&old.address)) {
            return None;
        }
        let limit = self.address.limit;
        Some(match limit.is_lifted() {
            true => AmplificationLimit::lending(self.route.controller.window()),
            false => AmplificationLimit::lending(limit.available()),
        })
    }

    /// True if the peer is back where it left a while ago: that path goes on where it stood, with
    /// what is in flight there. Anyone may have sent a copy of its packets from there, so without
    /// proof an initial window is sent at most.
    fn return_to_old_path(&mut self, now: Instant, received: &Received, on_purpose: bool) -> bool {
        let there = self.fallback.take_if(|old| {
            let address = &old.address;
            address.is_known(now) && address.is(received.remote, received.local)
        });
        let Some(mut old) = there else {
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
        let bytes = self.take_credit(received.remote);
        old.address.limit.on_received(bytes);
        let next = old.path.map_or(Next::Same, Next::Back);
        self.leave_by(now, old.address, next, on_purpose);
        true
    }

    /// Server: moves to `address`. If the peer has proved the one that is left, that is kept, and
    /// challenged: where the packet that moved the connection was a stranger's copy, the peer
    /// answers from there (RFC 9000 §9.3.3). Until it proves to be there, what is sent to that
    /// address has a limit, after a return as well.
    fn leave_by(&mut self, now: Instant, address: Address, next: Next, on_purpose: bool) {
        let keep = self.address.limit.is_validated();
        let shared = self.fallback.as_ref().is_some_and(|old| old.path.is_none());
        let (mut address, path) = self.change_address(now, address, next, keep || shared);
        if !keep {
            // What it shared with the last address that worked belongs to that one now.
            if let (true, Some(path), Some(old)) = (shared, path, &mut self.fallback) {
                old.path = Some(path);
            }
            return;
        }
        if let Some(id) = self.fallback.take().and_then(|older| older.id) {
            self.control.remote_ids.give_up(id.sequence);
        }
        let route = path.as_ref().map_or(&self.route, |left| &left.route);
        if address.limit.lend(initial_window(route.mtud.mtu())) {
            address.proved_from = self.recovery.space(SpaceId::Data).sent().next_number();
        }
        let id = match on_purpose {
            true => self.control.remote_ids.allot(),
            false => None,
        };
        address.validation = (!on_purpose || id.is_some()).then(|| {
            // A peer that moves to and fro is not challenged each time (RFC 9000 §8.2.1).
            let mut validation = self.validation(now);
            if let Some(last) = address.challenged_at {
                validation.wait_since(last);
            }
            validation
        });
        self.fallback = Some(OldPath { address, path, id });
    }

    /// Moves to `address`; what was left is returned, with its path if that is another. `keep`: the
    /// connection may go back there.
    fn change_address(
        &mut self,
        now: Instant,
        mut address: Address,
        next: Next,
        keep: bool,
    ) -> (Address, Option<Box<Left>>) {
        address
            .validation
            .take_if(|_| address.limit.is_validated() && self.side.is_server());
        let left = core::mem::replace(&mut self.address, address);
        let path = match next {
            Next::Same => None,
            Next::New => {
                let mut route = Route::new(now, &self.config);
                self.bound_mtu(&mut route.mtud);
                Some(self.change_route(now, route, None, keep))
            }
            Next::Back(back) => Some(self.change_route(now, back.route, Some(back.recovery), keep)),
        };
        self.tokens_moved = true;
        self.recovery.set_amplification_blocked(now, false);
        self.events.push_back(Event::PathChanged);
        // A server follows packets with more than probing frames in them (RFC 9000 §9.2): here is
        // one, also where there is nothing to send.
        self.control.ping |= self.side.is_client();
        (left, path)
    }

    /// `route` is the current one; the one before is returned.
    fn change_route(
        &mut self,
        now: Instant,
        mut route: Route,
        recovery: Option<PathRecovery>,
        keep: bool,
    ) -> Box<Left> {
        route.ecn.follow(&self.route.ecn);
        let mut before = core::mem::replace(&mut self.route, route);
        before.on_left();
        let recovery = self.recovery.change_path(now, recovery, keep);
        let next = self.recovery.space(SpaceId::Data).sent().next_number();
        self.feedback.on_new_outgoing_path(next);
        self.route.on_mtu_change(now);
        self.after_controller(now);
        Box::new(Left {
            route: before,
            recovery,
        })
    }

    /// The path was found to drop shims. Their losses were no sign of congestion, of a path that
    /// drops ECN marks or of too large a datagram: plain packets measure all three again.
    pub(super) fn begin_plain(&mut self, now: Instant) {
        let mut fresh = Route::new(now, &self.config);
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

    /// The path was found to mark all packets with CE. What the controller took for congestion was
    /// none: it begins again.
    pub(super) fn begin_unmarked(&mut self, now: Instant) {
        let fresh = Route::new(now, &self.config);
        self.route.controller = fresh.controller;
        self.route.pacer = fresh.pacer;
        self.route.on_mtu_change(now);
        self.recovery.disown_in_flight();
    }

    /// A datagram came in: it feeds the amplification limit of its address.
    pub(super) fn note_received_bytes(&mut self, now: Instant, received: &Received, bytes: usize) {
        let bytes = bytes as u64;
        if self.address.is(received.remote, received.local) {
            self.address.limit.on_received(bytes);
            self.recovery.set_amplification_blocked(now, false);
        } else if let Some(off) = &mut self.off_path
            && off.remote == received.remote
        {
            off.limit.on_received(bytes);
        } else {
            self.unknown_source = Some((received.remote, bytes));
        }
    }

    /// Bytes of the datagram at hand, if it is from `remote` and no limit has been fed with it.
    fn take_credit(&mut self, remote: SocketAddr) -> u64 {
        let source = self.unknown_source.take();
        source
            .filter(|(from, _)| *from == remote)
            .map_or(0, |(_, bytes)| bytes)
    }

    /// A PATH_CHALLENGE arrived, in a datagram of `bytes`.
    pub(super) fn on_path_challenge(&mut self, received: &Received, data: [u8; 8], bytes: usize) {
        self.stats.path_challenges += 1;
        let full_size = bytes >= self.full_datagram();
        if self.address.is(received.remote, received.local) {
            self.address.responses.on_challenge(data, full_size);
            // A peer that sends by a new path challenges it: its later shims describe that path.
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
            let mut limit = AmplificationLimit::new();
            limit.on_received(self.take_credit(received.remote));
            self.off_path = Some(OffPath {
                remote: received.remote,
                local: received.local,
                limit,
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
        let answered = |address: &Address| {
            let validation = address.validation.as_ref();
            validation.and_then(|validation| validation.on_response(now, data))
        };
        let Some(validated) = answered(&self.address) else {
            if let Some(old) = &mut self.fallback
                && answered(&old.address).is_some()
            {
                old.address.validation = None;
                old.address.prove(now);
            }
            return;
        };
        self.address.local = self.address.local.or(received.local);
        self.address.prove(now);
        self.recovery.set_amplification_blocked(now, false);
        // Too small a challenge proves the address, but not that the path carries QUIC (RFC 9000
        // §8.2.1).
        self.address.validation = (!validated.full_size).then(|| self.validation(now));
        if validated.full_size {
            self.stats.migrations += 1;
            if self.side.is_client() {
                self.fallback = None;
            }
        }
    }

    /// A path without an answer is given up for the last one that worked.
    pub(super) fn check_validation(&mut self, now: Instant) {
        let failed = |validation: &mut PathValidation| validation.failed(now);
        if self.address.validation.take_if(failed).is_none() {
            return;
        }
        if self.side.is_server() && self.address.limit.is_validated() {
            return;
        }
        let Some(old) = self.fallback.take() else {
            return;
        };
        if let Some(id) = old.id {
            self.control.remote_ids.adopt(id.sequence);
        }
        let next = old.path.map_or(Next::Same, Next::Back);
        let keep = self.side.is_client();
        let (address, path) = self.change_address(now, old.address, next, keep);
        if self.side.is_client() {
            self.control.remote_ids.switch();
            self.feedback.on_new_incoming_path();
            // Perhaps nothing works for a while: then they are tried alternately.
            self.address.validation = Some(self.validation(now));
            self.fallback = Some(OldPath {
                address,
                path,
                id: None,
            });
        }
    }
}
