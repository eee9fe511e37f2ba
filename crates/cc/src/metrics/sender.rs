//! A sender's state, for reports.

use core::fmt;

use super::{FallbackReason, QuickStartMetrics};

/// Where a controller stands, for reports. Not for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Slow start, or a start-up of another law.
    Startup,
    /// Multiplicative increase (VCP under LOW).
    MultiplicativeIncrease,
    /// Additive increase, congestion avoidance.
    Avoidance,
    /// Just cut; waiting for the cut to show.
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

/// The law that has the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruler {
    /// Its name.
    pub law: &'static str,
    /// Why routers do not steer the window, if the sender's law asks them.
    pub fallback: Option<FallbackReason>,
}

/// A controller's state, for reports. Not for control.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// Name of the law that rules right now (`cubic` while no router has answered `vcp`).
    pub ruling: &'static str,
    /// Where it stands.
    pub phase: Phase,
    /// Window in bytes.
    pub window: u64,
    /// Slow-start threshold in bytes, where the law has one.
    pub ssthresh: Option<u64>,
    /// True if the path's feedback steers the window; false while the law falls back.
    pub explicit: bool,
    /// Why they do not steer it, if the law asks routers.
    pub fallback: Option<FallbackReason>,
    /// What became of its questions for a starting rate, if the law asks.
    pub quick_start: Option<QuickStartMetrics>,
}

impl Metrics {
    /// A law without slow-start threshold that feedback does not steer; set the public fields for
    /// others.
    #[must_use]
    pub const fn new(ruling: &'static str, phase: Phase, window: u64) -> Self {
        Self {
            ruling,
            phase,
            window,
            ssthresh: None,
            explicit: false,
            fallback: None,
            quick_start: None,
        }
    }

    /// The law that has the window.
    #[must_use]
    pub const fn ruler(&self) -> Ruler {
        Ruler {
            law: self.ruling,
            fallback: self.fallback,
        }
    }
}
