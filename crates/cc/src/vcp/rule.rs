//! A port's mark at a given load: VCP's three codes, or those with an extension mixed in.

use core::fmt;

use super::load::Load;
use crate::signals::{VcpCarried, VcpCode};

/// The fields that a rule sets in one packet. Interval and load are the port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The code.
    pub code: VcpCode,
    /// BISE's r in 2^-16, 65 535 standing for 1. `None`: this port runs no BISE.
    pub r: Option<u16>,
}

/// A link rule: from loads to marks.
pub trait LinkRule: Clone + Send + fmt::Debug {
    /// An interval ended with this load.
    fn on_load(&mut self, load: &Load);

    /// The running interval's load will be this or more.
    fn on_progress(&mut self, load: &Load) {
        let _ = load;
    }

    /// The load is unknown: nothing has been measured since the port was idle.
    fn on_idle(&mut self);

    /// The mark for a packet, where VCP's own code would be `code`.
    fn mark(&mut self, code: VcpCode, carried: &VcpCarried) -> Mark;

    /// True if each flow gets an r of its own, which may differ between flows.
    fn tells_r(&self) -> bool {
        false
    }

    /// The ε in 10^-6 that senders follow r with. `None`: no BISE.
    fn epsilon_ppm(&self) -> Option<u64> {
        None
    }

    /// BISE's r in 2^-32 for reports.
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
