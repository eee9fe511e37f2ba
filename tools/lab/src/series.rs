//! Time series of a run in bounded memory, for pictures.

use std::collections::HashSet;
use std::ops::ControlFlow;

use pathmark_emulator::observe::{Observer, Progress, Sample};
use pathmark_emulator::scenario::{Plot, Quantity, Scenario, Shown};

/// Maximum points of a curve. Beyond it, neighbours are averaged.
const MOST_POINTS: usize = 1024;
/// Maximum curves per quantity, because more cannot be distinguished by colour.
const MOST_CURVES: usize = 7;

/// A curve of bounded length: means over ever longer spans.
#[derive(Clone, Debug)]
struct Curve {
    points: Vec<(f64, f64)>,
    /// Number of values per point.
    span: u32,
    /// Values since the last point, and their sum.
    pending: (u32, f64),
    /// End of the time that pictures show. A full curve ignores later points.
    end: f64,
}

impl Curve {
    /// Creates a curve of means over `span` values each at first, which is shown until `end`.
    fn new(span: u32, end: f64) -> Self {
        Self {
            points: Vec::new(),
            span: span.max(1),
            pending: (0, 0.0),
            end,
        }
    }

    fn add(&mut self, x: f64, y: f64) {
        if x > self.end && self.points.len() + 1 >= MOST_POINTS {
            return;
        }
        self.pending.0 += 1;
        self.pending.1 += y;
        if self.pending.0 < self.span {
            return;
        }
        let mean = self.pending.1 / f64::from(self.pending.0);
        self.points.push((x, mean));
        self.pending = (0, 0.0);
        if self.points.len() >= MOST_POINTS {
            let pairs = self.points.chunks(2).filter_map(|pair| match pair {
                [(_, a), (x, b)] => Some((*x, f64::midpoint(*a, *b))),
                _ => None,
            });
            self.points = pairs.collect();
            self.span *= 2;
        }
    }
}

/// Curves of every [`Quantity`] for each of the first seven flows and links.
#[derive(Clone, Debug, Default)]
pub struct Series {
    curves: Vec<(Quantity, String, Curve)>,
    /// Flows and links without a curve.
    left_out: [HashSet<String>; 2],
}

impl Series {
    /// Adds a point of every quantity.
    pub fn add(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        let x = sample.at.as_secs_f64();
        // Senders usually send one burst per round trip, so rates are means over a round trip.
        let round = round(scenario);
        let end = |what| end(scenario, what);
        let packet = f64::from(scenario.packet);
        for (setup, point) in scenario.flows.iter().zip(sample.flows) {
            if !point.active {
                continue;
            }
            let mut add = |what, span, y| self.point(what, &setup.name, (span, end(what)), (x, y));
            add(Quantity::Goodputs, round, point.goodput_bps / 1e6);
            add(Quantity::Losses, round, point.losses_per_s);
            add(Quantity::Windows, 1, point.cwnd as f64 / packet);
            if let Some(srtt) = point.srtt {
                add(Quantity::RoundTrips, 1, srtt.as_secs_f64() * 1e3);
            }
        }
        for (setup, point) in scenario.links.iter().zip(sample.links) {
            // Links without a rate have no queue, and reverse directions have no curves.
            if setup.spec.rate.is_none() || setup.name.ends_with(".reverse") {
                continue;
            }
            let mut add = |what, span, y| self.point(what, &setup.name, (span, end(what)), (x, y));
            if let Some(utilization) = point.utilization {
                add(Quantity::Use, round, utilization);
            }
            add(Quantity::Queues, 1, point.queue_packets as f64);
            if let Some(law) = point.law {
                add(Quantity::Load, 1, law.load);
            }
        }
    }

    /// Adds a point to the curve of this name, or to a new curve with this span and end.
    fn point(&mut self, what: Quantity, name: &str, (span, end): (u32, f64), (x, y): (f64, f64)) {
        let known = |(quantity, known, _): &&mut (Quantity, String, Curve)| {
            *quantity == what && known == name
        };
        if let Some((_, _, curve)) = self.curves.iter_mut().find(known) {
            curve.add(x, y);
        } else if self.curves(what).count() < MOST_CURVES {
            let mut curve = Curve::new(span, end);
            curve.add(x, y);
            self.curves.push((what, name.to_owned(), curve));
        } else {
            let [flows, links] = &mut self.left_out;
            let left_out = if what.is_of_links() { links } else { flows };
            if !left_out.contains(name) {
                left_out.insert(name.to_owned());
            }
        }
    }

    /// Returns the number of flows (or links, if the quantity belongs to links) without a curve
    /// because there are more than seven.
    pub fn left_out(&self, what: Quantity) -> usize {
        let [flows, links] = &self.left_out;
        if what.is_of_links() { links } else { flows }.len()
    }

    /// Returns the curves of a quantity: names of flows or links, with points (seconds, value).
    pub fn curves(&self, what: Quantity) -> impl Iterator<Item = (&str, &[(f64, f64)])> {
        let wanted = self
            .curves
            .iter()
            .filter(move |(quantity, ..)| *quantity == what);
        wanted.map(|(_, name, curve)| (name.as_str(), curve.points.as_slice()))
    }
}

/// Number of points in the longest round trip.
fn round(scenario: &Scenario) -> u32 {
    let longest = scenario.links.iter().filter_map(|link| link.rtt).max();
    let points = longest.map_or(1, |rtt| {
        rtt.as_nanos().div_ceil(scenario.sample.as_nanos().max(1))
    });
    u32::try_from(points).unwrap_or(u32::MAX)
}

/// The latest end of this quantity's pictures, in seconds.
fn end(scenario: &Scenario, what: Quantity) -> f64 {
    let pictures = || {
        let shows = |plot: &&Plot| plot.show == Shown::Quantity(what);
        scenario.plots.iter().filter(shows)
    };
    let ends = pictures().map(|plot| plot.x_max.unwrap_or(f64::INFINITY));
    ends.reduce(f64::max).unwrap_or(f64::INFINITY)
}

/// Observes a run and keeps its [`Series`].
#[derive(Debug)]
pub struct Recorder<P> {
    /// The time series so far.
    pub series: Series,
    progress: P,
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Recorder<P> {
    /// Creates a recorder with `progress` as in [`Observer::progress`].
    pub fn new(progress: P) -> Self {
        Self {
            series: Series::default(),
            progress,
        }
    }
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Observer for Recorder<P> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        (self.progress)(progress)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        self.series.add(scenario, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_stay_short_and_keep_their_mean() {
        let mut curve = Curve::new(1, f64::INFINITY);
        for i in 0..100_000u32 {
            curve.add(f64::from(i), f64::from(i % 2));
        }
        assert!(curve.points.len() < MOST_POINTS && curve.points.len() > MOST_POINTS / 3);
        assert!(curve.points.iter().all(|(_, y)| (y - 0.5).abs() < 1e-9));
        assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0));
    }

    /// If only the beginning of a long run is shown, it keeps all points.
    #[test]
    fn points_after_the_end_of_the_picture_cost_none_before() {
        let mut curve = Curve::new(1, 200.0);
        for i in 0..100_000u32 {
            curve.add(f64::from(i), f64::from(i));
        }
        assert!(curve.points.len() < MOST_POINTS);
        let all = |(x, point): (u32, &(f64, f64))| *point == (f64::from(x), f64::from(x));
        assert!((0..=201).zip(&curve.points).all(all));
    }

    #[test]
    fn flows_without_a_curve_are_counted() {
        let mut series = Series::default();
        for at in 0..3 {
            for flow in 0..10 {
                let name = format!("flow-{flow}");
                series.point(Quantity::Goodputs, &name, (1, 9.0), (f64::from(at), 1.0));
                series.point(Quantity::Windows, &name, (1, 9.0), (f64::from(at), 1.0));
            }
            series.point(Quantity::Use, "hop", (1, 9.0), (f64::from(at), 1.0));
        }
        assert_eq!(series.curves(Quantity::Goodputs).count(), MOST_CURVES);
        assert_eq!(series.left_out(Quantity::Goodputs), 10 - MOST_CURVES);
        assert_eq!(series.left_out(Quantity::Queues), 0);
    }
}
