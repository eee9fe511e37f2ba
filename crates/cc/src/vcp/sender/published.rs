//! The sender of the VCP papers, without this library's additional rules.
//!
//! Codes control the window from the first code on. A fast retransmit halves it, as in TCP, or
//! leaves it unchanged (WLTE; VCP extensions paper, section IV-B). A timeout sets it to one packet.
//! The sender doesn't look for hops without feedback, and never hands its window to another law.

use super::steering::{Latest, Moment, Steering};
use crate::base::{Duration, Instant, arith};
use crate::law::{Acked, Controller, Lost, PacketState, Sent, UNPACED};
use crate::metrics::{Metrics, Phase};
use crate::signals::{Feedback, Request};
use crate::supervise::{RetransmissionTimeout, TYPICAL_RTT};
use crate::vcp::params::VcpParams;

/// How the papers' senders interpret losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishedLoss {
    /// A fast retransmit leaves the window unchanged (WLTE).
    pub(crate) wlte: bool,
    /// The sender runs over a TCP with SACK.
    pub(crate) sack: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct PublishedVcp {
    name: &'static str,
    params: VcpParams,
    loss: PublishedLoss,
    mtu: u64,
    steering: Steering,
    timeout: RetransmissionTimeout,
    srtt: Option<Duration>,
    min_rtt: Option<Duration>,
    /// Losses up to this packet number belong to the window that was halved.
    halved: Option<u64>,
}

impl PublishedVcp {
    /// Creates a sender for a path that begins at `now` and carries datagrams of `mtu` bytes;
    /// `name` appears in reports.
    pub(crate) fn new(
        name: &'static str,
        now: Instant,
        mtu: u16,
        params: VcpParams,
        loss: PublishedLoss,
    ) -> Self {
        let mtu = u64::from(mtu.max(1));
        let initial = arith::initial(mtu, params.initial_window);
        Self {
            name,
            loss,
            mtu,
            steering: Steering::new(now, initial, &params),
            timeout: RetransmissionTimeout::new(loss.sack),
            srtt: None,
            min_rtt: None,
            halved: None,
            params,
        }
    }

    fn obey(&mut self, now: Instant, timeout: bool) {
        if timeout {
            self.halved = None;
            self.steering.collapse(now, self.mtu);
        }
    }
}

impl Controller for PublishedVcp {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.timeout.on_sent(now, sent);
        PacketState {
            explicit: sent.packet_number,
            ..PacketState::default()
        }
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        let Feedback::Vcp(feedback) = feedback else {
            return;
        };
        self.steering.hear_t_rho(feedback.t_rho);
        let moment = Moment {
            now,
            srtt: self.srtt.unwrap_or(TYPICAL_RTT),
            mtu: self.mtu,
            limited: acked.window_limited,
            braked: false,
        };
        self.steering.apply(&self.params, moment, feedback);
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        self.min_rtt = Some(acked.min_rtt);
        let timeout = self.timeout.on_ack(now, acked);
        self.obey(now, timeout);
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        let fast_retransmit = self.timeout.on_loss(lost, self.mtu);
        let covered = self.halved.is_some_and(|halved| lost.largest <= halved);
        if fast_retransmit && !covered && !self.loss.wlte {
            self.halved = Some(lost.last_sent);
            let _before = self.steering.halve(now, self.mtu);
        }
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        let timeout = self.timeout.on_time(now);
        self.obey(now, timeout);
    }

    /// No packet arrived for several round trips, so the timeout has expired or is due.
    fn on_persistent_congestion(&mut self, now: Instant) {
        self.obey(now, true);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.steering.floor(self.mtu);
    }

    fn on_handshake_rtt(&mut self, _now: Instant, srtt: Duration) {
        self.srtt.get_or_insert(srtt);
    }

    fn window(&self) -> u64 {
        self.timeout.leaves(self.steering.bytes(), self.mtu)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(UNPACED)
    }

    fn request(&self) -> Request {
        Request {
            bise: self.params.bise_epsilon_ppm.is_some(),
            min_rtt: self.min_rtt,
            ..Request::default()
        }
    }

    fn metrics(&self) -> Metrics {
        let phase = match self.steering.latest() {
            _ if self.timeout.holds_back() || self.steering.is_cut() => Phase::Recovery,
            Latest::LowSteep | Latest::Low => Phase::MultiplicativeIncrease,
            Latest::Raised => Phase::Avoidance,
        };
        Metrics {
            explicit: true,
            timeouts: Some(self.timeout.timeouts()),
            ..Metrics::new(self.name, phase, self.steering.bytes())
        }
    }
}
