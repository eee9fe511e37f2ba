//! Metrics of a run, or of several runs with different seeds.

use std::collections::HashSet;

use pathmark_emulator::result::{
    Controllers, FlowResult, LinkResult, RunResult, WindowResult, jain,
};
use pathmark_emulator::scenario::Metric;

use crate::compare::Tally;
use crate::text::{capitalized, dash, rate};

#[cfg(test)]
mod tests;

/// Name in results for flows without a law.
pub const UDP: &str = "udp";

/// Summary of a run in one row.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Number of flows.
    pub flows: usize,
    /// Number of flows that completed.
    pub completed: usize,
    /// Number of flows with an end.
    finite: usize,
    /// Mean time of completed flows, in seconds.
    pub completion_s: Option<f64>,
    /// Times of the completed flows in ascending order, in seconds.
    completions: Vec<f64>,
    /// Bits that all flows delivered, per second from the first start to the last byte.
    pub goodput_bps: f64,
    /// Jain's index over windows if two or more flows ran at a time, otherwise over lifetimes.
    pub jain: f64,
    /// Packets that the senders declared lost.
    pub packets_lost: u64,
    /// The link with the highest utilization.
    pub link: Option<LinkResult>,
}

impl Summary {
    /// Summarizes a run.
    pub fn new(result: &RunResult) -> Self {
        let mut times: Vec<f64> = result.flows.iter().filter_map(|f| f.completion_s).collect();
        times.sort_by(f64::total_cmp);
        let used = result.links.iter();
        let used = used.filter_map(|link| Some((link, link.utilization?)));
        let busiest = used.max_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            flows: result.flows.len(),
            completed: times.len(),
            finite: (result.flows.iter())
                .filter(|flow| flow.bytes_requested.is_some())
                .count(),
            completion_s: (!times.is_empty())
                .then(|| times.iter().sum::<f64>() / times.len() as f64),
            completions: times,
            goodput_bps: result.together(counted(result)),
            jain: fairness(result),
            packets_lost: result.flows.iter().filter_map(|f| f.packets_lost).sum(),
            link: busiest.map(|(link, _)| link.clone()),
        }
    }

    /// Returns the shortest time in seconds that `percent` of the completed flows do not exceed.
    pub fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = (self.completions.len() * percent).div_ceil(100).max(1);
        self.completions.get(rank - 1).copied()
    }
}

/// True for completion times, which only exist once all flows with an end have completed.
pub(crate) const fn is_completion(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Completion | Metric::CompletionMedian | Metric::CompletionP95
    )
}

/// Returns flows whose bytes are goodput. Next to connections, UDP does not count, because it is
/// background load, often in the other direction.
fn counted(result: &RunResult) -> impl Iterator<Item = &FlowResult> {
    let alone = result.flows.iter().all(|flow| flow.algorithm == UDP);
    let flows = result.flows.iter();
    flows.filter(move |flow| alone || flow.algorithm != UDP)
}

/// Returns Jain's index over windows if two or more flows ran at a time, otherwise over lifetimes.
pub fn fairness(result: &RunResult) -> f64 {
    result.jain_windows.unwrap_or(result.jain)
}

/// Returns the total bits per second of all flows in a measuring window.
pub fn within(result: &RunResult, window: &WindowResult) -> f64 {
    let wanted: HashSet<&str> = counted(result).map(|flow| flow.name.as_str()).collect();
    window.together(|name| wanted.contains(name))
}

/// Returns the utilization of the run's busiest link, in the last measuring window if there is any.
fn late_utilization(result: &RunResult, link: Option<&LinkResult>) -> Option<f64> {
    let links = &result.windows.last()?.links;
    let found = links
        .iter()
        .find(|known| link.is_some_and(|l| l.name == known.name));
    found?.utilization
}

/// Returns the run as if it only had the flow with this name, or this name and a number.
fn only(result: &RunResult, name: &str) -> RunResult {
    let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    let wanted = |known: &str| known.strip_prefix(name).is_some_and(numbered);
    let flows = result.flows.iter().filter(|flow| wanted(&flow.name));
    let flows: Vec<FlowResult> = flows.cloned().collect();
    let begun = flows
        .iter()
        .filter(|flow| flow.start_s < result.simulated_s);
    RunResult {
        jain: jain(begun.map(|flow| flow.goodput_bps)),
        // Windows include all flows.
        jain_windows: None,
        flows,
        ..result.clone()
    }
}

/// Returns a run's metric, or `None` if, for example, files did not arrive; `flow` as in a
/// scenario's `[[paper]]`.
pub fn value(result: &RunResult, metric: Metric, flow: Option<&str>) -> Option<f64> {
    let own = flow.map(|name| only(result, name));
    let run = own.as_ref().unwrap_or(result);
    let summary = Summary::new(run);
    let link = summary.link.as_ref();
    match metric {
        _ if is_completion(metric) && summary.completed < summary.finite => None,
        Metric::Completion => summary.completion_s,
        Metric::CompletionMedian => summary.percentile(50),
        Metric::CompletionP95 => summary.percentile(95),
        Metric::Goodput => Some(summary.goodput_bps),
        Metric::LateGoodput => Some(within(run, run.windows.last()?)),
        // Without goodput there are no shares.
        Metric::Jain => (summary.goodput_bps > 0.0).then_some(summary.jain),
        Metric::Lost => Some(summary.packets_lost as f64),
        Metric::Drops => link.map(|l| l.drops as f64),
        Metric::OverTransmission => {
            let sent: u64 = result.flows.iter().filter_map(|f| f.packets_sent).sum();
            let drops = link?.drops;
            let carried = sent.checked_sub(drops).filter(|carried| *carried > 0)?;
            Some(drops as f64 / carried as f64)
        }
        Metric::Utilization => link?.utilization,
        Metric::LateUtilization => late_utilization(result, link),
        // From the first flow's start.
        Metric::TimeTo80 => {
            let first = result.flows.iter().map(|flow| flow.start_s);
            let first = first.reduce(f64::min).unwrap_or(0.0);
            link?.time_to_80_s.map(|at| at - first)
        }
        Metric::Queue => link.map(|l| l.queue_packets.mean),
        Metric::QueueNonempty => link.map(|l| l.queue_packets.mean_nonempty),
        Metric::QueueMax => link.map(|l| l.queue_packets.max),
        Metric::WindowMax => {
            let windows = run.flows.iter().filter_map(|flow| flow.cwnd_bytes);
            windows.map(|window| window.max).reduce(f64::max)
        }
        _ => None,
    }
}

/// Returns a metric's least, mean and greatest value over runs with different seeds, or `None` if a
/// run has none.
pub fn spread(
    results: &[&RunResult],
    metric: Metric,
    flow: Option<&str>,
) -> Option<(f64, f64, f64)> {
    let values: Option<Vec<f64>> = results.iter().map(|r| value(r, metric, flow)).collect();
    let tally = Tally::new(&values?)?;
    Some((tally.min, tally.mean, tally.max))
}

/// Returns how many flows ended in all runs together, and how many have an end, with `flow` as in
/// [`value`].
pub fn ended(results: &[&RunResult], flow: Option<&str>) -> (usize, usize) {
    let summaries = results.iter().map(|result| {
        let own = flow.map(|name| only(result, name));
        Summary::new(own.as_ref().unwrap_or(result))
    });
    summaries.fold((0, 0), |(done, all), summary| {
        (done + summary.completed, all + summary.finite)
    })
}

/// Returns the mean as text, or how many flows ended.
pub fn here(results: &[&RunResult], metric: Metric, flow: Option<&str>) -> String {
    match (spread(results, metric, flow), metric) {
        (Some((_, mean, _)), _) => shown(mean, metric),
        (None, metric) if is_completion(metric) => {
            let (done, all) = ended(results, flow);
            format!("{done} of {all} ended")
        }
        (None, _) => dash(),
    }
}

/// Returns the mean as [`here`] does, with the least and the greatest value if they differ.
pub fn ranged(results: &[&RunResult], metric: Metric) -> String {
    let Some((least, mean, most)) = spread(results, metric, None) else {
        return here(results, metric, None);
    };
    let [least, mean, most] = [least, mean, most].map(|value| shown(value, metric));
    if least == most {
        return mean;
    }
    let first = match (least.split_once(' '), most.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number,
        _ => &least,
    };
    format!("{mean} ({first} to {most})")
}

/// Returns the law that controlled the windows of the runs' flows for most of the time.
pub fn ruled_by(results: &[&RunResult]) -> String {
    let flows = results.iter().flat_map(|run| &run.flows);
    let known = flows.filter_map(|flow| flow.controllers.as_ref());
    let law = Controllers::together(known).largest();
    if law.is_empty() { dash() } else { law }
}

/// Formats a value with its unit.
pub fn shown(value: f64, metric: Metric) -> String {
    match metric {
        Metric::TimeTo80 => format!("{value:.2} s"),
        metric if is_completion(metric) => format!("{value:.2} s"),
        Metric::Goodput | Metric::LateGoodput => rate(value),
        Metric::Jain => format!("{value:.4}"),
        Metric::Utilization | Metric::LateUtilization => format!("{value:.3}"),
        Metric::Queue | Metric::QueueNonempty => format!("{value:.1}"),
        Metric::OverTransmission => format!("{:.0} %", value * 1e2),
        Metric::WindowMax => format!("{:.0} kB", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// Returns a metric's name for the head of a column, and with its unit for an axis.
pub const fn names(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Completion => ("mean completion", "mean completion [s]"),
        Metric::CompletionMedian => ("median completion", "median completion [s]"),
        Metric::CompletionP95 => ("95 % ended within", "95th percentile of completion [s]"),
        Metric::Goodput => ("goodput", "goodput [Mbit/s]"),
        Metric::LateGoodput => ("late goodput", "goodput [Mbit/s]"),
        Metric::Jain => ("Jain", "Jain's index"),
        Metric::Lost => ("lost [packets]", "packets lost"),
        Metric::Drops => ("drops [packets]", "packets dropped"),
        Metric::OverTransmission => ("dropped of carried", "packets dropped per packet carried"),
        Metric::Utilization => ("utilization", "utilization"),
        Metric::LateUtilization => ("late utilization", "utilization"),
        Metric::TimeTo80 => ("80 % after", "time [s]"),
        Metric::Queue => ("queue mean [packets]", "mean queue [packets]"),
        Metric::QueueNonempty => ("queue while not empty [packets]", "mean queue [packets]"),
        Metric::QueueMax => ("queue max [packets]", "longest queue [packets]"),
        Metric::WindowMax => ("window max", "largest window [bytes]"),
        _ => ("", ""),
    }
}

/// Returns the headline of a metric's picture.
pub fn title(metric: Metric) -> String {
    match metric {
        Metric::LateGoodput => "Goodput in the last window".to_owned(),
        Metric::Jain => "Fairness".to_owned(),
        Metric::LateUtilization => "Utilization in the last window".to_owned(),
        Metric::TimeTo80 => "Time to 80 % of the rate".to_owned(),
        Metric::QueueNonempty => "Mean queue while it is not empty".to_owned(),
        _ => {
            let (_, axis) = names(metric);
            capitalized(axis.split(" [").next().unwrap_or_default())
        }
    }
}
