//! The state that a connection learns of a path.

use pathmark_cc::Controller;

use crate::config::TransportConfig;
use crate::path::{
    ArrivalRate, Cadence, ETHERNET_MTU, EcnValidation, Mtud, OneWayDelay, PlainPath,
};
use crate::recovery::Pacer;
use crate::{Ecn, Instant, Signal};

/// A fault of a path: it treats packets as no path should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Fault {
    /// It drops datagrams with shims.
    DropsShims,
    /// It marks all packets with CE.
    MarksAll,
}

/// State learnt of a path. Another path begins with a new one, but for one to another port of the
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

    /// The path was found to have a fault; `fresh` is a path of which nothing is known. Losses of a
    /// path that drops shims were no sign of congestion, of a path that drops ECN marks or of too
    /// large a datagram: plain packets measure all three again. Where all packets come back with
    /// CE, the controller begins again.
    pub(super) fn start_over(&mut self, now: Instant, fresh: Self, fault: Fault) {
        self.controller = fresh.controller;
        self.pacer = fresh.pacer;
        if fault == Fault::DropsShims {
            let mut ecn = fresh.ecn;
            ecn.follow(&self.ecn);
            self.ecn = ecn;
            self.mtud = fresh.mtud;
        }
        self.on_mtu_change(now);
    }
}
