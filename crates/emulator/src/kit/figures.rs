//! The figures of a trial, and bounds on them, with a report of those that are not met.

use std::fmt;

use pathmark_cc::Duration;

use crate::engine::group;
use crate::observe::{Observer, Sample};
use crate::result::{FlowResult, LinkResult, RunResult, jain};
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

/// Bounds on [`Figures`], which are collected one by one and checked together by
/// [`met`](Self::met).
#[derive(Debug)]
#[must_use = "nothing is judged before `met`"]
pub struct Expectations<'a> {
    figures: &'a Figures,
    lines: Vec<Line>,
}

/// One bound, with the figure that was compared with it.
#[derive(Clone, Debug)]
struct Line {
    what: String,
    measured: String,
    bound: String,
    met: bool,
}

/// The error for expectations that were not met. It prints every expectation with its figure.
#[derive(Clone)]
pub struct Shortfall {
    headline: String,
    lines: Vec<Line>,
}

impl Figures {
    /// Starts a list of expectations.
    pub fn expect(&self) -> Expectations<'_> {
        Expectations::new(self)
    }
}

impl<'a> Expectations<'a> {
    fn new(figures: &'a Figures) -> Self {
        Self {
            figures,
            lines: Vec::new(),
        }
    }

    /// Requires that all flows with this name, or numbered under it, complete within this time
    /// after their start.
    pub fn completion_within(mut self, flow: &str, limit: Duration) -> Self {
        let limit = seconds(limit);
        let bound = format!("at most {limit:.3} s");
        let what = format!("{flow}: completion of the slowest");
        let flows = self.figures.flows(flow);
        let missing = flows.iter().filter(|f| !f.completed).count();
        if flows.is_empty() || missing > 0 {
            let measured = match flows.len() {
                0 => "no such flow".to_owned(),
                all => format!("{missing} of {all} not done"),
            };
            return self.line(what, measured, bound, false);
        }
        let slowest = flows
            .iter()
            .filter_map(|f| f.completion_s)
            .fold(0.0, f64::max);
        self = self.line(what, format!("{slowest:.3} s"), bound, slowest <= limit);
        self
    }

    /// Requires a minimum for the total goodput of all flows with this name, or numbered under
    /// it, in bits per second.
    pub fn goodput_at_least(self, flow: &str, bps: f64) -> Self {
        let flows = self.figures.flows(flow);
        let rates: Vec<f64> = flows.iter().map(|f| f.goodput_bps).collect();
        let sum: f64 = rates.iter().sum();
        let measured = match rates.len() {
            0 => "no such flow".to_owned(),
            _ => format!("{:.3} Mbit/s", sum / 1e6),
        };
        let bound = format!("at least {:.3} Mbit/s", bps / 1e6);
        let met = !rates.is_empty() && sum >= bps;
        self.line(format!("{flow}: goodput"), measured, bound, met)
    }

    /// Requires a minimum for Jain's index over the goodputs of all flows.
    pub fn jain_at_least(self, least: f64) -> Self {
        let jain = self.figures.result().jain;
        let bound = format!("at least {least}");
        self.line("Jain's index", format!("{jain:.4}"), bound, jain >= least)
    }

    /// Requires that these flows share fairly within this time after the last one's start, and
    /// until the end: see [`Figures::convergence`].
    pub fn converges_within(self, flows: &str, jain: f64, limit: Duration) -> Self {
        let limit = seconds(limit);
        let took = self.figures.convergence(flows, jain).map(seconds);
        let measured = took.map_or_else(|| "never".to_owned(), |took| format!("{took:.1} s"));
        let met = took.is_some_and(|took| took <= limit);
        let what = format!("{flows}: time to a lasting Jain's index of {jain}");
        self.line(what, measured, format!("at most {limit:.1} s"), met)
    }

    /// Requires that the link is used to 80 % for a round trip within this time after the run's
    /// start.
    pub fn used_within(self, link: &str, limit: Duration) -> Self {
        let limit = seconds(limit);
        let bound = format!("at most {limit:.3} s");
        let what = "time to 80 % of its rate";
        self.link(link, what, bound, |_, link| match link.time_to_80_s {
            Some(took) => (format!("{took:.3} s"), took <= limit),
            None => ("never".to_owned(), false),
        })
    }

    /// Requires a minimum utilization of the link, over the whole run.
    pub fn utilization_at_least(self, link: &str, least: f64) -> Self {
        let bound = format!("at least {least}");
        self.link(link, "utilization", bound, |_, link| {
            match link.utilization {
                Some(used) => (format!("{used:.4}"), used >= least),
                None => ("unlimited link".to_owned(), false),
            }
        })
    }

    /// Limits the mean queue, weighted by time, in bandwidth-delay products.
    pub fn queue_at_most_bdp(self, link: &str, most: f64) -> Self {
        let bound = format!("at most {most} BDP");
        self.link(link, "mean queue", bound, |figures, link| {
            let packets = link.queue_packets.mean;
            let Some(bdp) = figures.bdp_packets(&link.name).filter(|bdp| *bdp > 0.0) else {
                return ("no bandwidth-delay product".to_owned(), false);
            };
            let share = packets / bdp;
            let measured = format!("{share:.4} BDP ({packets:.1} of {bdp:.0} packets)");
            (measured, packets <= most * bdp)
        })
    }

    /// Limits the mean queue, weighted by time, in packets.
    pub fn queue_at_most(self, link: &str, packets: f64) -> Self {
        let bound = format!("at most {packets} packets");
        self.link(link, "mean queue", bound, |_, link| {
            let mean = link.queue_packets.mean;
            (format!("{mean:.1} packets"), mean <= packets)
        })
    }

    /// Limits the number of packets that the link's queue drops.
    pub fn drops_at_most(self, link: &str, most: u64) -> Self {
        self.link(link, "drops", format!("at most {most}"), |_, link| {
            (link.drops.to_string(), link.drops <= most)
        })
    }

    /// Limits the share of their packets that these flows declare lost.
    pub fn losses_at_most(self, flow: &str, share: f64) -> Self {
        let (mut lost, mut sent) = (0, 0);
        for flow in self.figures.flows(flow) {
            lost += flow.packets_lost.unwrap_or(0);
            sent += flow.packets_sent.unwrap_or(0);
        }
        let measured = lost as f64 / (sent as f64).max(1.0);
        self.line(
            format!("{flow}: packets lost"),
            format!("{measured:.6} ({lost} of {sent})"),
            format!("at most {share}"),
            sent > 0 && measured <= share,
        )
    }

    /// Adds any other expectation; `measured` and `bound` appear in the report.
    pub fn that(self, what: &str, measured: impl fmt::Display, bound: &str, met: bool) -> Self {
        self.line(what, measured.to_string(), bound.to_owned(), met)
    }

    /// Checks all expectations.
    ///
    /// # Errors
    /// [`Shortfall`], with every figure, if any expectation is not met.
    pub fn met(self) -> Result<(), Shortfall> {
        let missed = self.lines.iter().filter(|line| !line.met).count();
        if missed == 0 {
            return Ok(());
        }
        let result = self.figures.result();
        let all = self.lines.len();
        Err(Shortfall {
            headline: format!(
                "{missed} of {all} expectations not met in \"{}\" (seed {}, {:.1} s simulated)",
                result.scenario, result.seed, result.simulated_s
            ),
            lines: self.lines,
        })
    }

    fn link(
        self,
        name: &str,
        what: &str,
        bound: String,
        judge: impl FnOnce(&Figures, &LinkResult) -> (String, bool),
    ) -> Self {
        let figures = self.figures;
        let (measured, met) = match figures.link(name) {
            Some(link) => judge(figures, link),
            None => ("no such link".to_owned(), false),
        };
        self.line(format!("{name}: {what}"), measured, bound, met)
    }

    fn line(mut self, what: impl Into<String>, measured: String, bound: String, met: bool) -> Self {
        self.lines.push(Line {
            what: what.into(),
            measured,
            bound,
            met,
        });
        self
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline)?;
        let widest = |column: fn(&Line) -> &String| {
            let widths = self.lines.iter().map(|line| column(line).chars().count());
            widths.max().unwrap_or(0)
        };
        let (what, measured) = (widest(|l| &l.what), widest(|l| &l.measured));
        for line in &self.lines {
            let verdict = if line.met { "met   " } else { "MISSED" };
            write!(
                f,
                "\n  {verdict}  {:what$}  {:measured$}  {}",
                line.what, line.measured, line.bound
            )?;
        }
        Ok(())
    }
}

/// The same as [`Display`](fmt::Display), because tests that return or unwrap it print this.
impl fmt::Debug for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Shortfall {}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}
