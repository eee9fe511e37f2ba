//! The emulator's files of a run, and its plot, `plot.svg`, in the same directory.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pathmark_cc::Duration;
use pathmark_emulator::observe::{Sample, TraceFactory};
use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::Quantity;
use pathmark_emulator::{Observer, OutputError, Outputs, Progress, Scenario};

use crate::plot::{Figure, Line, Panel, PlotError};
use crate::series::Series;

/// Error when writing files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlottedError {
    /// One of the emulator's files, or the directory.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The plot.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// [`Outputs`] with a plot. The plot keeps a bounded number of points.
pub struct PlottedOutputs<P> {
    outputs: Outputs<P>,
    series: Series,
    plot: PathBuf,
    trace: Option<TraceOf>,
}

/// Creates logs of a flow's connections.
type TraceOf = Box<dyn Fn(&str) -> Arc<dyn TraceFactory>>;

impl<P: FnMut(&Progress) -> ControlFlow<()>> PlottedOutputs<P> {
    /// Like [`Outputs::create`].
    ///
    /// # Errors
    /// [`OutputError`] if this is impossible.
    pub fn create(directory: &Path, progress: P) -> Result<Self, OutputError> {
        Ok(Self {
            outputs: Outputs::create(directory, progress)?,
            series: Series::default(),
            plot: directory.join("plot.svg"),
            trace: None,
        })
    }

    /// Logs the connections of each flow, whose name the function gets.
    #[must_use]
    pub fn with_trace(mut self, trace: impl Fn(&str) -> Arc<dyn TraceFactory> + 'static) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }

    /// Writes the result and the plot, whose title names the run `run`. Returns the time series of
    /// the plot.
    ///
    /// # Errors
    /// [`PlottedError`] if these or earlier files could not be written.
    pub fn finish(self, result: &RunResult, run: &str) -> Result<Series, PlottedError> {
        self.outputs.finish(result)?;
        figure(&self.series, result, run).write_svg(&self.plot)?;
        Ok(self.series)
    }
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Observer for PlottedOutputs<P> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.outputs.progress(progress)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        self.series.add(scenario, sample);
        self.outputs.sample(scenario, sample);
    }

    fn trace(&self, flow: &str) -> Option<Arc<dyn TraceFactory>> {
        self.trace.as_ref().map(|trace| trace(flow))
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        self.outputs.packet(scenario, link, at, packet);
    }
}

/// Draws the picture of one run: each flow's rate, window and round trip, and each link's queue and
/// utilization.
fn figure(series: &Series, result: &RunResult, run: &str) -> Figure {
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
    let lines = series.curves(what);
    let lines = lines.map(|(name, points)| Line::named(name, points));
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
