//! The path in use, with everything that is learnt about it.

use std::net::{IpAddr, SocketAddr};

use pathmark_cc::Controller;

use crate::cid::RemoteId;
use crate::config::TransportConfig;
use crate::path::{
    AmplificationLimit, ArrivalRate, Cadence, ETHERNET_MTU, EcnValidation, Mtud, OneWayDelay,
    PathResponses, PathValidation, PlainPath,
};
use crate::recovery::Pacer;
use crate::{Duration, Ecn, Instant, Signal};

/// The current path. A change of path begins with a new one.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) limit: AmplificationLimit,
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
    pub(super) responses: PathResponses,
    /// While the path is being validated.
    pub(super) validation: Option<PathValidation>,
    /// When the peer was last challenged over it, if ever.
    pub(super) challenged_at: Option<Instant>,
    /// When the peer last showed that it gets what is sent here.
    pub(super) proved_at: Instant,
    /// The application had data to send: larger datagrams are worth a search.
    pub(super) carries_data: bool,
    /// When something that counts towards bytes in flight last left.
    pub(super) last_sent: Option<Instant>,
}

impl Route {
    pub(super) fn new(
        now: Instant,
        remote: SocketAddr,
        local: Option<IpAddr>,
        validated: bool,
        config: &TransportConfig,
    ) -> Self {
        let mark = if config.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let mtud = Mtud::with_base(config.initial_mtu, config.max_mtu.unwrap_or(ETHERNET_MTU));
        let mtu = mtud.mtu();
        Self {
            remote,
            local,
            limit: if validated {
                AmplificationLimit::validated()
            } else {
                AmplificationLimit::new()
            },
            controller: config.controller.build(now, mtu),
            pacer: Pacer::new(now, mtu),
            mtud,
            ecn: EcnValidation::new(mark),
            plain: PlainPath::new(),
            cadence: Cadence::new(),
            one_way: OneWayDelay::new(),
            arrivals: ArrivalRate::default(),
            asked: false,
            responses: PathResponses::new(),
            validation: None,
            challenged_at: None,
            proved_at: now,
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

    /// Another path is used from now on. What becomes of packets under way here is told to nobody:
    /// whatever waits for one of them asks anew, should the connection come back.
    pub(super) const fn on_left(&mut self) {
        self.mtud.forget_probe();
        self.ecn.test_again();
        self.plain.forget_trial();
    }

    /// Whether its packets are of IPv6.
    #[inline]
    pub(super) const fn is_ipv6(&self) -> bool {
        // A socket of both versions writes IPv4 addresses as IPv4-mapped.
        self.remote.ip().to_canonical().is_ipv6()
    }

    /// Whether `remote` and `local` (as far as it is known) are this path's.
    #[inline]
    pub(super) fn is(&self, remote: SocketAddr, local: Option<IpAddr>) -> bool {
        self.remote == remote && (self.local.is_none() || local.is_none() || self.local == local)
    }
}

/// How long a path counts as known after the peer has shown that it gets what is sent there: its
/// address is the peer's, and what was learnt of it holds (RFC 9000 §9.3, §9.4).
const KNOWN: Duration = Duration::from_secs(60);

/// The last path that worked. It is challenged when it is left, since the peer may still be there
/// (RFC 9000 §9.3.3).
#[derive(Debug)]
pub(super) struct OldPath {
    pub(super) route: Route,
    /// The peer's id that our packets over it carry, if not the current one.
    pub(super) id: Option<RemoteId>,
}

impl OldPath {
    /// True if the peer may come back to it as if it had never left.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        now.saturating_since(self.route.proved_at) < KNOWN
    }

    /// When a challenge is due.
    pub(super) fn challenge_at(&self) -> Option<Instant> {
        let validation = self.route.validation.as_ref();
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
