//! The results of the files of a `get` or `put`.

use std::cell::RefCell;

use serde::Serialize;

use super::figures::Transfer;
use super::reconnect::is_lost;
use super::{Failure, Outcome, output, session};

/// Files that are under way at once, each of which is open.
pub(super) const AT_ONCE: usize = 32;

/// The result of a file, in the JSON of `get` and `put`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct FileFigures {
    /// Its name at the server.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// `None` if it is not where it should be.
    pub(super) sha256: Option<String>,
    pub(super) seconds: f64,
    pub(super) resumed_bytes: u64,
    /// Why it is not where it should be, if so.
    pub(super) error: Option<String>,
    /// Another connection may bring it.
    #[serde(skip)]
    pub(super) lost: bool,
}

impl FileFigures {
    /// A file that is not where it should be.
    pub(super) fn failed(name: String, error: String) -> Self {
        Self {
            name,
            error: Some(error),
            ..Self::default()
        }
    }

    /// A file that failed for this reason.
    pub(super) fn broken(name: String, error: &anyhow::Error) -> Self {
        Self {
            lost: is_lost(error),
            ..Self::failed(name, output::explain(error))
        }
    }
}

/// Files that are under way, by their places on the command line.
#[derive(Debug)]
pub(super) struct UnderWay(RefCell<Vec<Option<FileFigures>>>);

impl UnderWay {
    pub(super) fn new(files: usize) -> Self {
        Self(RefCell::new(vec![None; files]))
    }

    /// One has ended.
    pub(super) fn ended(&self, place: usize, figures: FileFigures) {
        if let Some(slot) = self.0.borrow_mut().get_mut(place) {
            *slot = Some(figures);
        }
    }

    /// All files; those that have not ended by now do not.
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
    /// Files that were there already, which `-r` leaves as they are.
    pub(super) unchanged: u64,
    pub(super) files: Vec<FileFigures>,
    /// Bytes of content were sent, of files that did not arrive whole among them.
    #[serde(skip)]
    pub(super) moved: bool,
}

impl Figures {
    /// Nothing was done so far.
    pub(super) const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.transfer.streams == 0 && self.unchanged == 0
    }

    /// The first failure that another connection may undo.
    pub(super) fn lost(&self) -> Option<String> {
        let mut lost = self.files.iter().filter(|file| file.lost);
        lost.find_map(|file| file.error.clone())
    }

    /// Drops failures that another attempt replaces.
    pub(super) fn forget_lost(&mut self) {
        self.files.retain(|file| !file.lost);
    }

    /// Adds those of the next server.
    pub(super) fn add(&mut self, server: Self) {
        self.transfer.add(server.transfer);
        self.unchanged += server.unchanged;
        self.files.extend(server.files);
    }

    /// Prints the result of each file. JSON is one object. As text, successes go to stdout unless
    /// `quiet`, and failures to stderr. The transfer's own error, if it has one, is that of all
    /// that failed.
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
