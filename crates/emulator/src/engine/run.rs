//! Runs scenarios.

use std::ops::ControlFlow;

use pathmark_cc::Duration;
use pathmark_link::queue::BadRed;
use pathmark_transport::connection::ConnectError;

use super::{Engine, Own};
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
