//! The paths of a connection: the current one, the last that worked, and one on which the peer
//! probes.
//!
//! ```text
//!   Paths ─┬─ Path, current ─┬─ Address    validation, and the limit on bytes to send
//!          │                 ├─ Route      window, pacing, MTU, ECN, shims: everything measured
//!          │                 └─ Feedback   counters of signals, both directions
//!          ├─ OldPath, the last that worked: its Address and its measurements
//!          └─ OffPath, on which the peer probes
//! ```
//!
//! [`Paths`] decides on changes of path and returns a [`Move`]. [`Path`] is notified of sent
//! packets and of their fates. Both are independent of the connection, so a change of path gets the
//! peer's connection IDs and recovery as [`Others`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pathmark_cc::KnownPath;

mod ack_report;
mod feedback;
mod frames;
mod migrate;
mod path;
mod route;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(super) use ack_report::{AckReport, Measured};
pub(super) use feedback::{Feedback, ShimPrefix, ShimUse, strip};
pub(super) use frames::{OffPathFrame, least_challenge};
pub use path::ShownPath;
pub(super) use path::{Departure, Path};
pub(super) use route::{Admission, Fault};

use crate::cid::{RemoteId, RemoteIds};
use crate::config::{ControllerFactory, TransportConfig};
use crate::crypto::{ResetToken, Side};
use crate::path::{AmplificationLimit, Mtud, PathResponses, PathValidation};
use crate::recovery::{PathRecovery, Recovery};
use crate::wire::ConnectionId;
use crate::{Duration, Instant};
use route::Route;

/// Largest datagram that is tried by default: packets of 9000 bytes over IPv4. Segmentation offload
/// takes seven of these at a time.
const LARGEST_MTU: u16 = 8972;

/// State of a path that the connection has left.
#[derive(Debug)]
struct Left {
    route: Route,
    recovery: PathRecovery,
}

/// The last address that worked. It is challenged when it is left, because the peer may still be
/// there (RFC 9000 §9.3.3).
#[derive(Debug)]
struct OldPath {
    address: Address,
    /// State of the path, or `None` if it is the current one, which only leads to another port.
    path: Option<Box<Left>>,
    /// The peer's ID in our packets on this path, unless it is the current one.
    id: Option<RemoteId>,
}

/// Another path, on which the peer probes.
#[derive(Debug)]
struct OffPath {
    remote: SocketAddr,
    local: Option<IpAddr>,
    limit: AmplificationLimit,
    responses: PathResponses,
    /// The peer's ID in our packets on this path.
    id: RemoteId,
}

/// Change of the current path.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It didn't change.
    Stays,
    /// It leads to another port of the same host and keeps its window.
    OtherPort,
    /// It is another path, with a separate window.
    OtherPath,
}

/// The other parts of a connection that take part in a change of path.
pub(super) struct Others<'a, F> {
    pub(super) ids: &'a mut RemoteIds,
    pub(super) recovery: &'a mut Recovery<F>,
    /// Upper bound of the probe timeout that path validation uses.
    pub(super) longest_pto: Duration,
}

/// All paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    side: Side,
    config: Arc<TransportConfig>,
    /// The current path.
    pub(super) path: Path,
    /// The last path that worked.
    fallback: Option<OldPath>,
    /// Another path, on which the peer probes.
    off_path: Option<OffPath>,
    /// Source of the last datagram that arrived from an address on none of the paths, and its
    /// bytes.
    unknown_source: Option<(SocketAddr, u64)>,
    /// Largest datagram of the interface, in bytes of UDP payload, if the driver provides it.
    interface_mtu: Option<u16>,
    /// The peer's limit on datagrams, in bytes of UDP payload, once known.
    peer_mtu: Option<u64>,
    /// Our connection ID in the peer's packets on the current path.
    local_id_in_use: ConnectionId,
    /// Whether paths have changed, and therefore the addresses from which resets are accepted.
    tokens_moved: bool,
    /// State of the path known from an earlier connection.
    known: Option<KnownPath>,
    /// Whether [`ShownPath`] was returned.
    shown: bool,
}

impl Paths {
    /// Creates a single path from `local`, if known, to `remote`. The peer's packets initially
    /// carry our `local_id`, and `validated` is true if the peer has proved its address.
    pub(super) fn new(
        now: Instant,
        side: Side,
        config: Arc<TransportConfig>,
        remote: SocketAddr,
        local: Option<IpAddr>,
        local_id: ConnectionId,
        validated: bool,
    ) -> Self {
        let limit = if validated {
            AmplificationLimit::validated()
        } else {
            AmplificationLimit::new()
        };
        let address = Address::new(now, remote, local, limit);
        let route = Route::new(now, &config);
        Self {
            side,
            path: Path::new(address, route, Feedback::new(&config.signals)),
            config,
            fallback: None,
            off_path: None,
            unknown_source: None,
            interface_mtu: None,
            peer_mtu: None,
            local_id_in_use: local_id,
            tokens_moved: false,
            known: None,
            shown: false,
        }
    }

    /// Returns the size of the datagrams that prove that a path carries QUIC.
    pub(super) fn full_datagram(&self) -> usize {
        self.config.full_datagram()
    }

    /// Returns the tokens of the peer's IDs in use, each with the address to which packets with
    /// that ID were sent. `current` is the token for the current path.
    pub(super) fn reset_tokens(
        &self,
        current: Option<ResetToken>,
    ) -> impl Iterator<Item = (SocketAddr, ResetToken)> {
        let old = self.fallback.as_ref().map(|old| {
            let token = old.id.map_or(current, |id| id.token);
            (old.address.remote, token)
        });
        let off = self.off_path.as_ref().map(|off| (off.remote, off.id.token));
        core::iter::once((self.path.remote(), current))
            .chain(old)
            .chain(off)
            .filter_map(|(remote, token)| Some((remote, token?)))
    }

    /// Returns true if the addresses from which resets are accepted have changed.
    pub(super) const fn has_moved_tokens(&self) -> bool {
        self.tokens_moved
    }

    /// Like [`has_moved_tokens`](Self::has_moved_tokens), but returns true only once per change.
    pub(super) const fn take_moved_tokens(&mut self) -> bool {
        core::mem::replace(&mut self.tokens_moved, false)
    }

    /// Limits path MTU discovery to `bytes` of UDP payload, which the interface carries.
    pub(super) fn set_interface_mtu(&mut self, bytes: u16) {
        self.interface_mtu = Some(bytes.min(LARGEST_MTU));
        bound(
            &mut self.path.route.mtud,
            &self.config,
            self.interface_mtu,
            self.peer_mtu,
        );
    }

    /// Limits datagrams to `bytes` of UDP payload, which the peer accepts.
    pub(super) fn set_peer_mtu(&mut self, now: Instant, bytes: u64) {
        self.peer_mtu = Some(bytes);
        self.path.route.mtud.set_peer_limit(bytes);
        self.path.route.on_mtu_change(now);
    }

    /// Creates a route without any measurements, within the limits of interface and peer.
    fn new_route(&self, now: Instant) -> Route {
        let mut route = Route::new(now, &self.config);
        bound(
            &mut route.mtud,
            &self.config,
            self.interface_mtu,
            self.peer_mtu,
        );
        route
    }

    /// Uses `factory`'s controllers on this path and later paths.
    pub(super) fn set_controller(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        self.path.route.controller = factory.build(now, self.path.mtu());
        Arc::make_mut(&mut self.config).controller = factory;
    }

    /// Restarts the controller of the current path, because the path was found to treat packets as
    /// no path should, so the apparent congestion wasn't real.
    pub(super) fn start_over(&mut self, now: Instant, fault: Fault) {
        let fresh = self.new_route(now);
        self.path.route.start_over(now, fresh, fault);
    }

    /// Returns when one of the paths next needs attention. Sending deadlines up to `polled_at`
    /// don't count, because sending wasn't possible then.
    pub(super) fn deadline(&self, polled_at: Instant) -> Option<Instant> {
        let later = |at: &Instant| *at > polled_at;
        let validation = self.path.address.validation.as_ref();
        let challenge = |validation: &PathValidation| validation.next_challenge();
        let old = self.fallback.as_ref();
        let old = old.and_then(|old| old.address.validation.as_ref());
        let due = [
            self.path.route.mtud.deadline(),
            validation.and_then(challenge),
            old.and_then(challenge),
        ];
        let ends = validation.map(PathValidation::deadline);
        due.into_iter().flatten().filter(later).chain(ends).min()
    }
}

/// Limits a search that hasn't begun to the sizes that the interface carries and the peer accepts.
fn bound(mtud: &mut Mtud, config: &TransportConfig, interface: Option<u16>, peer: Option<u64>) {
    if let (None, Some(bytes)) = (config.max_mtu, interface) {
        mtud.set_ceiling(bytes);
    }
    if let Some(bytes) = peer {
        mtud.set_peer_limit(bytes);
    }
}

/// Minimum size of a datagram to an address that isn't validated, which is enough for a
/// PATH_CHALLENGE or an ACK.
pub(in crate::connection) const MIN_UNVALIDATED: usize = 48;
/// Part of an address's credit that data doesn't use, so that challenges can be repeated: a peer
/// that only receives adds little credit before it has seen one.
const RESERVE: usize = 4 * MIN_UNVALIDATED;

/// Time for which an address counts as known after the peer has shown that it receives packets
/// there. During this time, the address is assumed to be the peer's, and the measurements of the
/// path to be valid (RFC 9000 §9.3, §9.4).
const KNOWN: Duration = Duration::from_secs(60);

/// Decision of the amplification limit on a datagram (RFC 9000 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Allowance {
    /// It may have this many bytes.
    Bytes(usize),
    /// It can't be sent until the peer validates its address.
    Blocked,
    /// It can't be sent, because the peer may only be receiving and no probe is due.
    Nothing,
}

/// The peer's address, and how far it is validated.
#[derive(Debug)]
pub(in crate::connection) struct Address {
    remote: SocketAddr,
    local: Option<IpAddr>,
    limit: AmplificationLimit,
    responses: PathResponses,
    /// The state of validation, while the address is being validated.
    validation: Option<PathValidation>,
    /// When the peer was last challenged at this address.
    challenged_at: Option<Instant>,
    /// When the peer last showed that it receives packets at this address.
    proved_at: Instant,
    /// First packet number whose acknowledgement proves that the peer is back at this address.
    proved_from: u64,
}

impl Address {
    const fn new(
        now: Instant,
        remote: SocketAddr,
        local: Option<IpAddr>,
        limit: AmplificationLimit,
    ) -> Self {
        Self {
            remote,
            local,
            limit,
            responses: PathResponses::new(),
            validation: None,
            challenged_at: None,
            proved_at: now,
            proved_from: 0,
        }
    }

    /// Validates the address, because the peer has proved it by its handshake.
    pub(in crate::connection) const fn validate(&mut self) {
        self.limit.validate();
    }

    /// Returns the number of bytes that may be sent there.
    pub(in crate::connection) const fn available(&self) -> u64 {
        self.limit.available()
    }

    /// Counts a datagram sent there.
    pub(in crate::connection) const fn on_datagram_sent(&mut self, bytes: u64) {
        self.limit.on_sent(bytes);
    }

    /// Returns whether packets to this address are IPv6.
    const fn is_ipv6(&self) -> bool {
        // Sockets for both versions report IPv4 addresses as IPv4-mapped addresses.
        self.remote.ip().to_canonical().is_ipv6()
    }

    /// Returns true if `remote` and `local`, as far as it is known, are those of this address.
    fn is(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && self.is_from(local)
    }

    /// Returns true if `remote` and `local` differ from this address by at most the port.
    fn is_same_host(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote.ip() == remote.ip() && self.is_from(local)
    }

    fn is_from(&self, local: Option<IpAddr>) -> bool {
        self.local.is_none() || local.is_none() || self.local == local
    }

    /// Returns true if the peer has recently shown that it is at this address.
    fn is_known(&self, now: Instant) -> bool {
        self.limit.is_validated() && now.saturating_since(self.proved_at) < KNOWN
    }

    /// Validates the address, because the peer has responded with information that it only gets
    /// there.
    const fn prove(&mut self, now: Instant) {
        self.proved_at = now;
        self.limit.validate();
    }

    /// Processes the acknowledgement of packet `number` while the current path leads to this
    /// address.
    fn on_acked(&mut self, now: Instant, number: u64) {
        self.proved_at = now;
        if self.limit.is_validated() && number >= self.proved_from {
            self.limit.validate();
        }
    }

    /// Returns true if a PATH_CHALLENGE is due.
    fn wants_challenge(&self, now: Instant) -> bool {
        let validation = self.validation.as_ref();
        validation.is_some_and(|validation| validation.wants_challenge(now))
    }

    /// Applies the limit to a datagram of `size` bytes. `probes` is true if a probe is due. `least`
    /// is the size of the smallest datagram with a PATH_CHALLENGE, and `full` the size of a
    /// datagram that begins a connection, in bytes.
    pub(in crate::connection) fn allowance(
        &self,
        now: Instant,
        size: usize,
        probes: bool,
        [least, full]: [usize; 2],
    ) -> Allowance {
        if self.limit.is_lifted() {
            return Allowance::Bytes(size);
        }
        let least = least.max(MIN_UNVALIDATED);
        let available = usize::try_from(self.limit.available()).unwrap_or(usize::MAX);
        if self.limit.is_validated() {
            // The peer may only be receiving, and everything sent so far may be lost. A probe with
            // little more than a PING therefore tests whether the peer is there.
            return match available {
                available if available >= least => Allowance::Bytes(size.min(available)),
                _ if probes => Allowance::Bytes(least),
                _ => Allowance::Nothing,
            };
        }
        let validation = self.validation.as_ref();
        let allowed = match validation {
            None => available,
            Some(validation) => match available.checked_sub(RESERVE) {
                Some(rest) if rest >= least => rest,
                _ if validation.wants_challenge(now) => available.min(least),
                _ => 0,
            },
        };
        // Initial packets need full datagrams, whereas small datagrams suffice for path validation.
        let full = validation.is_none() && allowed >= full;
        if allowed >= size || full || (validation.is_some() && allowed >= least) {
            return Allowance::Bytes(size.min(allowed));
        }
        Allowance::Blocked
    }
}
