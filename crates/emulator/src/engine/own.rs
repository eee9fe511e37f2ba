//! The caller's own controllers, which replace those named in a scenario.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pathmark_cc::{Instant, LinkController};
use pathmark_transport::{ControllerFactory, Signal};

/// Creates controllers for ports. Every `Fn(Instant, u64) -> Box<dyn LinkController>` implements
/// it.
pub trait LinkControllerFactory: Send + Sync {
    /// Creates a controller for a port of this rate, in bytes per second; 0 means unlimited.
    fn build(&self, now: Instant, rate: u64) -> Box<dyn LinkController>;
}

impl<F> LinkControllerFactory for F
where
    F: Fn(Instant, u64) -> Box<dyn LinkController> + Send + Sync,
{
    fn build(&self, now: Instant, rate: u64) -> Box<dyn LinkController> {
        self(now, rate)
    }
}

/// A sender's law.
#[derive(Clone)]
pub(crate) struct OwnLaw {
    /// Its name in results.
    pub(crate) name: String,
    pub(crate) factory: Arc<dyn ControllerFactory>,
    /// Absent: those of the algorithm named in the scenario.
    pub(crate) signals: Option<Vec<Arc<dyn Signal>>>,
}

/// Laws by the names of flows and links.
#[derive(Clone, Default)]
pub(crate) struct Own {
    pub(crate) laws: BTreeMap<String, OwnLaw>,
    pub(crate) ports: BTreeMap<String, Arc<dyn LinkControllerFactory>>,
}

impl Own {
    /// The law of a flow, found by its name or by the group name that it is numbered under.
    pub(super) fn law(&self, flow: &str) -> Option<&OwnLaw> {
        self.laws.get(flow).or_else(|| self.laws.get(group(flow)))
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("laws", &self.laws.keys())
            .field("ports", &self.ports.keys())
            .finish()
    }
}

/// The name that a flow is numbered under.
pub(crate) fn group(flow: &str) -> &str {
    flow.trim_end_matches(|c: char| c.is_ascii_digit())
}
