//! Figures that are measured in each run.

use std::collections::{BTreeMap, BTreeSet};

use pathmark_emulator::result::{FlowResult, RunResult, jain};
use serde::{Deserialize, Serialize};

use super::cell::{BOTTLENECK, Cell, LARGE_NAME, SHORT_NAME};
use crate::named::named;

named! {
    /// A figure by which laws are compared.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub Figure {
        /// Time until all large files have arrived, divided by the least time that physics allows
        /// ([`Cell::floor_s`]).
        Completion = "completion",
        /// Utilization of the bottleneck in the second half of the least time that the files need.
        Utilization = "utilization",
        /// Mean of the queues on the path over the whole run, milliseconds. An idle link has no
        /// queue, so only laws that come close to the cell's best utilization compete.
        Queue = "queue",
        /// Jain's index over the bytes of large files that had arrived after the least time that
        /// the files need. There is none for a single file.
        Jain = "jain",
        /// Median time of a short file, divided by the least time that physics allows
        /// ([`Cell::short_floor_s`]).
        #[serde(rename = "fct-p50")]
        ShortMedian = "fct-p50",
        /// Time that 95 % of the short files do not exceed, divided by the same least time.
        #[serde(rename = "fct-p95")]
        ShortTail = "fct-p95",
    }
}

impl Figure {
    /// Returns the figure's description for headlines.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Completion => "completion of all files over the physical floor",
            Self::Utilization => "utilization of the bottleneck",
            Self::Queue => "mean queue [ms]",
            Self::Jain => "Jain's index",
            Self::ShortMedian => "short files: median time over the floor",
            Self::ShortTail => "short files: 95th percentile over the floor",
        }
    }

    /// True if higher values are better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Utilization | Self::Jain)
    }

    /// True if `value` is practically as good as `best`, whatever the seeds: 5 % in times, 0.02 in
    /// shares and indices, 10 % and 1 ms in queues, 10 % in the tail of times.
    pub fn is_close(self, value: f64, best: f64) -> bool {
        self.is_within(value, best, 1.0)
    }

    /// True if only the seeds may cause the difference between `value` and `best`, provided that
    /// their intervals overlap. The limit is five times that of [`is_close`](Self::is_close). A
    /// larger difference is worse even if uncertain, because a law that collapses with one seed of
    /// three also has a wide interval.
    pub fn is_near(self, value: f64, best: f64) -> bool {
        self.is_within(value, best, 5.0)
    }

    /// True if `value` differs from `best` by at most this multiple of a negligible difference.
    fn is_within(self, value: f64, best: f64, times: f64) -> bool {
        match self {
            Self::Completion | Self::ShortMedian => value <= (1.0 + 0.05 * times) * best,
            Self::ShortTail => value <= (1.0 + 0.1 * times) * best,
            Self::Queue => value <= (1.0 + 0.1 * times) * best + times,
            Self::Utilization | Self::Jain => value >= best - 0.02 * times,
        }
    }

    /// True for times, which are lower bounds if files had not arrived.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Completion | Self::ShortMedian | Self::ShortTail)
    }

    /// Returns how good `value` is, from 0, the worst that is drawn, to 1, the best possible.
    pub fn goodness(self, value: f64) -> f64 {
        let good = match self {
            Self::Utilization => value,
            Self::Jain => 2.0 * value - 1.0,
            Self::Queue => 1.0 - (1.0 + value.max(0.0)).log10() / 3.0,
            Self::Completion | Self::ShortMedian | Self::ShortTail => {
                1.0 - value.max(1.0).log2() / 3.0
            }
        };
        good.clamp(0.0, 1.0)
    }

    /// Returns the figure's values at both ends of [`goodness`](Self::goodness), best first.
    pub const fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Utilization => ("1", "0"),
            Self::Jain => ("1", "0.5 and less"),
            Self::Queue => ("0 ms", "1 s and more"),
            Self::Completion | Self::ShortMedian | Self::ShortTail => ("1", "8 and more"),
        }
    }

    /// Formats a value with three significant digits, or with two decimals.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Utilization | Self::Jain => format!("{value:.2}"),
            _ if value >= 99.5 => format!("{value:.0}"),
            _ if value >= 9.95 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        }
    }
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The figures that the run has.
    pub figures: BTreeMap<Figure, f64>,
    /// Times among these figures that are lower bounds, because files that might have changed them
    /// had not arrived when the run ended.
    pub bounds: BTreeSet<Figure>,
    /// Files that had not arrived when the run ended: they count with the time until then.
    pub unfinished: usize,
    /// Data packets that queues dropped.
    pub drops: u64,
}

/// Measures the figures of a run of this cell.
pub fn measure(cell: &Cell, run: &RunResult) -> Measured {
    let named = |name: &'static str| {
        let flows = run.flows.iter();
        flows.filter(move |flow| is_of(&flow.name, name))
    };
    let took = |flow: &FlowResult| Took {
        seconds: (flow.completion_s)
            .unwrap_or(run.simulated_s - flow.start_s)
            .max(0.0),
        ended: flow.completion_s.is_some(),
    };
    let begin = named(LARGE_NAME).map(|flow| flow.start_s);
    let begin = begin.fold(f64::INFINITY, f64::min);
    let end = named(LARGE_NAME).map(|flow| flow.start_s + took(flow).seconds);
    let end = end.fold(0.0, f64::max);
    let all_ended = named(LARGE_NAME).all(|flow| took(flow).ended);
    let short: Vec<Took> = named(SHORT_NAME).map(took).collect();
    let short_floor = cell.short_floor_s();
    let short = |share: f64| {
        quantile(&short, share).map(|took| Took {
            seconds: took.seconds / short_floor,
            ..took
        })
    };
    let (median, tail) = (short(0.5), short(0.95));
    let forward = run
        .links
        .iter()
        .filter(|link| !link.name.ends_with(".reverse"));
    let window = run.windows.first();
    let used = window.and_then(|window| {
        let link = window.links.iter().find(|link| link.name == BOTTLENECK);
        link.and_then(|link| link.utilization)
    });
    let since_start = run.windows.get(1).filter(|_| cell.flows > 1);
    let shares = since_start.map(|window| {
        let large = window.flows.iter().filter(|f| is_of(&f.name, LARGE_NAME));
        jain(large.map(|flow| flow.bytes as f64))
    });
    let queue = forward.clone().filter_map(|link| link.queue_ms);
    let figures = [
        (Figure::Completion, Some((end - begin) / cell.floor_s())),
        (Figure::Utilization, used),
        (Figure::Queue, Some(queue.map(|queue| queue.mean).sum())),
        (Figure::Jain, shares),
        (Figure::ShortMedian, median.map(|took| took.seconds)),
        (Figure::ShortTail, tail.map(|took| took.seconds)),
    ];
    let bounds = [
        (Figure::Completion, all_ended),
        (Figure::ShortMedian, median.is_none_or(|took| took.ended)),
        (Figure::ShortTail, tail.is_none_or(|took| took.ended)),
    ];
    let bounds = bounds.into_iter().filter(|(_, ended)| !ended);
    Measured {
        bounds: bounds.map(|(figure, _)| figure).collect(),
        figures: figures
            .into_iter()
            .filter_map(|(figure, value)| Some((figure, value.filter(|v| v.is_finite())?)))
            .collect(),
        unfinished: run.flows.iter().filter(|flow| !flow.completed).count(),
        drops: forward.map(|link| link.drops).sum(),
    }
}

/// The time that a file took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Took {
    /// Seconds, or a lower bound if it had not `ended`.
    seconds: f64,
    ended: bool,
}

/// Returns the least time that this share of the files does not exceed. This time is a lower bound
/// if it depends on how long unfinished files would still take.
fn quantile(files: &[Took], share: f64) -> Option<Took> {
    let rank = (share * files.len() as f64).ceil().max(1.0) as usize;
    let ranked = |seconds: fn(&Took) -> f64| {
        let mut all: Vec<f64> = files.iter().map(seconds).collect();
        all.sort_by(f64::total_cmp);
        all.get(rank - 1).copied()
    };
    let least = ranked(|took| took.seconds)?;
    let most = ranked(|took| {
        if took.ended {
            took.seconds
        } else {
            f64::INFINITY
        }
    })?;
    Some(Took {
        seconds: least,
        ended: least >= most,
    })
}

/// True for `name`, `name0`, `name1`, …
fn is_of(flow: &str, name: &str) -> bool {
    let rest = flow.strip_prefix(name);
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
}

/// Returns each figure over the seeds that have it.
pub(super) fn tallies(runs: &[Measured]) -> BTreeMap<Figure, Tally> {
    let values = |figure: Figure| {
        let values = runs.iter().filter_map(|run| run.figures.get(&figure));
        values.copied().collect::<Vec<f64>>()
    };
    let all = Figure::ALL.into_iter();
    all.filter_map(|figure| Some((figure, Tally::new(&values(figure))?)))
        .collect()
}

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (any table of this
/// distribution, such as NIST's e-Handbook of Statistical Methods, §1.3.6.7.2).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for any larger number.
const NORMAL: f64 = 1.960;

/// The mean of a figure over seeds, and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean; 0 for one seed, where it is unknown.
    pub ci95: f64,
    /// Least value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

impl Tally {
    /// Computes the tally, or `None` without values.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let count = n as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let ci95 = match n - 1 {
            0 => 0.0,
            freedom => {
                let t = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
                t * (squares / freedom as f64 / count).sqrt()
            }
        };
        Some(Self {
            mean,
            ci95,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            n,
        })
    }

    /// True if the intervals of both means overlap, so that the seeds may cause the difference.
    pub fn overlaps(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.ci95 + other.ci95
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occur() {
        let values: Vec<Took> = (1..=20).rev().map(|n| took(n, true)).collect();
        assert_eq!(quantile(&values, 0.5), Some(took(10, true)));
        assert_eq!(quantile(&values, 0.95), Some(took(19, true)));
        assert_eq!(quantile(&[took(7, true)], 0.95), Some(took(7, true)));
        assert_eq!(quantile(&[], 0.5), None);
    }

    fn took(seconds: u32, ended: bool) -> Took {
        Took {
            seconds: f64::from(seconds),
            ended,
        }
    }

    /// An unfinished file does not change a quantile if it had already taken longer, but may do so
    /// if it had only just begun.
    #[test]
    fn a_quantile_is_a_bound_only_where_files_that_had_not_ended_may_change_it() {
        let mut files: Vec<Took> = (1..=19).map(|n| took(n, true)).collect();
        files.push(took(40, false));
        assert_eq!(quantile(&files, 0.5), Some(took(10, true)));
        assert_eq!(quantile(&files, 0.95), Some(took(19, true)));
        assert_eq!(quantile(&files, 1.0), Some(took(40, false)));
        files.pop();
        files.push(took(0, false));
        assert_eq!(quantile(&files, 0.5), Some(took(9, false)));
    }

    fn flow(name: &str, start_s: f64, completion_s: Option<f64>) -> FlowResult {
        FlowResult {
            name: name.to_owned(),
            start_s,
            completion_s,
            completed: completion_s.is_some(),
            ..FlowResult::default()
        }
    }

    /// An unfinished large file does not turn the times of short files into bounds. A short file
    /// that never began does not count as a time of 0.
    #[test]
    fn each_figure_is_a_bound_by_its_own_files() {
        let cell = crate::compare::GridFile::default().grid().unwrap().cells()[0];
        let run = |flows: Vec<FlowResult>| RunResult {
            simulated_s: 20.0,
            flows,
            ..RunResult::default()
        };
        let short = |n: usize| flow(&format!("short{n}"), 1.0, Some(2.0));
        let mut flows: Vec<FlowResult> = (0..3).map(short).collect();
        flows.push(flow("file", 0.0, None));
        let measured = measure(&cell, &run(flows.clone()));
        assert_eq!(measured.bounds, BTreeSet::from([Figure::Completion]));
        assert_eq!(measured.unfinished, 1);

        flows[3] = flow("file", 0.0, Some(5.0));
        assert!(measure(&cell, &run(flows.clone())).bounds.is_empty());
        flows[0] = flow("short0", 30.0, None);
        flows[1] = flow("short1", 31.0, None);
        let bounds = measure(&cell, &run(flows)).bounds;
        let both = BTreeSet::from([Figure::ShortMedian, Figure::ShortTail]);
        assert_eq!(bounds, both);
    }

    #[test]
    fn names_of_flows() {
        assert!(is_of("file", "file") && is_of("file12", "file"));
        assert!(!is_of("filex", "file") && !is_of("short1", "file"));
    }
}
