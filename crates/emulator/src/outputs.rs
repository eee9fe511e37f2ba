//! The files that a run writes to a directory: `result.json`, `flows.csv`, `links.csv`, and
//! captures of links.

mod csv;
mod pcapng;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pathmark_cc::Duration;

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

/// A file in the making. Its errors have its path.
struct OutputFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl OutputFile {
    /// Creates the file with the bytes that `begin` writes.
    fn create(
        path: &Path,
        begin: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Self, OutputError> {
        let file = File::create(path).map(BufWriter::new);
        let file = file.map_err(|source| failed(path, source))?;
        let path = path.to_owned();
        let mut created = Self { path, file };
        created.write(begin)?;
        Ok(created)
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        write(&mut self.file).map_err(|source| failed(&self.path, source))
    }

    fn finish(mut self) -> Result<(), OutputError> {
        self.write(BufWriter::flush)
    }
}

fn failed(path: &Path, source: io::Error) -> OutputError {
    OutputError::Write {
        path: path.to_owned(),
        source,
    }
}

/// Writes time series during a run, and the result when it has ended.
///
/// Rows are written as they arrive, so that memory does not grow with the length of the run.
pub struct Outputs<P> {
    directory: PathBuf,
    flows: OutputFile,
    links: OutputFile,
    /// By link.
    captures: BTreeMap<usize, OutputFile>,
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
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        Ok(Self {
            directory: directory.to_owned(),
            flows: csv::create(&directory.join("flows.csv"), csv::FLOWS)?,
            links: csv::create(&directory.join("links.csv"), csv::LINKS)?,
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
        write().map_err(|source| failed(&path, source))
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
                free.insert(pcapng::create(&path, name)?)
            }
        };
        pcapng::packet(capture, at, packet)
    }

    fn write(&mut self, scenario: &Scenario, sample: &Sample<'_>) -> Result<(), OutputError> {
        csv::flows(&mut self.flows, scenario, sample)?;
        csv::links(&mut self.links, scenario, sample)
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
