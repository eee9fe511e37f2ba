//! What a run, or several that differ in their seeds, comes down to.

use pathmark_emulator::result::{LinkResult, RunResult};
use pathmark_emulator::scenario::Metric;

use super::super::output;
use super::table::dash;

/// What a run comes down to in one row.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) flows: usize,
    pub(super) completed: usize,
    /// Mean over the flows that completed, seconds.
    pub(super) completion_s: Option<f64>,
    pub(super) goodput_bps: f64,
    pub(super) jain: f64,
    pub(super) packets_lost: u64,
    /// The link used best.
    pub(super) link: Option<LinkResult>,
}

impl Summary {
    pub(super) fn new(result: &RunResult) -> Self {
        let times: Vec<f64> = result.flows.iter().filter_map(|f| f.completion_s).collect();
        let busiest = result
            .links
            .iter()
            .filter(|link| link.utilization.is_some())
            .max_by(|a, b| {
                f64::total_cmp(&a.utilization.unwrap_or(0.0), &b.utilization.unwrap_or(0.0))
            });
        Self {
            flows: result.flows.len(),
            completed: times.len(),
            completion_s: (!times.is_empty())
                .then(|| times.iter().sum::<f64>() / times.len() as f64),
            goodput_bps: result.flows.iter().map(|flow| flow.goodput_bps).sum(),
            jain: result.jain,
            packets_lost: result.flows.iter().filter_map(|f| f.packets_lost).sum(),
            link: busiest.cloned(),
        }
    }
}

/// The busiest link of a run, in its last measuring window if it has any.
fn late_utilization(result: &RunResult, link: Option<&LinkResult>) -> Option<f64> {
    let links = &result.windows.last()?.links;
    let found = links
        .iter()
        .find(|known| link.is_some_and(|l| l.name == known.name));
    found?.utilization
}

fn first_start(result: &RunResult) -> f64 {
    let first = result
        .flows
        .iter()
        .map(|flow| flow.start_s)
        .reduce(f64::min);
    first.unwrap_or(0.0)
}

/// A metric of one run; `flow` as in a scenario's `[[paper]]`. `None`: there is none, as of files that did not arrive.
pub(super) fn value(result: &RunResult, metric: Metric, flow: Option<&str>) -> Option<f64> {
    let flows = match flow {
        None => result.flows.clone(),
        Some(name) => {
            let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
            let wanted = |known: &str| known.strip_prefix(name).is_some_and(numbered);
            let flows = result.flows.iter().filter(|flow| wanted(&flow.name));
            flows.cloned().collect()
        }
    };
    let summary = Summary::new(&RunResult {
        flows,
        ..result.clone()
    });
    let link = summary.link.as_ref();
    match metric {
        Metric::Completion if summary.completed < summary.flows => None,
        Metric::Completion => summary.completion_s,
        Metric::Goodput => Some(summary.goodput_bps),
        Metric::Jain => Some(summary.jain),
        Metric::Lost => Some(summary.packets_lost as f64),
        Metric::Drops => link.map(|l| l.drops as f64),
        Metric::Utilization => link?.utilization,
        Metric::LateUtilization => late_utilization(result, link),
        // Since there was somebody to fill it.
        Metric::TimeTo80 => link?.time_to_80_s.map(|at| at - first_start(result)),
        Metric::Queue => link.map(|l| l.queue_packets.mean),
        Metric::QueueNonempty => link.map(|l| l.queue_packets.mean_nonempty),
        Metric::QueueMax => link.map(|l| l.queue_packets.max),
        _ => None,
    }
}

/// Its mean over runs that differ in their seeds; `None` if one has none.
pub(super) fn mean(results: &[&RunResult], metric: Metric, flow: Option<&str>) -> Option<f64> {
    let values: Option<Vec<f64>> = results.iter().map(|r| value(r, metric, flow)).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The same for people.
pub(super) fn here(results: &[&RunResult], metric: Metric, flow: Option<&str>) -> String {
    match (mean(results, metric, flow), metric) {
        (Some(value), _) => shown(value, metric),
        (None, Metric::Completion) => {
            let summaries = results.iter().map(|result| Summary::new(result));
            let (done, all) = summaries.fold((0, 0), |(done, all), summary| {
                (done + summary.completed, all + summary.flows)
            });
            format!("{done} of {all} ended")
        }
        (None, _) => dash(),
    }
}

/// A value with its unit.
pub(super) fn shown(value: f64, metric: Metric) -> String {
    match metric {
        Metric::Completion | Metric::TimeTo80 => format!("{value:.2} s"),
        Metric::Goodput => output::rate(value),
        Metric::Jain => format!("{value:.4}"),
        Metric::Utilization | Metric::LateUtilization => format!("{value:.3}"),
        Metric::Queue | Metric::QueueNonempty => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// What a metric is called at the head of a column, and on an axis with its unit.
pub(super) const fn names(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Completion => ("mean completion", "mean completion [s]"),
        Metric::Goodput => ("goodput", "goodput [Mbit/s]"),
        Metric::Jain => ("Jain", "Jain's index"),
        Metric::Lost => ("lost", "packets lost"),
        Metric::Drops => ("drops", "packets dropped"),
        Metric::Utilization => ("utilization", "utilization"),
        Metric::LateUtilization => ("late utilization", "utilization"),
        Metric::TimeTo80 => ("80 % after", "time [s]"),
        Metric::Queue => ("queue mean", "mean queue [packets]"),
        Metric::QueueNonempty => ("queue while not empty", "mean queue [packets]"),
        Metric::QueueMax => ("queue max", "longest queue [packets]"),
        _ => ("", ""),
    }
}

/// Headline of a picture of it.
pub(super) const fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::Completion => "Mean completion",
        Metric::Goodput => "Goodput",
        Metric::Jain => "Fairness",
        Metric::Lost => "Packets lost",
        Metric::Drops => "Packets dropped",
        Metric::Utilization => "Utilization",
        Metric::LateUtilization => "Utilization in the last window",
        Metric::TimeTo80 => "Time to 80 % of the rate",
        Metric::Queue => "Mean queue",
        Metric::QueueNonempty => "Mean queue while it is not empty",
        Metric::QueueMax => "Longest queue",
        _ => "",
    }
}
