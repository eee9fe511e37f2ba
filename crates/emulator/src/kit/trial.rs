//! Scenarios in which flows and ports run the caller's own controllers.
//!
//! The figures of a trial.

use std::path::Path as FilePath;
use std::sync::Arc;

use super::{Flow, Path};
use crate::engine::{LinkControllerFactory, Own, OwnLaw, RunError, group};
use crate::fairness::jain;
use crate::observe::{Observer, Sample};
use crate::result::{FlowResult, LinkResult, RunResult};
use crate::scenario::{Scenario, ScenarioError};
use pathmark_cc::Duration;
use pathmark_link::keys::nearest;
use pathmark_transport::{ControllerFactory, Signal};

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

/// Default time over which goodputs are compared: short enough to see a law settle, long enough
/// for its steps to even out.
const WINDOW: Duration = Duration::from_secs(1);

/// Bytes delivered by each flow over time.
#[derive(Debug, Default)]
pub(super) struct Series {
    at: Vec<Duration>,
    delivered: Vec<Vec<u64>>,
}

impl Observer for Series {
    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, _scenario: &Scenario, sample: &Sample<'_>) {
        self.at.push(sample.at);
        let flows = sample.flows.iter().map(|flow| flow.delivered);
        self.delivered.push(flows.collect());
    }
}

/// The result of a trial, with figures computed from its time series.
#[derive(Debug)]
pub struct Figures {
    result: RunResult,
    series: Series,
    /// Bandwidth-delay product of each link in packets.
    bdp: Vec<Option<f64>>,
}

impl Figures {
    pub(super) fn new(scenario: &Scenario, result: RunResult, series: Series) -> Self {
        let bdp = scenario.links.iter().map(|link| {
            let rate = link.spec.rate?.bytes() as f64;
            let rtt = link.rtt?.as_nanos() as f64 / 1e9;
            Some(rate * rtt / f64::from(scenario.packet))
        });
        Self {
            bdp: bdp.collect(),
            result,
            series,
        }
    }

    /// All measurements, as `pathmark emulate --json` prints them.
    pub fn result(&self) -> &RunResult {
        &self.result
    }

    /// The flow with this name.
    pub fn flow(&self, name: &str) -> Option<&FlowResult> {
        self.result.flows.iter().find(|flow| flow.name == name)
    }

    /// The flow with this name, or all flows numbered under it.
    pub fn flows(&self, name: &str) -> Vec<&FlowResult> {
        self.named(name).into_iter().map(|(_, flow)| flow).collect()
    }

    /// The link with this name.
    pub fn link(&self, name: &str) -> Option<&LinkResult> {
        self.result.links.iter().find(|link| link.name == name)
    }

    /// The bandwidth-delay product of a link in packets: its rate times the longest propagation
    /// round trip of its flows.
    pub fn bdp_packets(&self, link: &str) -> Option<f64> {
        let at = self.result.links.iter().position(|l| l.name == link)?;
        self.bdp.get(at).copied().flatten()
    }

    /// Returns how long after the last start these flows began to share fairly for good: from then
    /// on, Jain's index over their goodputs in each second is at least `least`, until the first
    /// flow ends. `None`: never.
    pub fn convergence(&self, flows: &str, least: f64) -> Option<Duration> {
        let members = self.named(flows);
        let start = members.iter().map(|(_, f)| f.start_s).fold(0.0, f64::max);
        let end = |flow: &FlowResult| {
            let done = flow.completion_s.map(|took| flow.start_s + took);
            done.unwrap_or(self.result.simulated_s)
        };
        let end = members.iter().map(|(_, f)| end(f)).fold(f64::MAX, f64::min);
        let windows = self.windows(start, end);
        let fair = |(from, to): &(usize, usize)| {
            let rates = members.iter().map(|(index, _)| {
                let delivered = |row: usize| {
                    let row = self.series.delivered.get(row);
                    row.and_then(|row| row.get(*index)).copied().unwrap_or(0)
                };
                delivered(*to).saturating_sub(delivered(*from)) as f64
            });
            jain(rates) >= least
        };
        // The first of the fair windows that continue to the end without interruption.
        let unfair = windows.iter().rposition(|window| !fair(window));
        let (first, _) = windows.get(unfair.map_or(0, |last| last + 1))?;
        let at = self.series.at.get(*first)?.as_nanos() as f64 / 1e9;
        Some(Duration::from_secs_f64((at - start).max(0.0)))
    }

    fn named(&self, name: &str) -> Vec<(usize, &FlowResult)> {
        let flows = self.result.flows.iter().enumerate();
        flows
            .filter(|(_, flow)| flow.name == name || group(&flow.name) == name)
            .collect()
    }

    /// Sliding windows of a second between two times, as indices of samples.
    fn windows(&self, from: f64, to: f64) -> Vec<(usize, usize)> {
        let seconds = |at: &Duration| at.as_nanos() as f64 / 1e9;
        let times: Vec<f64> = self.series.at.iter().map(seconds).collect();
        let length = seconds(&WINDOW);
        let mut windows = Vec::new();
        for (index, at) in times.iter().enumerate().filter(|(_, at)| **at >= from) {
            // Samples are evenly spaced except for the last.
            let end = times.partition_point(|t| *t < at + length - 1e-9);
            if times.get(end).is_some_and(|t| *t <= to) {
                windows.push((index, end));
            }
        }
        windows
    }
}
