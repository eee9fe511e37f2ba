//! A scenario in which flows and ports run controllers of the caller's own.

use std::path::Path as FilePath;
use std::sync::Arc;

use pathmark_cc::Duration;
use pathmark_link::keys::nearest;
use pathmark_transport::{ControllerFactory, Signal};

use super::figures::{Figures, Series};
use super::path::{Flow, Path};
use crate::engine::{LinkControllerFactory, Own, OwnLaw, RunError, group};
use crate::scenario::{Scenario, ScenarioError};

/// A trial that cannot be made or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A controller is for a flow or a link that does not exist.
    #[error("no {what} is called `{name}`{}", hint(.nearest.as_deref()))]
    Unknown {
        /// `flow` or `link`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The name that is most like it.
        nearest: Option<String>,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}

/// A scenario and the controllers to be tried in it.
pub struct Trial {
    scenario: Scenario,
    own: Own,
    /// What was asked for and does not exist.
    unknown: Option<TrialError>,
}

impl Trial {
    /// A trial of `flows` over `path` that ends after `duration` at the latest.
    ///
    /// # Errors
    /// [`ScenarioError`] if a rate, a limit or a name makes no sense.
    pub fn over(path: &Path, flows: &[Flow], duration: Duration) -> Result<Self, ScenarioError> {
        Self::parse(&path.scenario(flows, duration))
    }

    /// A trial of a scenario in the text of a file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Ok(Self::of(Scenario::parse(
            FilePath::new("trial.toml"),
            text,
        )?))
    }

    /// A trial of a built-in scenario or a file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        Ok(Self::of(Scenario::load(name_or_path)?))
    }

    /// A trial of a scenario.
    #[must_use]
    pub fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            own: Own::default(),
            unknown: None,
        }
    }

    /// Changes a key of the scenario, as [`Scenario::set`]. Controllers stay with flows and links
    /// of the same name.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, ScenarioError> {
        self.scenario.set(key, value)?;
        Ok(self)
    }

    /// Lets the flow `flow`, or all flows numbered under this name, run controllers that `factory`
    /// makes, reported as `law`. It keeps the signal of the algorithm that the scenario gives it:
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

    /// The same with signals of one's own in place of the scenario's.
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

    /// Puts a controller that `factory` makes in charge of the link `link` (`NAME.reverse` for the
    /// other direction of a duplex one). The scenario decides whether packets without feedback wait
    /// in a queue of their own.
    #[must_use]
    pub fn port(mut self, link: &str, factory: impl LinkControllerFactory + 'static) -> Self {
        self.check("link", link);
        self.own.ports.insert(link.to_owned(), Arc::new(factory));
        self
    }

    /// Runs it to its end.
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
