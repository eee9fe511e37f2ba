//! A test kit for authors of control laws, which checks the results of scenarios in
//! `cargo test`.
//!
//! ```
//! use pathmark_cc::{Algorithm, Duration};
//! use pathmark_emulator::kit::{Flow, Path, Trial};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let law: Algorithm = "newreno".parse()?;
//! let path = Path::new("10Mbit", Duration::from_millis(40)).queue("1bdp");
//! let figures = Trial::over(&path, &[Flow::new("own").count(2)], Duration::from_secs(30))?
//!     // Any `Controller`; here one of the library's.
//!     .controller("own", "my law", move |now, mtu| law.controller(now, mtu))
//!     .run()?;
//! figures
//!     .expect()
//!     .utilization_at_least("bottleneck", 0.9)
//!     .jain_at_least(0.9)
//!     .queue_at_most_bdp("bottleneck", 1.0)
//!     .met()?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Trial`] is any [`Scenario`], from a file, text or a [`Path`], in which flows and ports
//! can run the caller's own controllers. Its [`Figures`] are the run's result and time series.
//! [`Figures::expect`] compares them with bounds, and reports for all bounds together which were
//! met and by how much. Because runs are deterministic, a bound that is met once is always met.

mod figures;

use std::fmt::Write as _;
use std::path::Path as FilePath;
use std::sync::Arc;

use pathmark_cc::Duration;
use pathmark_link::keys::nearest;
use pathmark_transport::{ControllerFactory, Signal};

pub use crate::engine::LinkControllerFactory;
use crate::engine::{Own, OwnLaw, RunError, group};
use crate::scenario::{Scenario, ScenarioError};
use figures::Series;
pub use figures::{Expectations, Figures, Shortfall};

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

/// One bottleneck from node `S` to node `D`, and an equal link back without controller or loss.
/// The bottleneck link is called `bottleneck`.
///
/// Values have the same form as in scenario files. They are checked when a
/// [`Trial`] is created from them.
#[derive(Clone, Debug)]
pub struct Path {
    rate: String,
    rtt: Duration,
    port: String,
    queue: String,
    loss: f64,
    seed: u64,
    packet: u16,
}

impl Path {
    /// Creates a path of this rate (`"10Mbit"`) and propagation round trip, with one
    /// bandwidth-delay product of DropTail, no controller and no loss.
    pub fn new(rate: &str, rtt: Duration) -> Self {
        Self {
            rate: rate.to_owned(),
            rtt,
            port: "none".to_owned(),
            queue: "1bdp".to_owned(),
            loss: 0.0,
            seed: 1,
            packet: 1500,
        }
    }

    /// Sets the port's law: `"vcp+bise"`, `"xcp"`, …
    #[must_use]
    pub fn port(mut self, law: &str) -> Self {
        law.clone_into(&mut self.port);
        self
    }

    /// Sets the queue's limit: `"0.5bdp"`, `"100p"`, `"64KiB"`.
    #[must_use]
    pub fn queue(mut self, limit: &str) -> Self {
        limit.clone_into(&mut self.queue);
        self
    }

    /// Loses each data packet with this probability.
    #[must_use]
    pub fn loss(mut self, per: f64) -> Self {
        self.loss = per;
        self
    }

    /// Sets the seed of all random numbers; the default is 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the largest IP packet in bytes; the default is 1500.
    #[must_use]
    pub fn packet(mut self, bytes: u16) -> Self {
        self.packet = bytes;
        self
    }

    /// Writes the scenario file for these flows over this path.
    pub fn scenario(&self, flows: &[Flow], duration: Duration) -> String {
        let Self {
            rate,
            port,
            queue,
            loss,
            seed,
            packet,
            ..
        } = self;
        let one_way = self.rtt.as_nanos() / 2;
        let mut text = format!(
            "duration = \"{}ns\"\nseed = {seed}\npacket = {packet}\n[[link]]\nname \
             = \"bottleneck\"\nfrom = \"S\"\nto = \"D\"\n\
             duplex = true\nrate = {rate:?}\ndelay = \"{one_way}ns\"\nqueue = {{ limit = {queue:?} \
             }}\ncontroller = {port:?}\n\
             loss = {{ kind = \"bernoulli\", per = {loss:?} }}\n",
            duration.as_nanos()
        );
        for flow in flows {
            flow.write(&mut text);
        }
        text
    }
}

/// Flows over a [`Path`].
#[derive(Clone, Debug)]
pub struct Flow {
    name: String,
    algorithm: String,
    count: u32,
    starts: Vec<Duration>,
    bytes: Option<u64>,
    backwards: bool,
}

impl Flow {
    /// Creates a flow from `S` to `D` on `cubic` that sends as much as possible, from the start
    /// to the end.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            algorithm: "cubic".to_owned(),
            count: 1,
            starts: Vec::new(),
            bytes: None,
            backwards: false,
        }
    }

    /// Selects the library's law. With a custom controller, this is the law whose router signal
    /// it uses: `"vcp"` or `"xcp"`.
    #[must_use]
    pub fn algorithm(mut self, name: &str) -> Self {
        name.clone_into(&mut self.algorithm);
        self
    }

    /// Creates `flows` flows, called `NAME0`, `NAME1`, …
    #[must_use]
    pub fn count(mut self, flows: u32) -> Self {
        self.count = flows;
        self
    }

    /// Sets the start of each flow, and thereby also their number.
    #[must_use]
    pub fn starts(mut self, at: &[Duration]) -> Self {
        at.clone_into(&mut self.starts);
        self.count = u32::try_from(at.len()).unwrap_or(u32::MAX);
        self
    }

    /// Sets the bytes to transfer. A run ends early once all such flows are complete.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sends from `D` to `S`.
    #[must_use]
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }

    fn write(&self, text: &mut String) {
        let (from, to) = if self.backwards {
            ("D", "S")
        } else {
            ("S", "D")
        };
        let Self {
            name,
            algorithm,
            count,
            ..
        } = self;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[flow]]\nname = {name:?}\nfrom = \"{from}\"\nto = \"{to}\"\nalgorithm = \
             {algorithm:?}\n"
        );
        if *count != 1 {
            let _ = writeln!(text, "count = {count}");
        }
        match &self.starts[..] {
            [] => {}
            [only] => {
                let _ = writeln!(text, "start = \"{}ns\"", only.as_nanos());
            }
            all => {
                let all: Vec<String> = all
                    .iter()
                    .map(|at| format!("\"{}ns\"", at.as_nanos()))
                    .collect();
                let _ = writeln!(text, "start = [{}]", all.join(", "));
            }
        }
        if let Some(bytes) = self.bytes {
            let _ = writeln!(text, "bytes = {bytes}");
        }
    }
}
