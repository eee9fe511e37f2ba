//! The figures of a trial.

use pathmark_cc::Duration;

use crate::engine::group;
use crate::fairness::jain;
use crate::observe::{Observer, Sample};
use crate::result::{FlowResult, LinkResult, RunResult};
use crate::scenario::Scenario;

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
