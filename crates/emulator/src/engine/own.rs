//! Controllers of the caller's own, in place of those that a scenario names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pathmark_transport::{ControllerFactory, Signal};

use crate::kit::LinkControllerFactory;

/// A sender's law.
#[derive(Clone)]
pub(crate) struct OwnLaw {
    /// What results call it.
    pub(crate) name: String,
    pub(crate) factory: Arc<dyn ControllerFactory>,
    /// Absent: those of the algorithm that the scenario names.
    pub(crate) signals: Option<Vec<Arc<dyn Signal>>>,
}

/// Laws by the names of flows and links.
#[derive(Clone, Default)]
pub(crate) struct Own {
    pub(crate) laws: BTreeMap<String, OwnLaw>,
    pub(crate) ports: BTreeMap<String, Arc<dyn LinkControllerFactory>>,
}

impl Own {
    /// The law of a flow: its own, or that of the name that it is numbered under.
    pub(super) fn law(&self, flow: &str) -> Option<&OwnLaw> {
        self.laws
            .get(flow)
            .or_else(|| self.laws.get(crate::kit::group(flow)))
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
