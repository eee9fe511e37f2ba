//! Interrupted uploads that `put` can resume. They are kept in memory for `--reconnect`, and in
//! files for later runs.
//!
//! ```text
//!   $XDG_STATE_HOME/pathmark/uploads/KEY    0600; removed when the upload is complete
//! ```
//!
//! If these files fail, later runs can't resume uploads, but the transfer itself is not affected.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::unistd::geteuid;
use pathmark_http3::client::Ledger;

use super::{State, StateArgs, home, own_file, read_own};

/// Servers keep uploads for less than this time.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A user's interrupted uploads.
#[derive(Debug)]
pub(in super::super) struct Uploads {
    memory: Mutex<BTreeMap<String, String>>,
    files: Option<Files>,
}

/// The directory of the files and its owner.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    user: u32,
}

impl StateArgs {
    /// Returns the uploads of this run, and those of earlier runs unless no state is kept.
    pub(in super::super) fn uploads(self) -> Uploads {
        // Faults of the state's directory are already reported with the tokens.
        let files = || Files::of(&home()?, geteuid().as_raw());
        Uploads {
            memory: Mutex::default(),
            files: if self.no_state { None } else { files() },
        }
    }
}

impl Files {
    fn of(home: &Path, user: u32) -> Option<Self> {
        let state = State::open(home, user, &mut Vec::new())?;
        Some(Self {
            directory: state.directory.join("uploads"),
            user,
        })
    }

    fn find(&self, key: &str) -> Option<String> {
        let bytes = read_own(&self.directory.join(key), self.user).ok()?.ok()?;
        String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty())
    }

    fn keep(&self, key: &str, text: &str) -> io::Result<()> {
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700).create(&self.directory)?;
        self.clear()?;
        let new = self.directory.join(format!("{key}.{}", std::process::id()));
        let written = own_file(&new, true).and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .and_then(|()| fs::rename(&new, self.directory.join(key)))
            .inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Removes files of uploads that servers no longer keep.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let age = entry.metadata()?.modified()?.elapsed();
            if age.is_ok_and(|age| age > LONGEST) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Uploads {
    /// Returns true if later runs can resume uploads.
    pub(in super::super) const fn are_kept(&self) -> bool {
        self.files.is_some()
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for Uploads {
    fn find(&self, key: &str) -> Option<String> {
        let own = self.memory().get(key).cloned();
        own.or_else(|| self.files.as_ref()?.find(key))
    }

    fn keep(&self, key: &str, text: &str) {
        self.memory().insert(key.to_owned(), text.to_owned());
        if let Some(files) = &self.files
            && let Err(error) = files.keep(key, text)
        {
            tracing::debug!(%error, "a later run cannot resume the upload");
        }
    }

    fn forget(&self, key: &str) {
        self.memory().remove(key);
        if let Some(files) = &self.files {
            // Most uploads have no file.
            let _ = fs::remove_file(files.directory.join(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_found_by_a_later_run() {
        let home = tempfile::tempdir().unwrap();
        let run = || Uploads {
            memory: Mutex::default(),
            files: Files::of(home.path(), geteuid().as_raw()),
        };
        let first = run();
        assert_eq!(first.find("key"), None);
        first.keep("key", "one");
        first.keep("key", "two");
        first.keep("other", "three");
        let second = run();
        assert_eq!(second.find("key").as_deref(), Some("two"));
        second.forget("key");
        let third = run();
        assert_eq!(third.find("key"), None);
        assert_eq!(third.find("other").as_deref(), Some("three"));
        let names = fs::read_dir(home.path().join("pathmark/uploads")).unwrap();
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn without_a_place_the_run_itself_remembers() {
        let uploads = Uploads {
            memory: Mutex::default(),
            files: None,
        };
        uploads.keep("key", "one");
        assert_eq!(uploads.find("key").as_deref(), Some("one"));
        uploads.forget("key");
        assert_eq!(uploads.find("key"), None);
    }
}
