//! The files that a run writes to a directory: `result.json`, `flows.csv`, `links.csv`, and
//! captures of links.

mod csv;
mod pcapng;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pathmark_cc::Duration;

use csv::Csv;
use pcapng::Capture;

use crate::observe::{Observer, Progress, Sample};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// Output that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A file or the directory.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Writes time series during a run, and the result when it has ended.
///
/// Rows are written as they arrive, so that memory does not grow with the length of the run.
pub struct Outputs<P> {
    directory: PathBuf,
    flows: Csv,
    links: Csv,
    /// By link.
    captures: BTreeMap<usize, Capture>,
    progress: P,
    error: Option<OutputError>,
}

impl<P: FnMut(&Progress) -> ControlFlow<()>> Outputs<P> {
    /// Writes into `directory`, which is created if necessary. Existing files with the same
    /// names are replaced. `progress` is called like [`Observer::progress`].
    ///
    /// # Errors
    /// [`OutputError`] if a file cannot be created.
    pub fn create(directory: &Path, progress: P) -> Result<Self, OutputError> {
        fs::create_dir_all(directory).map_err(|source| OutputError::Write {
            path: directory.to_owned(),
            source,
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            flows: Csv::create(&directory.join("flows.csv"), csv::FLOWS)?,
            links: Csv::create(&directory.join("links.csv"), csv::LINKS)?,
            captures: BTreeMap::new(),
            progress,
            error: None,
        })
    }

    /// Writes the result.
    ///
    /// # Errors
    /// [`OutputError`] if the result, or anything before it, could not be written.
    pub fn finish(self, result: &RunResult) -> Result<(), OutputError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.flows.finish()?;
        self.links.finish()?;
        for capture in self.captures.into_values() {
            capture.finish()?;
        }
        let path = self.directory.join("result.json");
        let write = || {
            let mut text = serde_json::to_string_pretty(result)?;
            text.push('\n');
            fs::write(&path, text)
        };
        write().map_err(|source| OutputError::Write {
            path: path.clone(),
            source,
        })
    }

    fn capture(
        &mut self,
        scenario: &Scenario,
        link: usize,
        at: Duration,
        packet: &[u8],
    ) -> Result<(), OutputError> {
        use std::collections::btree_map::Entry;
        let capture = match self.captures.entry(link) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(free) => {
                let name = scenario.links.get(link).map_or("", |link| &link.name);
                // Names may contain characters that paths must not. In this case, a number keeps
                // them distinct.
                let safe = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
                let mut file = format!("{name}.pcapng");
                if !name.chars().all(safe) {
                    let kept: String = name.chars().filter(|c| safe(*c)).collect();
                    file = format!("{kept}-{link}.pcapng");
                }
                let path = self.directory.join(file);
                free.insert(Capture::create(&path, name)?)
            }
        };
        capture.packet(at, packet)
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
        if self.error.is_none() {
            self.error = self.write(scenario, sample).err();
        }
    }

    fn wants_packets(&self) -> bool {
        true
    }

    fn packet(&mut self, scenario: &Scenario, link: usize, at: Duration, packet: &[u8]) {
        if self.error.is_none() {
            self.error = self.capture(scenario, link, at, packet).err();
        }
    }
}
