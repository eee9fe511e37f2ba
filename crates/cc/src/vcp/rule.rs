//! A port's mark at a given load: VCP's three codes, possibly combined with an extension.

use core::fmt;

use super::load::Load;
use crate::signals::{VcpCarried, VcpCode};

/// The fields that a rule sets in a packet. Interval and load are set by the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The code.
    pub code: VcpCode,
    /// BISE's r in 2^-16, with 65 535 for 1. `None`: this port does not run BISE.
    pub r: Option<u16>,
}

/// A link rule, which computes marks from loads.
pub trait LinkRule: Clone + Send + fmt::Debug {
    /// Handles the end of an interval with this load.
    fn on_load(&mut self, load: &Load);

    /// Handles a load that is a lower bound for the load of the current interval.
    fn on_progress(&mut self, load: &Load) {
        let _ = load;
    }

    /// The load is unknown, because nothing has been measured since the port was idle.
    fn on_idle(&mut self);

    /// The mark for a packet for which VCP's own code would be `code`.
    fn mark(&mut self, code: VcpCode, carried: &VcpCarried) -> Mark;

    /// True if each flow gets its own r, which may differ between flows.
    fn tells_r(&self) -> bool {
        false
    }

    /// The ε in 10^-6 with which senders follow r. `None`: no BISE.
    fn epsilon_ppm(&self) -> Option<u64> {
        None
    }

    /// BISE's r in 2^-32, for reports.
    fn r_q32(&self) -> Option<u64> {
        None
    }
}

/// VCP without an extension.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl LinkRule for Plain {
    fn on_load(&mut self, _load: &Load) {}

    fn on_idle(&mut self) {}

    #[inline]
    fn mark(&mut self, code: VcpCode, _carried: &VcpCarried) -> Mark {
        Mark { code, r: None }
    }
}
