//! What became of the files of a `get` or `put`.

use std::cell::RefCell;

use serde::Serialize;

use super::figures::Transfer;
use super::{Failure, Outcome, output, session};

/// Files that are under way at once, each of which is open.
pub(super) const AT_ONCE: usize = 32;

/// What became of a file, in the JSON of `get` and `put`.
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
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    pub(super) files: Vec<FileFigures>,
}

impl Figures {
    /// Says what became of the files: in JSON all at once, to people each success on stdout and
    /// each failure on stderr. The transfer's own error, if it has one, is that of all that failed.
    pub(super) fn say(mut self, json: bool) -> Outcome {
        let failed: Vec<&str> = self
            .files
            .iter()
            .filter_map(|f| f.error.as_deref())
            .collect();
        let own = self.transfer.error.clone();
        let error = match (&own, failed.as_slice()) {
            (Some(error), _) => Some(error.clone()),
            (None, []) => None,
            (None, [only]) => Some((*only).to_owned()),
            (None, all) => Some(format!(
                "{} of {} files failed",
                all.len(),
                self.files.len()
            )),
        };
        self.transfer.error.clone_from(&error);
        if json {
            output::json(&self)?;
        } else {
            for file in &self.files {
                if let Some(sha256) = &file.sha256 {
                    output::line(format_args!("{sha256}  {}", output::plain(&file.name)))?;
                }
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
