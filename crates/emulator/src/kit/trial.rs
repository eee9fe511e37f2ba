//! Scenarios in which flows and ports run the caller's own controllers.

use std::path::Path as FilePath;
use std::sync::Arc;

use pathmark_cc::Duration;
use pathmark_link::keys::nearest;
use pathmark_transport::{ControllerFactory, Signal};

use super::figures::{Figures, Series};
use super::path::{Flow, Path};
use crate::engine::{LinkControllerFactory, Own, OwnLaw, RunError, group};
use crate::scenario::{Scenario, ScenarioError};

/// The reason why a trial cannot be created or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A controller is meant for a flow or a link that does not exist.
    #[error("no {what} is called `{name}`{}", hint(.nearest.as_deref()))]
    Unknown {
        /// `flow` or `link`.
        what: &'static str,
        /// The given name.
        name: String,
        /// The most similar existing name.
        nearest: Option<String>,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}

/// A scenario and the controllers that run in it.
pub struct Trial {
    scenario: Scenario,
    own: Own,
    /// The first name that does not exist.
    unknown: Option<TrialError>,
}

impl Trial {
    /// Creates a trial of `flows` over `path` that ends after `duration` at the latest.
    ///
    /// # Errors
    /// [`ScenarioError`] if a rate, a limit or a name is invalid.
    pub fn over(path: &Path, flows: &[Flow], duration: Duration) -> Result<Self, ScenarioError> {
        Self::parse(&path.scenario(flows, duration))
    }

    /// Creates a trial from the text of a scenario file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Ok(Self::of(Scenario::parse(
            FilePath::new("trial.toml"),
            text,
        )?))
    }

    /// Creates a trial from a built-in scenario or a file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        Ok(Self::of(Scenario::load(name_or_path)?))
    }

    /// Creates a trial from a scenario.
    pub fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            own: Own::default(),
            unknown: None,
        }
    }

    /// Changes a key of the scenario, like [`Scenario::set`]. Controllers stay with flows and
    /// links of the same name.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        self.scenario.set(key, value)?;
        Ok(self)
    }

    /// Makes the flow `flow`, or all flows numbered under this name, run controllers from
    /// `factory`, reported as `law`. The signal is that of the flow's algorithm in the scenario:
    /// `vcp` for routers' codes, `cubic` for no signal.
    #[must_use]
    pub fn controller(
        mut self,
        flow: &str,
        law: &str,
        factory: impl ControllerFactory + 'static,
    ) -> Self {
        self.check("flow", flow);
        self.own.laws.insert(
            flow.to_owned(),
            OwnLaw {
                name: law.to_owned(),
                factory: Arc::new(factory),
                signals: None,
            },
        );
        self
    }

    /// Like [`controller`](Self::controller), but with custom signals instead of the scenario's.
    #[must_use]
    pub fn controller_with_signals(
        mut self,
        flow: &str,
        law: &str,
        factory: impl ControllerFactory + 'static,
        signals: Vec<Arc<dyn Signal>>,
    ) -> Self {
        self = self.controller(flow, law, factory);
        if let Some(law) = self.own.laws.get_mut(flow) {
            law.signals = Some(signals);
        }
        self
    }

    /// Installs a controller from `factory` at the link `link` (`NAME.reverse` for the other
    /// direction of a duplex link). The scenario determines whether packets without feedback
    /// wait in a separate queue.
    #[must_use]
    pub fn port(mut self, link: &str, factory: impl LinkControllerFactory + 'static) -> Self {
        self.check("link", link);
        self.own.ports.insert(link.to_owned(), Arc::new(factory));
        self
    }

    /// Runs the trial to its end.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn run(self) -> Result<Figures, TrialError> {
        if let Some(unknown) = self.unknown {
            return Err(unknown);
        }
        let mut series = Series::default();
        let result = self.scenario.run_own(&mut series, &self.own)?;
        Ok(Figures::new(&self.scenario, result, series))
    }

    fn check(&mut self, what: &'static str, name: &str) {
        let flows = || self.scenario.flows.iter().map(|flow| flow.name.as_str());
        let links = || self.scenario.links.iter().map(|link| link.name.as_str());
        let names: Vec<&str> = if what == "flow" {
            flows().collect()
        } else {
            links().collect()
        };
        let known = names
            .iter()
            .any(|known| *known == name || (what == "flow" && group(known) == name));
        if !known && self.unknown.is_none() {
            self.unknown = Some(TrialError::Unknown {
                what,
                name: name.to_owned(),
                nearest: nearest(name, names).map(str::to_owned),
            });
        }
    }
}
