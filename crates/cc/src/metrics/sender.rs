//! State of a sender, for reports.

use core::fmt;

use super::{FallbackReason, QuickStartMetrics};

/// Phase of a controller, for reports. It must not be used for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Slow start, or the equivalent of another law.
    Startup,
    /// Multiplicative increase (VCP under LOW).
    MultiplicativeIncrease,
    /// Additive increase, congestion avoidance.
    Avoidance,
    /// Waiting for a recent cut to take effect.
    Recovery,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::MultiplicativeIncrease => "multiplicative increase",
            Self::Avoidance => "avoidance",
            Self::Recovery => "recovery",
        })
    }
}

/// The law that controls the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruler {
    /// Name of the law.
    pub law: &'static str,
    /// Reason why routers don't control the window although the sender's law asks them.
    pub fallback: Option<FallbackReason>,
}

/// State of a controller, for reports. It must not be used for control.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// Name of the law that currently controls the window (`cubic` while no router has answered
    /// `vcp`).
    pub ruling: &'static str,
    /// Current phase.
    pub phase: Phase,
    /// Window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, if the law has one.
    pub ssthresh: Option<u64>,
    /// True if the path's feedback controls the window, and false while the law falls back.
    pub explicit: bool,
    /// Reason why routers don't control the window, if the law asks them.
    pub fallback: Option<FallbackReason>,
    /// Results of questions for a starting rate, if the law asks for one.
    pub quick_start: Option<QuickStartMetrics>,
    /// Number of retransmission timeouts so far, if the law is a paper's sender, which has TCP's
    /// timer.
    pub timeouts: Option<u64>,
}

impl Metrics {
    /// Creates the state of a law without slow-start threshold that doesn't follow feedback. For
    /// others, set the public fields.
    pub const fn new(ruling: &'static str, phase: Phase, window: u64) -> Self {
        Self {
            ruling,
            phase,
            window,
            ssthresh: None,
            explicit: false,
            fallback: None,
            quick_start: None,
            timeouts: None,
        }
    }

    /// Returns the law that controls the window.
    pub const fn ruler(&self) -> Ruler {
        Ruler {
            law: self.ruling,
            fallback: self.fallback,
        }
    }
}
