//! Running a scenario.

use std::ops::ControlFlow;

use pathmark_cc::Duration;
use pathmark_link::queue::BadRed;
use pathmark_transport::connection::ConnectError;

use super::{Engine, Own};
use crate::observe::{Observer, Progress};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// A run that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A link's queue cannot work.
    #[error("link `{link}`: {source}")]
    Queue {
        /// The link.
        link: String,
        /// Why.
        source: BadRed,
    },
    /// A connection cannot begin.
    #[error("flow `{flow}`: {source}")]
    Connect {
        /// The flow.
        flow: String,
        /// Why.
        source: ConnectError,
    },
    /// Simulated time stands still.
    #[error(
        "time stands still at {at:?}: packets go round without delay; give links a `rate` or a \
         `delay`"
    )]
    Stall {
        /// When.
        at: Duration,
    },
}

impl Scenario {
    /// Runs it. `progress` is called once per few thousand events and can end the run early. The
    /// result then holds what was measured until then. The caller fills in the wall time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        progress: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<RunResult, RunError> {
        self.run_with(&mut Watch(progress))
    }

    /// Runs it under the eyes of an observer, such as [`Outputs`](crate::Outputs).
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_with(&self, observer: &mut dyn Observer) -> Result<RunResult, RunError> {
        self.run_own(observer, &Own::default())
    }

    /// The same with controllers of the caller's own.
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

/// Watches progress alone.
struct Watch<F>(F);

impl<F: FnMut(&Progress) -> ControlFlow<()>> Observer for Watch<F> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.0(progress)
    }
}
