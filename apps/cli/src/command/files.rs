//! Results of the files of a `get` or `put`.

use std::cell::RefCell;

use serde::Serialize;

use super::figures::Transfer;
use super::reconnect::is_lost;
use super::{Failure, Outcome, output, session};

/// Maximum number of concurrent files, each of which is open.
pub(super) const AT_ONCE: usize = 32;

/// A file's result in the JSON of `get` and `put`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct FileFigures {
    /// Its name on the server.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// `None` if the transfer failed.
    pub(super) sha256: Option<String>,
    pub(super) seconds: f64,
    pub(super) resumed_bytes: u64,
    /// The reason for failing.
    pub(super) error: Option<String>,
    /// Whether another connection might succeed.
    #[serde(skip)]
    pub(super) lost: bool,
}

impl FileFigures {
    /// Creates the result of a failed file.
    pub(super) fn failed(name: String, error: String) -> Self {
        Self {
            name,
            error: Some(error),
            ..Self::default()
        }
    }

    /// Creates the result of a file that failed with this error.
    pub(super) fn broken(name: String, error: &anyhow::Error) -> Self {
        Self {
            lost: is_lost(error),
            ..Self::failed(name, output::explain(error))
        }
    }
}

/// Results by position on the command line.
#[derive(Debug)]
pub(super) struct UnderWay(RefCell<Vec<Option<FileFigures>>>);

impl UnderWay {
    pub(super) fn new(files: usize) -> Self {
        Self(RefCell::new(vec![None; files]))
    }

    pub(super) fn ended(&self, place: usize, figures: FileFigures) {
        if let Some(slot) = self.0.borrow_mut().get_mut(place) {
            *slot = Some(figures);
        }
    }

    /// Returns the results of all files. Those without a result were interrupted.
    pub(super) fn into_all(self, name: impl Fn(usize) -> String) -> Vec<FileFigures> {
        let files = self.0.into_inner().into_iter().enumerate();
        let interrupted =
            |place| FileFigures::failed(name(place), session::interrupted().to_string());
        files
            .map(|(place, ended)| ended.unwrap_or_else(|| interrupted(place)))
            .collect()
    }
}

/// The JSON of `get` and `put`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    /// Files that were already there, which `-r` leaves unchanged.
    pub(super) unchanged: u64,
    pub(super) files: Vec<FileFigures>,
    /// Whether content was sent, even for files that did not arrive completely.
    #[serde(skip)]
    pub(super) moved: bool,
}

impl Figures {
    /// Returns true if nothing was done so far.
    pub(super) const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.transfer.streams == 0 && self.unchanged == 0
    }

    /// Returns the first failure that another connection might resolve.
    pub(super) fn lost(&self) -> Option<String> {
        let mut lost = self.files.iter().filter(|file| file.lost);
        lost.find_map(|file| file.error.clone())
    }

    /// Removes failures that another attempt will replace.
    pub(super) fn forget_lost(&mut self) {
        self.files.retain(|file| !file.lost);
    }

    pub(super) fn add(&mut self, server: Self) {
        self.transfer.add(server.transfer);
        self.unchanged += server.unchanged;
        self.files.extend(server.files);
    }

    /// Prints the result of each file. With `json`, this is one object. As text, successes go to
    /// stdout unless `quiet`, and failures to stderr. If the transfer itself has an error, it
    /// replaces the files' errors.
    pub(super) fn say(mut self, json: bool, quiet: bool) -> Outcome {
        let failures = self.files.iter().filter_map(|file| file.error.as_deref());
        let failed = failures.clone().count() as u64;
        let own = self.transfer.error.clone();
        let error = match (&own, failed) {
            (Some(error), _) => Some(error.clone()),
            (None, 0) => None,
            (None, 1) => failures.clone().next().map(ToOwned::to_owned),
            (None, failed) => {
                let all = failed + self.transfer.streams + self.unchanged;
                Some(format!("{failed} of {all} files failed"))
            }
        };
        self.transfer.error.clone_from(&error);
        if json {
            output::json(&self)?;
        } else if !quiet {
            for file in &self.files {
                if let Some(sha256) = &file.sha256 {
                    output::line(format_args!("{sha256}  {}", output::plain(&file.name)))?;
                }
            }
            if self.unchanged > 0 {
                let (files, were) = match self.unchanged {
                    1 => ("file", "was"),
                    _ => ("files", "were"),
                };
                output::note!("{} {files} {were} there already", self.unchanged);
            }
        }
        match (own, error) {
            (Some(own), _) => return Err(anyhow::anyhow!(own).into()),
            (None, None) => return Ok(()),
            (None, Some(_)) => {}
        }
        for error in self.files.iter().filter_map(|file| file.error.as_deref()) {
            output::note!("pathmark: {}", output::plain(error));
        }
        Err(Failure::Reported)
    }
}
