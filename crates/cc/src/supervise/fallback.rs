//! Standard congestion control, used instead of routers' answers.
//!
//! While no router answers, the window is controlled by CUBIC or, if configured, BBR. If routers
//! answer but a hop without feedback is the bottleneck, it's always controlled by CUBIC, because
//! CUBIC's cuts show when such a hop has disappeared (`bottleneck`).

use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, PacketState, Sent};
use crate::quick_start::Startable;
use crate::standard::CubicController;
use crate::standard::bbr::Bbr;

/// Law that controls the window on a path without answering routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FallbackLaw {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// Standard laws that can replace the routers' law.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    cubic: CubicController,
    bbr: Option<Box<Bbr>>,
    /// True if BBR is in control instead of CUBIC.
    modelled: bool,
}

impl Fallback {
    pub(super) fn new(law: FallbackLaw, now: Instant, mtu: u16, initial: Option<u32>) -> Self {
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

    /// Takes over because routers no longer answer, and continues with `window` bytes, which they
    /// have allowed. The path's minimum and smoothed RTT are `least` and `srtt`.
    pub(super) fn take_over(&mut self, now: Instant, window: u64, least: Duration, srtt: Duration) {
        self.cubic.take_over(window);
        self.enter_model(now, least, srtt);
    }

    /// Continues with CUBIC's window, using BBR if configured.
    pub(super) fn enter_model(&mut self, now: Instant, least: Duration, srtt: Duration) {
        if let Some(bbr) = &mut self.bbr {
            self.modelled = true;
            bbr.take_over(now, self.cubic.window(), least, srtt);
        }
    }

    /// Takes over because a hop without feedback is the bottleneck. CUBIC continues with `window`
    /// bytes, in slow start up to `ssthresh`.
    pub(super) fn take_over_below(&mut self, now: Instant, window: u64, ssthresh: u64) {
        self.modelled = false;
        self.cubic.take_over_below(now, window, ssthresh);
    }

    /// Takes over because of a loss or mark that indicates congestion, although routers answer.
    /// CUBIC continues with `window` bytes.
    pub(crate) fn take_over_as_cubic(&mut self, window: u64) {
        self.modelled = false;
        self.cubic.take_over(window);
    }

    pub(crate) fn law(&self) -> &(dyn Startable + 'static) {
        match &self.bbr {
            Some(bbr) if self.modelled => &**bbr,
            _ => &self.cubic,
        }
    }

    /// Returns the law in control for its events. Sent packets and MTU changes go to both laws
    /// instead.
    pub(crate) fn law_mut(&mut self) -> &mut (dyn Startable + 'static) {
        match &mut self.bbr {
            Some(bbr) if self.modelled => &mut **bbr,
            _ => &mut self.cubic,
        }
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        let state = self.cubic.on_sent(now, sent);
        self.bbr
            .as_mut()
            .map_or(state, |bbr| bbr.on_sent(now, sent))
    }

    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) {
        if self.modelled {
            self.law_mut().on_ack(now, acked);
        } else {
            self.cubic.on_ack(now, acked);
        }
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.cubic.on_mtu(mtu);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_mtu(mtu);
        }
    }

    #[inline]
    pub(crate) fn window(&self) -> u64 {
        if self.modelled {
            self.law().window()
        } else {
            self.cubic.window()
        }
    }
}
