//! The plot of a run: each flow's rate, window and round trip, and each link's queue and
//! utilization.

use crate::plot::{Figure, Line, Panel};
use crate::series::Series;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::Quantity;

/// Draws the picture of one run.
pub(super) fn figure(series: &Series, result: &RunResult, run: &str) -> Figure {
    let x_max = result.simulated_s;
    let shown = [
        Quantity::Goodputs,
        Quantity::Use,
        Quantity::Windows,
        Quantity::Queues,
        Quantity::RoundTrips,
    ];
    Figure {
        title: match run {
            "" => result.scenario.clone(),
            run => format!("{}: {run}", result.scenario),
        },
        columns: 2,
        panels: shown.map(|what| panel(series, what, x_max)).into(),
        ..Figure::default()
    }
}

fn panel(series: &Series, what: Quantity, x_max: f64) -> Panel {
    let lines = series.curves(what).map(|(name, points)| Line {
        label: Some(name.to_owned()),
        points: points.to_vec(),
        ..Line::default()
    });
    Panel {
        title: what.title().to_owned(),
        x_label: "time [s]".to_owned(),
        y_label: what.unit().to_owned(),
        x_max: Some(x_max),
        y_max: what.most(),
        lines: lines.collect(),
        ..Panel::default()
    }
}
