//! The peer's address in use, and the path there with everything that is learnt about it.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::Controller;

use crate::cid::RemoteId;
use crate::config::TransportConfig;
use crate::path::{
    AmplificationLimit, ArrivalRate, Cadence, ETHERNET_MTU, EcnValidation, Mtud, OneWayDelay,
    PathResponses, PathValidation, PlainPath,
};
use crate::recovery::{Pacer, PathRecovery};
use crate::{Duration, Ecn, Instant, Signal};

/// Where the peer is, and what it has proved of that.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) limit: AmplificationLimit,
    pub(super) responses: PathResponses,
    /// While the address is being validated.
    pub(super) validation: Option<PathValidation>,
    /// When the peer was last challenged here, if ever.
    pub(super) challenged_at: Option<Instant>,
    /// When the peer last showed that it gets what is sent here.
    pub(super) proved_at: Instant,
    /// An acknowledgement of a packet from this number on proves that the peer is back here.
    pub(super) proved_from: u64,
}

impl Address {
    pub(super) const fn new(
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

    /// Whether its packets are of IPv6.
    #[inline]
    pub(super) const fn is_ipv6(&self) -> bool {
        // A socket of both versions writes IPv4 addresses as IPv4-mapped.
        self.remote.ip().to_canonical().is_ipv6()
    }

    /// Whether `remote` and `local` (as far as it is known) are this one's.
    #[inline]
    pub(super) fn is(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && self.is_from(local)
    }

    /// Whether nothing but the port tells `remote` and `local` from this one's.
    pub(super) fn is_same_host(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote.ip() == remote.ip() && self.is_from(local)
    }

    fn is_from(&self, local: Option<IpAddr>) -> bool {
        self.local.is_none() || local.is_none() || self.local == local
    }

    /// True if the address is the peer's, as it has shown not long ago.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        self.limit.is_validated() && now.saturating_since(self.proved_at) < KNOWN
    }

    /// The peer has shown that it is here, by something that it could not know otherwise.
    pub(super) const fn prove(&mut self, now: Instant) {
        self.proved_at = now;
        self.limit.validate();
    }

    /// The path in use goes here. Packet `number` was acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Instant, number: u64) {
        self.proved_at = now;
        if self.limit.is_validated() && number >= self.proved_from {
            self.limit.validate();
        }
    }
}

/// What is learnt of a path. Another path begins with a new one, but for one to another port of the
/// same host, which shares it (RFC 9000 §9.4).
#[derive(Debug)]
pub(super) struct Route {
    pub(super) controller: Box<dyn Controller>,
    pub(super) pacer: Pacer,
    pub(super) mtud: Mtud,
    pub(super) ecn: EcnValidation,
    /// Does the path let shims pass?
    pub(super) plain: PlainPath,
    /// Which packets bear one.
    pub(super) cadence: Cadence,
    /// How long packets queue on their way.
    pub(super) one_way: OneWayDelay,
    /// The rate that it carries, for later connections.
    pub(super) arrivals: ArrivalRate,
    /// Routers were asked for what was known of it beforehand.
    pub(super) asked: bool,
    /// The application had data to send: larger datagrams are worth a search.
    pub(super) carries_data: bool,
    /// When something that counts towards bytes in flight last left.
    pub(super) last_sent: Option<Instant>,
}

impl Route {
    pub(super) fn new(now: Instant, config: &TransportConfig) -> Self {
        let mark = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let mtud = Mtud::with_base(config.initial_mtu, config.max_mtu.unwrap_or(ETHERNET_MTU));
        let mtu = mtud.mtu();
        Self {
            controller: config.controller.build(now, mtu),
            pacer: Pacer::new(now, mtu),
            mtud,
            ecn: EcnValidation::new(mark),
            plain: PlainPath::new(),
            cadence: Cadence::new(),
            one_way: OneWayDelay::new(),
            arrivals: ArrivalRate::default(),
            asked: false,
            carries_data: false,
            last_sent: None,
        }
    }

    /// The ECN field of the next packets. A signal that claims the field has it, whatever
    /// validation says.
    #[inline]
    pub(super) fn ecn(&self, signal: Option<&dyn Signal>) -> Ecn {
        signal
            .and_then(Signal::ecn)
            .unwrap_or_else(|| self.ecn.mark())
    }

    /// The datagram size changed: tell those who reckon with it.
    pub(super) fn on_mtu_change(&mut self, now: Instant) {
        let mtu = self.mtud.mtu();
        self.controller.on_mtu(mtu);
        self.pacer.set_mtu(now, mtu);
    }

    /// Another path is used from now on. Fates of packets in flight on this path are no longer
    /// reported: what waits for one of them starts again if the connection comes back.
    pub(super) const fn on_left(&mut self) {
        self.mtud.forget_probe();
        self.ecn.test_again();
        self.plain.forget_trial();
    }
}

/// How long an address counts as known after the peer has shown that it gets what is sent there:
/// it is the peer's, and what was learnt of the path holds (RFC 9000 §9.3, §9.4).
const KNOWN: Duration = Duration::from_secs(60);

/// A path that was left: what belongs to it.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) route: Route,
    pub(super) recovery: PathRecovery,
}

/// The last address that worked. It is challenged when it is left, since the peer may still be
/// there (RFC 9000 §9.3.3).
#[derive(Debug)]
pub(super) struct OldPath {
    pub(super) address: Address,
    /// The path there. `None`: it is the current one, which leads to another port.
    pub(super) path: Option<Box<Left>>,
    /// The peer's id that our packets over it carry, if not the current one.
    pub(super) id: Option<RemoteId>,
}

impl OldPath {
    /// When a challenge is due.
    pub(super) fn challenge_at(&self) -> Option<Instant> {
        let validation = self.address.validation.as_ref();
        validation.and_then(PathValidation::next_challenge)
    }
}

/// Another path, over which the peer probes.
#[derive(Debug)]
pub(super) struct OffPath {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) limit: AmplificationLimit,
    pub(super) responses: PathResponses,
    /// The peer's id that our packets over it carry.
    pub(super) id: RemoteId,
}
