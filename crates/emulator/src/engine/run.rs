//! Runs scenarios, also with the caller's own controllers, which replace those named in a scenario.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use pathmark_cc::{Duration, Instant, LinkController};
use pathmark_link::queue::BadRed;
use pathmark_transport::connection::ConnectError;
use pathmark_transport::{ControllerFactory, Signal};

use super::Engine;
use crate::observe::{Observer, Progress};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// The reason why a run cannot start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The parameters of a link's queue are impossible.
    #[error("link `{link}`: {source}")]
    Queue {
        /// The link.
        link: String,
        /// The cause.
        source: BadRed,
    },
    /// A connection cannot start.
    #[error("flow `{flow}`: {source}")]
    Connect {
        /// The flow.
        flow: String,
        /// The cause.
        source: ConnectError,
    },
    /// Simulated time does not advance.
    #[error(
        "time stands still at {at:?}: packets go round without delay; give links a `rate` or a \
         `delay`"
    )]
    Stall {
        /// The simulated time.
        at: Duration,
    },
}

impl Scenario {
    /// Runs the scenario. `progress` is called every few thousand events and can end the run
    /// early. The result then contains the measurements up to that time. The caller must fill in
    /// the wall time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        progress: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<RunResult, RunError> {
        self.run_with(&mut Watch(progress))
    }

    /// Runs the scenario with an observer, such as [`Outputs`](crate::Outputs).
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_with(&self, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
        self.run_own(observer, &Own::default())
    }

    /// Runs the scenario with controllers of the caller's own.
    pub(crate) fn run_own(
        &self,
        observer: &mut dyn Observer,
        own: &Own,
    ) -> Result<RunResult, RunError> {
        let mut engine = Engine::new(self, observer, own)?;
        engine.run(observer)?;
        engine.catch_up(engine.now);
        engine.take_sample(engine.now, true, observer);
        Ok(engine.collect())
    }
}

/// Observes only the progress.
struct Watch<F>(F);

impl<F: FnMut(&Progress) -> ControlFlow<()>> Observer for Watch<F> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.0(progress)
    }
}

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
