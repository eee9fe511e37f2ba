//! The sender's law: it sends at the rate that the receiver returned.
//!
//! If no router answers, CUBIC takes over, starting from the window of the last answer. It also
//! controls the window for a round trip after each loss or CE mark.

use pathmark_cc::{
    Acked, Controller, CubicController, Duration, Feedback, Instant, Lost, Metrics, OwnWords,
    PacketState, Phase, Request, Sent,
};

use crate::{KIND, UNANSWERED};

/// How many round trips an answer stays valid.
const SILENT_ROUNDS: u32 = 4;

/// An RCP sender.
#[derive(Debug)]
pub struct RcpSender {
    /// The latest rate that routers offered, in bytes per second; `None` while CUBIC is in control.
    rate: Option<u64>,
    /// When this offer arrived.
    answered: Instant,
    /// Offers before this time are ignored, because the response to a loss or CE mark lasts for a
    /// round trip.
    cut_until: Instant,
    srtt: Duration,
    mtu: u64,
    cubic: CubicController,
}

impl RcpSender {
    /// Creates a sender of datagrams of `mtu` bytes.
    #[must_use]
    pub fn new(mtu: u16) -> Self {
        Self {
            rate: None,
            answered: Instant::ZERO,
            cut_until: Instant::ZERO,
            srtt: Duration::ZERO,
            mtu: mtu.max(1).into(),
            cubic: CubicController::cubic(mtu, None),
        }
    }

    /// Lets CUBIC take over from the window of the last answer.
    fn leave(&mut self) {
        if self.rate.is_some() {
            let window = self.window();
            self.rate = None;
            self.cubic.take_over(window);
        }
    }
}

impl Controller for RcpSender {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.cubic.on_sent(now, sent)
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = acked.srtt;
        if now > self.answered + self.srtt.saturating_mul(SILENT_ROUNDS) {
            self.leave();
        }
        if self.rate.is_none() {
            self.cubic.on_ack(now, acked);
        }
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        if let Feedback::Own(own) = feedback
            && own.kind == KIND.number()
            && own.packets > 0
        {
            self.srtt = acked.srtt;
            let [rate, ..] = own.words;
            if own.router == 0 || rate >= UNANSWERED {
                self.leave();
            } else if now >= self.cut_until {
                (self.rate, self.answered) = (Some(rate), now);
            }
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.leave();
        self.cut_until = now + lost.srtt;
        self.cubic.on_loss(now, lost);
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        self.leave();
        self.cut_until = now + self.srtt;
        self.cubic
            .on_congestion_experienced(now, sent_at, last_sent);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.cubic.on_spurious_loss(now);
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        self.cubic.on_probe_timeout(now);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.cubic.on_restart(now, idle);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.leave();
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

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_cc::OwnFeedback;

    const RTT: Duration = Duration::from_millis(80);

    fn acked(bytes: u64) -> Acked {
        Acked {
            bytes,
            packets: 1,
            marked: 0,
            largest: 1,
            sent_at: Instant::ZERO,
            state: PacketState::default(),
            rtt: Some(RTT),
            forward_delay: None,
            srtt: RTT,
            min_rtt: RTT,
            in_flight_before: 200_000,
            window_limited: true,
        }
    }

    fn lost() -> Lost {
        Lost {
            bytes: 1400,
            packets: 1,
            ranges: 1,
            first_state: PacketState::default(),
            largest: 1,
            sent_at: Instant::ZERO,
            state: PacketState::default(),
            last_sent: 9,
            srtt: RTT,
            min_rtt: RTT,
            in_flight_before: 200_000,
        }
    }

    fn answer(router: u16, rate: u64) -> Feedback {
        Feedback::Own(OwnFeedback {
            kind: KIND.number(),
            packets: 1,
            router,
            words: [rate, 0, 0],
            ..OwnFeedback::default()
        })
    }

    /// Returns a sender at 2.5 MB/s with a window of 200 kB, and the time of its latest answer.
    fn answered() -> (RcpSender, Instant) {
        let mut sender = RcpSender::new(1400);
        let mut now = Instant::from_millis(1);
        for _ in 0..100_000 {
            sender.on_feedback(now, &answer(7, 2_500_000), &acked(1400));
            sender.on_ack(now, &acked(1400));
            now += Duration::from_micros(560);
        }
        assert_eq!(
            (sender.window(), sender.pacing_rate()),
            (200_000, Some(2_500_000))
        );
        (sender, now)
    }

    #[test]
    fn a_router_that_vanishes_leaves_its_window() {
        let (mut sender, now) = answered();
        sender.on_feedback(now, &answer(0, UNANSWERED), &acked(1400));
        assert_eq!(sender.window(), 200_000);
        let (mut silent, now) = answered();
        silent.on_ack(now + RTT.saturating_mul(5), &acked(1400));
        assert!(!silent.metrics().explicit && silent.window() < 210_000);
    }

    #[test]
    fn a_loss_counts_for_a_round_trip() {
        let (mut sender, now) = answered();
        sender.on_loss(now, &lost());
        let cut = sender.window();
        assert!(cut < 150_000);
        sender.on_feedback(now + RTT / 2, &answer(7, u64::MAX >> 20), &acked(1400));
        assert_eq!(sender.window(), cut);
        sender.on_feedback(now + RTT, &answer(7, 2_500_000), &acked(1400));
        assert_eq!(sender.window(), 200_000);
        sender.on_congestion_experienced(now + RTT, now + RTT, 10);
        assert!(sender.window() < 150_000);
    }
}
