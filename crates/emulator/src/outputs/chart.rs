//! The plot of a run: what each flow got, its window and round trip, each queue and utilization.

use crate::observe::Sample;
use crate::plot::{Figure, Line, Panel};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Most points of a line; beyond, neighbours are joined.
const MOST_POINTS: usize = 1024;
/// Most lines of a panel: more cannot be told apart.
const MOST_LINES: usize = 7;

/// A line of bounded length: means over ever longer spans.
#[derive(Clone, Debug)]
struct Curve {
    points: Vec<(f64, f64)>,
    /// Values that make a point.
    span: u32,
    /// Values since the last point, and their sum.
    pending: (u32, f64),
}

impl Curve {
    /// A line of means over `span` values each, to begin with.
    fn new(span: u32) -> Self {
        Self {
            points: Vec::new(),
            span: span.max(1),
            pending: (0, 0.0),
        }
    }

    fn add(&mut self, x: f64, y: f64) {
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

/// The curves of one quantity, one per flow or link.
#[derive(Clone, Debug, Default)]
struct Curves(Vec<(String, Curve)>);

impl Curves {
    fn add(&mut self, name: &str, span: u32, x: f64, y: f64) {
        if let Some((_, curve)) = self.0.iter_mut().find(|(known, _)| known == name) {
            curve.add(x, y);
        } else if self.0.len() < MOST_LINES {
            let mut curve = Curve::new(span);
            curve.add(x, y);
            self.0.push((name.to_owned(), curve));
        }
    }

    fn into_panel(self, title: &str, y_label: &str, x_max: f64) -> Panel {
        let lines = self.0.into_iter().map(|(name, curve)| Line {
            label: Some(name),
            points: curve.points,
            reference: false,
        });
        Panel {
            title: title.to_owned(),
            x_label: "time [s]".to_owned(),
            y_label: y_label.to_owned(),
            x_max: Some(x_max),
            lines: lines.collect(),
            ..Panel::default()
        }
    }
}

/// Gathers the curves.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    goodput: Curves,
    window: Curves,
    rtt: Curves,
    utilization: Curves,
    queue: Curves,
}

impl Chart {
    pub(super) fn add(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        let x = sample.at.as_secs_f64();
        // What is sent comes in bursts, a round trip apart: rates are means over one.
        let round = round(scenario);
        let packet = f64::from(scenario.packet);
        for (setup, point) in scenario.flows.iter().zip(sample.flows) {
            if !point.active {
                continue;
            }
            self.goodput
                .add(&setup.name, round, x, point.goodput_bps / 1e6);
            self.window
                .add(&setup.name, 1, x, point.cwnd as f64 / packet);
            if let Some(srtt) = point.srtt {
                self.rtt.add(&setup.name, 1, x, srtt.as_secs_f64() * 1e3);
            }
        }
        for (setup, point) in scenario.links.iter().zip(sample.links) {
            // Links that nothing waits at or is measured of, and ways back, say nothing.
            if setup.spec.rate.is_none() || setup.name.ends_with(".reverse") {
                continue;
            }
            if let Some(utilization) = point.utilization {
                self.utilization.add(&setup.name, round, x, utilization);
            }
            self.queue
                .add(&setup.name, 1, x, point.queue_packets as f64);
        }
    }

    pub(super) fn into_figure(self, result: &RunResult) -> Figure {
        let x_max = result.simulated_s;
        let mut utilization =
            self.utilization
                .into_panel("Utilization of links", "share of the rate", x_max);
        utilization.y_max = Some(1.05);
        Figure {
            title: result.scenario.clone(),
            columns: 2,
            panels: vec![
                self.goodput
                    .into_panel("Goodput of flows", "goodput [Mbit/s]", x_max),
                utilization,
                self.window
                    .into_panel("Congestion windows", "window [packets]", x_max),
                self.queue.into_panel("Queues", "queue [packets]", x_max),
                self.rtt
                    .into_panel("Round trips", "smoothed RTT [ms]", x_max),
            ],
        }
    }
}

/// Points in the longest round trip.
fn round(scenario: &Scenario) -> u32 {
    let longest = scenario.links.iter().filter_map(|link| link.rtt).max();
    let points = longest.map_or(1, |rtt| {
        rtt.as_nanos().div_ceil(scenario.sample.as_nanos().max(1))
    });
    u32::try_from(points).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_stay_short_and_keep_their_mean() {
        let mut curve = Curve::new(1);
        for i in 0..100_000u32 {
            curve.add(f64::from(i), f64::from(i % 2));
        }
        assert!(curve.points.len() < MOST_POINTS && curve.points.len() > MOST_POINTS / 3);
        assert!(curve.points.iter().all(|(_, y)| (y - 0.5).abs() < 1e-9));
        assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0));
    }
}
