//! Standard congestion control in the place of routers' answers.
//!
//! Where no router answers, CUBIC rules or, if configured, BBR. Where routers answer and a hop
//! without feedback is the narrow one, CUBIC rules: its cuts show when such a hop is gone
//! (`hidden`).

use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, Lost, PacketState, Sent};
use crate::metrics::Metrics;
use crate::quick_start::Startable;
use crate::standard::CubicController;
use crate::standard::bbr::Bbr;

/// The law that rules a path on which no router answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FallbackLaw {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// The law in the routers' place.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    cubic: CubicController,
    bbr: Option<Box<Bbr>>,
    /// BBR rules, and not CUBIC.
    modelled: bool,
}

impl Fallback {
    pub(crate) fn new(law: FallbackLaw, now: Instant, mtu: u16, initial: Option<u32>) -> Self {
        let bbr = match law {
            FallbackLaw::Cubic => None,
            FallbackLaw::Bbr => Some(Box::new(Bbr::new(now, mtu, initial))),
        };
        Self {
            cubic: CubicController::cubic(mtu, initial),
            modelled: bbr.is_some(),
            bbr,
        }
    }

    /// CUBIC alone, as it stands.
    pub(crate) const fn of(cubic: CubicController) -> Self {
        Self {
            cubic,
            bbr: None,
            modelled: false,
        }
    }

    /// CUBIC as it stands.
    pub(crate) const fn cubic(&self) -> &CubicController {
        &self.cubic
    }

    /// Routers no longer answer: goes on with `window` bytes, which they have allowed on a path
    /// whose least and smoothed RTT are `least` and `srtt`.
    pub(crate) fn take_over(&mut self, now: Instant, window: u64, least: Duration, srtt: Duration) {
        self.cubic.take_over(window);
        self.modelled = self.bbr.is_some();
        if let Some(bbr) = &mut self.bbr {
            bbr.take_over(now, window, least, srtt);
        }
    }

    /// A hop without feedback is the narrow one: CUBIC goes on with `window` bytes, in slow start
    /// up to `ssthresh`.
    pub(crate) fn take_over_below(&mut self, now: Instant, window: u64, ssthresh: u64) {
        self.modelled = false;
        self.cubic.take_over_below(now, window, ssthresh);
    }

    fn ruling(&self) -> &dyn Controller {
        match &self.bbr {
            Some(bbr) if self.modelled => &**bbr,
            _ => &self.cubic,
        }
    }

    fn ruling_mut(&mut self) -> &mut dyn Controller {
        match &mut self.bbr {
            Some(bbr) if self.modelled => &mut **bbr,
            _ => &mut self.cubic,
        }
    }
}

impl Controller for Fallback {
    #[inline]
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let state = self.cubic.on_sent(now, sent);
        self.bbr
            .as_mut()
            .map_or(state, |bbr| bbr.on_sent(now, sent))
    }

    #[inline]
    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if self.modelled {
            self.ruling_mut().on_ack(now, acked);
        } else {
            self.cubic.on_ack(now, acked);
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.ruling_mut().on_loss(now, lost);
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        self.ruling_mut()
            .on_congestion_experienced(now, sent_at, last_sent);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.ruling_mut().on_persistent_congestion(now);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.ruling_mut().on_spurious_loss(now);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        self.ruling_mut().on_restart(now, idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.cubic.on_mtu(mtu);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_mtu(mtu);
        }
    }

    #[inline]
    fn window(&self) -> u64 {
        if self.modelled {
            self.ruling().window()
        } else {
            self.cubic.window()
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.ruling().pacing_rate()
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        if let Some(bbr) = &mut self.bbr {
            bbr.on_handshake_rtt(now, srtt);
        }
    }

    fn metrics(&self) -> Metrics {
        self.ruling().metrics()
    }
}

/// BBR goes on by its model of the path, which packets of a granted flight improve.
impl Startable for Fallback {
    fn start_with(&mut self, now: Instant, window: u64, threshold: Option<u64>) {
        if !self.modelled {
            self.cubic.start_with(now, window, threshold);
        }
    }

    fn give_back(&mut self, now: Instant, window: u64) {
        if !self.modelled {
            self.cubic.give_back(now, window);
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        if !self.modelled {
            self.cubic.give_up(now, window, threshold, last_sent);
        }
    }

    fn raise_threshold(&mut self, threshold: u64) {
        if !self.modelled {
            self.cubic.raise_threshold(threshold);
        }
    }
}
