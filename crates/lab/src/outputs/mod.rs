//! The emulator's files of a run, and its plot, `plot.svg`, in the same directory.

mod chart;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pathmark_cc::Duration;
use pathmark_emulator::observe::Sample;
use pathmark_emulator::result::RunResult;
use pathmark_emulator::{Observer, OutputError, Outputs, Progress, Scenario};

use crate::plot::PlotError;
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
}

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
        })
    }

    /// Writes the result and the plot, whose title names the run `run`. Returns the time series of
    /// the plot.
    ///
    /// # Errors
    /// [`PlottedError`] if these or earlier files could not be written.
    pub fn finish(self, result: &RunResult, run: &str) -> Result<Series, PlottedError> {
        self.outputs.finish(result)?;
        chart::figure(&self.series, result, run).write_svg(&self.plot)?;
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

    fn wants_packets(&self) -> bool {
        true
    }

    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        self.outputs.packet(scenario, link, at, packet);
    }
}
