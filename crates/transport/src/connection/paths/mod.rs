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

mod address;
mod arrivals;
mod fates;
mod feedback;
mod frames;
mod migrate;
mod path;
mod prefix;
mod route;
mod shims;
mod starts;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pathmark_cc::KnownPath;

use crate::cid::{RemoteId, RemoteIds};
use crate::config::{ControllerFactory, TransportConfig};
use crate::crypto::{ResetToken, Side};
use crate::path::{AmplificationLimit, Mtud, PathResponses, PathValidation};
use crate::recovery::{PathRecovery, Recovery};
use crate::wire::ConnectionId;
use crate::{Duration, Instant};

use address::Address;
pub(super) use address::Allowance;
#[cfg(test)]
pub(super) use address::MIN_UNVALIDATED;
pub(super) use fates::{AckReport, Measured};
pub(super) use feedback::Feedback;
pub(super) use frames::{OffPathFrame, least_challenge};
pub(super) use path::{Departure, Path};
pub(super) use prefix::{ShimPrefix, ShimUse, strip};
use route::Route;
pub(super) use route::{Admission, Fault};
pub use shims::ShownPath;

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
        (remote, local): (SocketAddr, Option<IpAddr>),
        local_id: ConnectionId,
        validated: bool,
    ) -> Self {
        let limit = match validated {
            true => AmplificationLimit::validated(),
            false => AmplificationLimit::new(),
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
