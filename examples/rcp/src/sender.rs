//! The sender's law: it sends at the rate that came back, and by CUBIC where no router answers.

use pathmark_cc::{
    Acked, Controller, CubicController, Duration, Feedback, Instant, Lost, Metrics, OwnWords,
    PacketState, Phase, Request, Sent,
};

use crate::{KIND, UNANSWERED};

/// An RCP sender.
#[derive(Debug)]
pub struct RcpSender {
    /// The rate that routers offered last, in bytes per second.
    rate: Option<u64>,
    srtt: Duration,
    mtu: u64,
    cubic: CubicController,
}

impl RcpSender {
    /// For datagrams of `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u16) -> Self {
        Self {
            rate: None,
            srtt: Duration::ZERO,
            mtu: mtu.max(1).into(),
            cubic: CubicController::cubic(mtu, None),
        }
    }
}

impl Controller for RcpSender {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.cubic.on_sent(now, sent)
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = acked.srtt;
        self.cubic.on_ack(now, acked);
    }

    fn on_feedback(&mut self, _now: Instant, feedback: &Feedback, acked: &Acked) {
        if let Feedback::Own(own) = feedback
            && own.kind == KIND.number()
            && own.packets > 0
        {
            self.srtt = acked.srtt;
            let [rate, ..] = own.words;
            self.rate = (own.router != 0 && rate < UNANSWERED).then_some(rate);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.cubic.on_loss(now, lost);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.rate = None;
        self.cubic.on_persistent_congestion(now);
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.srtt = srtt;
        self.cubic.on_handshake_rtt(now, srtt);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu.max(1).into();
        self.cubic.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        match self.rate {
            Some(rate) => {
                let bytes = u128::from(rate) * self.srtt.as_nanos() / 1_000_000_000;
                u64::try_from(bytes).unwrap_or(u64::MAX).max(2 * self.mtu)
            }
            None => self.cubic.window(),
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rate.or_else(|| self.cubic.pacing_rate())
    }

    fn request(&self) -> Request {
        let rtt_us = u32::try_from(self.srtt.as_micros()).unwrap_or(u32::MAX);
        let mut request = Request::default();
        request.own = Some(OwnWords {
            kind: KIND.number(),
            words: [UNANSWERED, rtt_us.into(), 0],
        });
        request
    }

    fn metrics(&self) -> Metrics {
        let inner = self.cubic.metrics();
        let (name, phase) = match self.rate {
            Some(_) => ("rcp", Phase::Avoidance),
            None => (inner.ruling, inner.phase),
        };
        let mut metrics = Metrics::new(name, phase, self.window());
        metrics.explicit = self.rate.is_some();
        metrics
    }
}
