//! What a run leaves in a directory: `result.json`, `flows.csv`, `links.csv`, `plot.svg`.

mod chart;
mod csv;

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use chart::Chart;
use csv::Csv;

use crate::observe::{Observer, Progress, Sample};
use crate::plot::PlotError;
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Something that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or the directory.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The plot.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// Writes time series while a run goes on, and the rest when it has ended.
///
/// Rows go to disk as they come, and the plot keeps a bounded number of points, so memory does not grow with the
/// length of the run.
pub struct Outputs<P> {
    directory: PathBuf,
    flows: Csv,
    links: Csv,
    chart: Chart,
    progress: P,
    error: Option<OutputError>,
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Outputs<P> {
    /// Writes into `directory`, which is made if need be; what stands there under the same names is replaced.
    /// `progress` as for [`Observer::progress`].
    ///
    /// # Errors
    /// [`OutputError`] if that cannot be.
    pub fn create(directory: &Path, progress: P) -> Result<Self, OutputError> {
        fs::create_dir_all(directory).map_err(|source| OutputError::Write {
            path: directory.to_owned(),
            source,
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            flows: Csv::create(&directory.join("flows.csv"), csv::FLOWS)?,
            links: Csv::create(&directory.join("links.csv"), csv::LINKS)?,
            chart: Chart::default(),
            progress,
            error: None,
        })
    }

    /// Writes what is left: the result, and the plot.
    ///
    /// # Errors
    /// [`OutputError`] if that, or anything before it, could not be written.
    pub fn finish(self, result: &RunResult) -> Result<(), OutputError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.flows.finish()?;
        self.links.finish()?;
        let path = self.directory.join("result.json");
        let write = || {
            let mut text = serde_json::to_string_pretty(result)?;
            text.push('\n');
            fs::write(&path, text)
        };
        write().map_err(|source| OutputError::Write {
            path: path.clone(),
            source,
        })?;
        let figure = self.chart.into_figure(result);
        figure.write_svg(&self.directory.join("plot.svg"))?;
        Ok(())
    }

    fn write(&mut self, scenario: &Scenario, sample: &Sample<'_>) -> Result<(), OutputError> {
        self.flows.flows(scenario, sample)?;
        self.links.links(scenario, sample)
    }
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Observer for Outputs<P> {
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.error.is_some() {
            return ControlFlow::Break(());
        }
        (self.progress)(progress)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, scenario: &Scenario, sample: &Sample<'_>) {
        self.chart.add(scenario, sample);
        if self.error.is_none() {
            self.error = self.write(scenario, sample).err();
        }
    }
}
