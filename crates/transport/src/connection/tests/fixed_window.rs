//! A controller with a constant window, which logs its calls.

use pathmark_cc::{
    Acked, KnownPath, Limits, Lost, Metrics, PacketState, Phase, QuickStartPurpose,
    QuickStartRequest, Sent,
};

use super::*;

/// Calls that the controllers of one factory received.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerLog {
    pub(crate) built: u32,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) acked: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) lost: u64,
    pub(crate) window_limited_acks: u64,
    pub(crate) congestion_experienced: u64,
    /// Number of the last packet sent by then.
    pub(crate) congestion_up_to: u64,
    /// The latest value.
    pub(crate) forward_delay: Option<Duration>,
    pub(crate) handshake_rtt: Option<Duration>,
    pub(crate) probe_timeouts: u64,
    pub(crate) persistent_congestions: u64,
    pub(crate) spurious: u64,
    pub(crate) restarts: u64,
    pub(crate) mtu: u16,
    pub(crate) feedbacks: u64,
    pub(crate) feedback: VcpFeedback,
    pub(crate) wrong_states: u64,
    /// Calls since the previous ACK, to check their order.
    pub(crate) last_was_feedback: bool,
    pub(crate) feedback_before_ack: u64,
    /// Packets sent with the signal.
    pub(crate) signals: u64,
    /// The value that tests request, where 0 means 1.
    pub(crate) signal_every: u32,
    /// Whether a question should be asked, once.
    pub(crate) asks: bool,
    /// Number of questions and of answers.
    pub(crate) questions: u64,
    pub(crate) answers: u64,
    /// Number of lost questions.
    pub(crate) questions_lost: u64,
    /// Whether a lost question should be asked again.
    pub(crate) asks_again: bool,
    /// The rate in the latest question before the handshake was complete.
    pub(crate) known_rate: Option<u64>,
}

#[derive(Debug)]
struct FixedWindow {
    window: u64,
    log: Arc<Mutex<ControllerLog>>,
}

/// Builds controllers whose window is `window` bytes.
pub(crate) fn fixed_window(window: u64) -> (Arc<dyn ControllerFactory>, Arc<Mutex<ControllerLog>>) {
    let log = Arc::new(Mutex::new(ControllerLog::default()));
    let seen = Arc::clone(&log);
    let factory = move |_now: Instant, mtu: u16| -> Box<dyn Controller> {
        let mut log = seen.lock().unwrap();
        log.built += 1;
        log.mtu = mtu;
        drop(log);
        Box::new(FixedWindow {
            window,
            log: Arc::clone(&seen),
        })
    };
    (Arc::new(factory), log)
}

impl Controller for FixedWindow {
    fn on_sent(&mut self, _: Instant, sent: &Sent) -> PacketState {
        let mut log = self.log.lock().unwrap();
        log.sent += 1;
        log.sent_bytes += sent.bytes;
        log.signals += u64::from(sent.signal);
        PacketState {
            explicit: sent.packet_number + 1,
            ..PacketState::default()
        }
    }

    fn on_ack(&mut self, _: Instant, acked: &Acked) {
        let mut log = self.log.lock().unwrap();
        log.acked += acked.packets;
        log.forward_delay = acked.forward_delay;
        log.acked_bytes += acked.bytes;
        log.window_limited_acks += u64::from(acked.window_limited);
        // Handshake packets have separate numbers, and a state with their own number.
        log.wrong_states += u64::from(acked.state.explicit != acked.largest + 1);
        if std::mem::take(&mut log.last_was_feedback) {
            log.feedback_before_ack += 1;
        }
    }

    fn on_feedback(&mut self, _: Instant, feedback: &Feedback, _: &Acked) {
        let mut log = self.log.lock().unwrap();
        log.feedbacks += 1;
        log.last_was_feedback = true;
        if let Feedback::Vcp(vcp) = feedback {
            for code in 0..4 {
                log.feedback.packets[code] += vcp.packets[code];
                log.feedback.bytes[code] += vcp.bytes[code];
            }
            log.feedback.router = vcp.router;
        }
        log.answers += u64::from(matches!(feedback, Feedback::QuickStart(_)));
    }

    fn on_loss(&mut self, _: Instant, lost: &Lost) {
        self.log.lock().unwrap().lost += lost.packets;
    }

    fn on_congestion_experienced(&mut self, _: Instant, _: Instant, last_sent: u64) {
        let mut log = self.log.lock().unwrap();
        log.congestion_experienced += 1;
        log.congestion_up_to = last_sent;
    }

    fn on_probe_timeout(&mut self, _: Instant) {
        self.log.lock().unwrap().probe_timeouts += 1;
    }

    fn on_persistent_congestion(&mut self, _: Instant) {
        self.log.lock().unwrap().persistent_congestions += 1;
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        self.log.lock().unwrap().spurious += 1;
    }

    fn on_restart(&mut self, _: Instant, _: Duration) {
        self.log.lock().unwrap().restarts += 1;
    }

    fn on_handshake_rtt(&mut self, _: Instant, srtt: Duration) {
        self.log.lock().unwrap().handshake_rtt = Some(srtt);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.log.lock().unwrap().mtu = mtu;
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn request(&self) -> Request {
        Request::default()
    }

    fn asks(&self) -> bool {
        let log = self.log.lock().unwrap();
        let lost = u64::from(log.asks_again) * log.questions_lost;
        log.asks && log.questions == lost
    }

    fn ask(&mut self, _: Instant, random: u64, limits: &Limits) -> Option<QuickStartRequest> {
        (limits.least() > 10_000).then(|| {
            self.log.lock().unwrap().questions += 1;
            QuickStartRequest {
                rate: 1_000_000,
                purpose: QuickStartPurpose::Start,
                ttl_difference: 0,
                nonce: random >> 16,
                rtt: None,
            }
        })
    }

    fn ask_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        self.log.lock().unwrap().known_rate = Some(known.rate);
        self.ask(now, random, &Limits::NONE)
    }

    fn on_question_lost(&mut self, _: Instant, _: u64) {
        self.log.lock().unwrap().questions_lost += 1;
    }

    fn signal_every(&self) -> u32 {
        self.log.lock().unwrap().signal_every
    }

    fn metrics(&self) -> Metrics {
        Metrics::new("fixed", Phase::Avoidance, self.window)
    }
}
