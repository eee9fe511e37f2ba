//! A controller that limits nothing, and may have a defect.

use std::sync::Arc;

use pathmark_cc::{Acked, Controller, Lost, Metrics, PacketState, Phase, Sent};
use pathmark_transport::{ControllerFactory, Instant, TransportConfig};

/// When a controller panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// In the receiving task, when an acknowledgement arrives.
    Receiving,
    /// In the connection's own task, when application data is sent.
    Sending,
}

/// Sends as much as the application has, as fast as possible.
#[derive(Debug)]
struct Boundless {
    defect: Option<Defect>,
}

impl Controller for Boundless {
    fn on_sent(&mut self, _: Instant, sent: &Sent) -> PacketState {
        let is_broken = self.defect == Some(Defect::Sending) && sent.bytes >= 1000;
        assert!(!is_broken, "a controller with a defect");
        PacketState::default()
    }
    fn on_ack(&mut self, _: Instant, _: &Acked) {
        let is_broken = self.defect == Some(Defect::Receiving);
        assert!(!is_broken, "a controller with a defect");
    }
    fn on_loss(&mut self, _: Instant, _: &Lost) {}
    fn on_persistent_congestion(&mut self, _: Instant) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        1 << 26
    }
    fn pacing_rate(&self) -> Option<u64> {
        Some(1 << 50)
    }
    fn metrics(&self) -> Metrics {
        Metrics::new("boundless", Phase::Avoidance, self.window())
    }
}

pub(crate) fn boundless_but(defect: Option<Defect>) -> Arc<dyn ControllerFactory> {
    Arc::new(move |_: Instant, _: u16| -> Box<dyn Controller> { Box::new(Boundless { defect }) })
}

/// Returns settings of a connection that no window limits.
pub(crate) fn boundless() -> TransportConfig {
    TransportConfig::new(boundless_but(None))
}
