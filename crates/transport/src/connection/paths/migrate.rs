//! Changes of path: a NAT rebinds, the peer migrates, or our socket gets another address (RFC 9000
//! §9).

use std::net::IpAddr;

use super::route::Route;
use super::{Address, Left, Move, OldPath, Others, Paths};
use crate::Instant;
use crate::connection::Received;
use crate::path::{AmplificationLimit, PathValidation};
use crate::recovery::{INITIAL_RTT, PathRecovery};
use crate::wire::{ConnectionId, SpaceId};

/// The path to which a change of address leads.
enum Next {
    /// An unknown path.
    New,
    /// The path that was left earlier.
    Back(Box<Left>),
    /// The current path, but to another port of the same host.
    Same,
}

impl Next {
    const fn moved(&self) -> Move {
        match self {
            Self::New | Self::Back(_) => Move::OtherPath,
            Self::Same => Move::OtherPort,
        }
    }
}

/// Returns the number of bytes that may be sent without proof to an address that the peer has left,
/// even if it seems to have returned. This is an initial window (RFC 9002 §7.2).
fn initial_window(mtu: u16) -> u64 {
    let mtu = u64::from(mtu);
    (10 * mtu).min((2 * mtu).max(14_720))
}

impl<F> Others<'_, F> {
    pub(super) fn validation(&self, now: Instant) -> PathValidation {
        // The RTT of the new path is unknown (RFC 9000 §8.2.4). The measurements of the previous
        // path may be far too long, for example if a host was suspended in between, but three
        // periods should end well within the idle timeout, part of which has already passed.
        let pto = self.recovery.pto().min(self.longest_pto);
        let period = pto.min(self.recovery.longest_pto() / 2);
        // [9000 9.4 challenge-timer]
        PathValidation::new(now, period.max(INITIAL_RTT.saturating_mul(3)))
    }
}

impl Paths {
    /// Client: sends datagrams from another of our addresses from now on. The path is validated
    /// again and gets its own controller. If `back` is true, the former address is still ours: if
    /// the new one doesn't get an answer, the connection returns to the last that worked, with its
    /// former state; if none is known to work, it returns to the previous one. If that doesn't get
    /// an answer either, it tries both alternately. Returns [`Move::Stays`] if the peer hasn't
    /// provided an ID for another path.
    pub(in crate::connection) fn move_to<F>(
        &mut self,
        now: Instant,
        local: Option<IpAddr>,
        back: bool,
        mut others: Others<'_, F>,
    ) -> Move {
        // A different ID prevents observers from linking the paths (RFC 9000 §9.5).
        // [9000 9.5 id-per-local-address]
        if !others.ids.current().id.is_empty() && !others.ids.switch() {
            return Move::Stays;
        }
        let is_new = self.fallback.is_none() || self.path.address.validation.is_none();
        let limit = AmplificationLimit::validated();
        let mut address = Address::new(now, self.path.remote(), local, limit);
        address.validation = Some(others.validation(now));
        let keep = back && is_new;
        let (mut address, path) = self.change_address(now, address, Next::New, keep, &mut others);
        self.path.feedback.on_new_incoming_path();
        if keep {
            address.validation = None;
            self.fallback = Some(OldPath {
                address,
                path,
                id: None,
            });
        } else if !back {
            // The former address is gone, so returning isn't possible.
            self.fallback = None;
        }
        Move::OtherPath
    }

    /// Follows the peer if its newest packet with a non-probing frame, which arrived as `received`
    /// describes, came over another path (RFC 9000 §9.3).
    pub(in crate::connection) fn follow_peer<F>(
        &mut self,
        now: Instant,
        received: &Received,
        dcid: &ConnectionId,
        mut others: Others<'_, F>,
    ) -> Move {
        // A packet that arrives while a path is new may be late and have been sent to the previous
        // address.
        let current = &mut self.path.address;
        if current.local.is_none() && current.validation.is_none() {
            current.local = received.local;
        }
        if current.is(received.remote, received.local) {
            self.local_id_in_use = *dcid;
            return Move::Stays;
        }
        if self.side.is_client()
            // [9000 9 disabled-but-moved]
            || !self.config.migration && received.remote.ip() != current.remote.ip()
        {
            return Move::Stays;
        }
        let on_purpose = self.local_id_in_use != *dcid;
        if on_purpose {
            self.local_id_in_use = *dcid;
            // A peer whose NAT rebinds isn't aware of another path, so its totals continue.
            self.path.feedback.on_new_incoming_path();
        }
        if let Some(moved) = self.return_to_old_path(now, received, on_purpose, &mut others) {
            return moved;
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
            // If no other ID was available, this is the current one.
            let ids = &mut *others.ids;
            ids.current().sequence != off.id.sequence && ids.adopt(off.id.sequence)
        });
        // [9000 9.5 id-per-destination]
        if on_purpose && !adopted {
            // Answer with another of the peer's IDs, too (RFC 9000 §9.5).
            others.ids.switch();
        }
        // [9000 9 validate-changes]
        address.validation = Some(others.validation(now));
        self.leave_by(now, address, next, on_purpose, &mut others)
    }

    /// If only the peer's port has changed, a NAT has most likely been rebound. Congestion control,
    /// RTT and bytes in flight are therefore kept, and the transfer continues while the address is
    /// validated (RFC 9000 §9.4). Returns the limit for the new port, which is a window because
    /// it includes the bytes in flight to former ports. Returns `None` if this is another host, or
    /// if nothing proves that the peer is there.
    fn port_limit(&self, now: Instant, received: &Received) -> Option<AmplificationLimit> {
        let is_here = |known: &Address| {
            known.is_known(now) && known.is_same_host(received.remote, received.local)
        };
        let mut before = self.fallback.iter().filter(|old| old.path.is_none());
        if !is_here(&self.path.address) && !before.any(|old| is_here(&old.address)) {
            return None;
        }
        let limit = self.path.address.limit;
        Some(if limit.is_lifted() {
            AmplificationLimit::lending(self.path.window())
        } else {
            AmplificationLimit::lending(limit.available())
        })
    }

    /// Continues on the path that the peer left earlier, with its former state and bytes in flight,
    /// if the peer has returned there. Because anyone may have sent a copy of its packets from
    /// there, only an initial window is sent without proof.
    fn return_to_old_path<F>(
        &mut self,
        now: Instant,
        received: &Received,
        on_purpose: bool,
        others: &mut Others<'_, F>,
    ) -> Option<Move> {
        let there = self.fallback.take_if(|old| {
            let address = &old.address;
            address.is_known(now) && address.is(received.remote, received.local)
        });
        let mut old = there?;
        match old.id {
            Some(id) if others.ids.adopt(id.sequence) => {}
            _ if on_purpose => {
                others.ids.switch();
            }
            _ => {}
        }
        let probed = self.off_path.take_if(|off| off.remote == received.remote);
        if let Some(off) = probed {
            others.ids.give_up(off.id.sequence);
        }
        let bytes = self.take_credit(received.remote);
        old.address.limit.on_received(bytes);
        let next = old.path.map_or(Next::Same, Next::Back);
        Some(self.leave_by(now, old.address, next, on_purpose, others))
    }

    /// Server: moves to `address`. If the peer has proved the previous address, this address is
    /// kept and challenged: if the packet that moved the connection was a copy sent by someone
    /// else, the peer answers from there (RFC 9000 §9.3.3). Until the peer proves its presence, the
    /// bytes sent to that address are limited, even after a return.
    fn leave_by<F>(
        &mut self,
        now: Instant,
        address: Address,
        next: Next,
        on_purpose: bool,
        others: &mut Others<'_, F>,
    ) -> Move {
        let moved = next.moved();
        let keep = self.path.is_validated();
        let shared = self.fallback.as_ref().is_some_and(|old| old.path.is_none());
        let (mut address, path) = self.change_address(now, address, next, keep || shared, others);
        if !keep {
            // The state shared with the last address that worked now belongs to that address.
            if let (true, Some(path), Some(old)) = (shared, path, &mut self.fallback) {
                old.path = Some(path);
            }
            return moved;
        }
        if let Some(id) = self.fallback.take().and_then(|older| older.id) {
            others.ids.give_up(id.sequence);
        }
        let route = path.as_ref().map_or(&self.path.route, |left| &left.route);
        if address.limit.lend(initial_window(route.mtud.mtu())) {
            address.proved_from = others.recovery.space(SpaceId::Data).sent().next_number();
        }
        let id = if on_purpose { others.ids.allot() } else { None };
        // [9000 9.3.3 old-path]
        address.validation = (!on_purpose || id.is_some()).then(|| {
            // A peer that moves back and forth isn't challenged each time (RFC 9000 §8.2.1).
            let mut validation = others.validation(now);
            if let Some(last) = address.challenged_at {
                validation.wait_since(last);
            }
            validation
        });
        self.fallback = Some(OldPath { address, path, id });
        moved
    }

    /// Moves to `address`. Returns the previous address, together with its path if the new one is
    /// different. With `keep`, the connection may return there.
    fn change_address<F>(
        &mut self,
        now: Instant,
        mut address: Address,
        next: Next,
        keep: bool,
        others: &mut Others<'_, F>,
    ) -> (Address, Option<Box<Left>>) {
        address
            .validation
            .take_if(|_| address.limit.is_validated() && self.side.is_server());
        // [9000 9.3 follow]
        let left = core::mem::replace(&mut self.path.address, address);
        let path = match next {
            Next::Same => None,
            Next::New => {
                // [9000 9.4 reset-on-migration]
                let route = self.new_route(now);
                Some(self.change_route(now, route, None, keep, others))
            }
            Next::Back(back) => {
                Some(self.change_route(now, back.route, Some(back.recovery), keep, others))
            }
        };
        self.tokens_moved = true;
        others.recovery.set_amplification_blocked(now, false);
        (left, path)
    }

    /// Makes `route` the current one and returns the previous one.
    fn change_route<F>(
        &mut self,
        now: Instant,
        mut route: Route,
        recovery: Option<PathRecovery>,
        keep: bool,
        others: &mut Others<'_, F>,
    ) -> Box<Left> {
        let path = &mut self.path;
        route.ecn.follow(&path.route.ecn);
        let mut before = core::mem::replace(&mut path.route, route);
        before.on_left();
        let recovery = others.recovery.change_path(now, recovery, keep);
        let next = others.recovery.space(SpaceId::Data).sent().next_number();
        path.feedback.on_new_outgoing_path(next);
        path.route.on_mtu_change(now);
        path.route.follow_window(now, others.recovery.rtt().srtt());
        Box::new(Left {
            route: before,
            recovery,
        })
    }

    /// Leaves a path that didn't answer, returning to the last that worked.
    pub(in crate::connection) fn check_validation<F>(
        &mut self,
        now: Instant,
        mut others: Others<'_, F>,
    ) -> Move {
        let failed = |validation: &mut PathValidation| validation.failed(now);
        if self.path.address.validation.take_if(failed).is_none() {
            return Move::Stays;
        }
        if self.side.is_server() && self.path.is_validated() {
            return Move::Stays;
        }
        // [9000 9.3.2 revert]
        let Some(old) = self.fallback.take() else {
            return Move::Stays;
        };
        if let Some(id) = old.id {
            others.ids.adopt(id.sequence);
        }
        let next = old.path.map_or(Next::Same, Next::Back);
        let moved = next.moved();
        let keep = self.side.is_client();
        let (address, path) = self.change_address(now, old.address, next, keep, &mut others);
        if self.side.is_client() {
            others.ids.switch();
            self.path.feedback.on_new_incoming_path();
            // If nothing works for a while, both paths are tried alternately.
            self.path.address.validation = Some(others.validation(now));
            self.fallback = Some(OldPath {
                address,
                path,
                id: None,
            });
        }
        moved
    }
}
