//! The paths of a connection: the one in use, the last that worked, and one over which the peer
//! probes.
//!
//! ```text
//!   Paths ─┬─ Path, in use ─┬─ Address    who the peer is, what it has proved, what may be sent
//!          │                ├─ Route      window, pace, MTU, ECN, shims: all that is learnt
//!          │                └─ Feedback   counters of signals, both directions
//!          ├─ OldPath, the last that worked: its Address, and what was learnt of it
//!          └─ OffPath, over which the peer probes
//! ```
//!
//! [`Paths`] decides on changes of path and answers with a [`Move`]; [`Path`] gets what is sent and
//! what becomes of it. Neither knows the connection: a change of path gets the peer's connection
//! ids and recovery as [`Others`].

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

/// Largest datagram that is tried by default: packets of 9000 bytes over
/// IPv4. Segmentation offload takes seven of them at a time.
const LARGEST_MTU: u16 = 8972;

/// A path that was left: what belongs to it.
#[derive(Debug)]
struct Left {
    route: Route,
    recovery: PathRecovery,
}

/// The last address that worked. It is challenged when it is left, since the peer may still be
/// there (RFC 9000 §9.3.3).
#[derive(Debug)]
struct OldPath {
    address: Address,
    /// The path there. `None`: it is the current one, which leads to another port.
    path: Option<Box<Left>>,
    /// The peer's id that our packets over it carry, if not the current one.
    id: Option<RemoteId>,
}

/// Another path, over which the peer probes.
#[derive(Debug)]
struct OffPath {
    remote: SocketAddr,
    local: Option<IpAddr>,
    limit: AmplificationLimit,
    responses: PathResponses,
    /// The peer's id that our packets over it carry.
    id: RemoteId,
}

/// What became of the path in use.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It is the same.
    Stays,
    /// It leads to another port of the same host; its window stands.
    OtherPort,
    /// It is another one, with a window of its own.
    OtherPath,
}

/// The other parts of a connection that a change of path concerns.
pub(super) struct Others<'a, F> {
    pub(super) ids: &'a mut RemoteIds,
    pub(super) recovery: &'a mut Recovery<F>,
    /// Upper bound of the probe timeout that path validation reckons with.
    pub(super) longest_pto: Duration,
}

/// All paths of a connection.
#[derive(Debug)]
pub(super) struct Paths {
    side: Side,
    config: Arc<TransportConfig>,
    path: Path,
    /// The last path that worked.
    fallback: Option<OldPath>,
    /// Another path, over which the peer probes.
    off_path: Option<OffPath>,
    /// The last datagram from an address that is on neither: who sent it, and its bytes.
    unknown_source: Option<(SocketAddr, u64)>,
    /// Largest datagram of the interface, bytes of UDP payload, if the driver knows.
    interface_mtu: Option<u16>,
    /// Largest datagram that the peer takes, bytes of UDP payload, once it is known.
    peer_mtu: Option<u64>,
    /// Our connection id that the peer's packets on the current path carry.
    local_id_in_use: ConnectionId,
    /// Paths have changed, and with them the addresses that resets come from.
    tokens_moved: bool,
    /// What is known of the path from an earlier connection.
    known: Option<KnownPath>,
    /// [`ShownPath`] was handed out.
    shown: bool,
}

impl Paths {
    /// One path, from `local`, if that is known, to `remote`. `local_id`: our id that the peer's
    /// packets carry at first. `validated`: the peer has proved its address.
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

    /// The path in use.
    #[inline]
    pub(super) const fn path(&self) -> &Path {
        &self.path
    }

    /// The path in use, to be changed.
    #[inline]
    pub(super) const fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// Size of the datagrams that prove that a path carries QUIC.
    pub(super) fn full_datagram(&self) -> usize {
        self.config.full_datagram()
    }

    /// The tokens of the peer's ids that are in use, each with the address to which packets with
    /// that id were sent; `current` is that of the path in use.
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

    /// True if addresses have changed that resets come from.
    pub(super) const fn has_moved_tokens(&self) -> bool {
        self.tokens_moved
    }

    /// The same, once for each change.
    pub(super) const fn take_moved_tokens(&mut self) -> bool {
        core::mem::replace(&mut self.tokens_moved, false)
    }

    /// The interface carries datagrams of up to `bytes` of UDP payload.
    pub(super) fn set_interface_mtu(&mut self, bytes: u16) {
        self.interface_mtu = Some(bytes.min(LARGEST_MTU));
        bound(
            &mut self.path.route.mtud,
            &self.config,
            self.interface_mtu,
            self.peer_mtu,
        );
    }

    /// The peer takes datagrams of up to `bytes` of UDP payload.
    pub(super) fn set_peer_mtu(&mut self, now: Instant, bytes: u64) {
        self.peer_mtu = Some(bytes);
        self.path.route.mtud.set_peer_limit(bytes);
        self.path.route.on_mtu_change(now);
    }

    /// A route of which nothing is learnt, within the bounds of interface and peer.
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

    /// From now on `factory`'s controllers steer this and later paths.
    pub(super) fn set_controller(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        self.path.route.controller = factory.build(now, self.path.mtu());
        Arc::make_mut(&mut self.config).controller = factory;
    }

    /// The path in use was found to treat packets as no path should: what its controller took for
    /// congestion was none.
    pub(super) fn start_over(&mut self, now: Instant, fault: Fault) {
        let fresh = self.new_route(now);
        self.path.route.start_over(now, fresh, fault);
    }

    /// When one of the paths has something to do. Deadlines for sending that are not
    /// after `polled_at` do not count: sending was not possible then.
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

/// Bounds a search that has not begun by what the interface carries and the peer takes.
fn bound(mtud: &mut Mtud, config: &TransportConfig, interface: Option<u16>, peer: Option<u64>) {
    if let (None, Some(bytes)) = (config.max_mtu, interface) {
        mtud.set_ceiling(bytes);
    }
    if let Some(bytes) = peer {
        mtud.set_peer_limit(bytes);
    }
}
