//! Where files come to lie: names that stay inside a directory, and files that appear only when they are whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A name that may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a file inside the directory")]
pub struct BadName(pub String);

/// A directory that files are read from and stored in.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens a directory that exists.
    ///
    /// # Errors
    /// If it does not, or is no directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let root = directory.canonicalize()?;
        if !root.is_dir() {
            return Err(io::Error::new(ErrorKind::NotADirectory, "not a directory"));
        }
        Ok(Self { root })
    }

    /// The path of `name` (parts joined by `/`), which lies inside the directory also when links are followed.
    ///
    /// # Errors
    /// [`BadName`] for an empty or absolute name, `.` or `..` in it, and links that lead outside.
    pub fn path(&self, name: &str) -> Result<PathBuf, BadName> {
        let bad = || BadName(name.to_owned());
        let plain =
            !name.contains('\0') && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !plain {
            return Err(bad());
        }
        let path = self.root.join(name);
        let inside = |path: &Path| match path.canonicalize() {
            Ok(real) => real.starts_with(&self.root),
            Err(_) => true,
        };
        // The nearest ancestor that exists decides for those that do not yet.
        let safe = path
            .ancestors()
            .take_while(|ancestor| ancestor.starts_with(&self.root))
            .all(inside);
        if safe { Ok(path) } else { Err(bad()) }
    }

    /// Begins to receive `name`; [`Incoming::keep`] puts it in its place.
    ///
    /// # Errors
    /// [`BadName`] as an [`ErrorKind::InvalidInput`], and those of creating the file.
    pub fn create(&self, name: &str) -> io::Result<Incoming> {
        let target = self
            .path(name)
            .map_err(|bad| io::Error::new(ErrorKind::InvalidInput, bad))?;
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        for attempt in 0..u16::MAX {
            let partial = beside(&target, &format!("{attempt}.incoming"));
            match OpenOptions::new()
                .write(true)
                .read(true)
                .create_new(true)
                .open(&partial)
            {
                Ok(file) => {
                    return Ok(Incoming {
                        file: Some(file),
                        partial,
                        target,
                        discard: true,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many unfinished files of this name"))
    }
}

/// A file on its way in, under a temporary name.
#[derive(Debug)]
pub struct Incoming {
    file: Option<File>,
    partial: PathBuf,
    target: PathBuf,
    discard: bool,
}

impl Incoming {
    /// Begins or goes on with a file that shall lie at `target`, keeping what was received if it breaks off.
    /// The second value is the number of bytes that are there already.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn resume(target: &Path) -> io::Result<(Self, u64)> {
        let partial = beside(target, "part");
        let file = OpenOptions::new()
            .write(true)
            .read(true)
            .create(true)
            .truncate(false)
            .open(&partial)?;
        let have = file.metadata()?.len();
        let incoming = Self {
            file: Some(file),
            partial,
            target: target.to_owned(),
            discard: false,
        };
        Ok((incoming, have))
    }

    /// A handle on the file's bytes.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn file(&self) -> io::Result<File> {
        self.file
            .as_ref()
            .ok_or_else(|| io::Error::other("file was put in its place"))?
            .try_clone()
    }

    /// Where the bytes are kept meanwhile.
    #[must_use]
    pub fn partial_path(&self) -> &Path {
        &self.partial
    }

    /// The file is whole: gives it its name, replacing what was there.
    ///
    /// # Errors
    /// Those of syncing and renaming; the bytes then stay under the temporary name if they were to be kept.
    pub fn keep(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            file.sync_all()?;
        }
        fs::rename(&self.partial, &self.target)?;
        self.discard = false;
        Ok(())
    }

    /// The bytes are wrong: removes them.
    ///
    /// # Errors
    /// Those of removing a file.
    pub fn discard(mut self) -> io::Result<()> {
        self.discard = false;
        fs::remove_file(&self.partial)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.discard {
            // Nothing can be done about a file that cannot be removed; it carries a temporary name.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let name = target
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    target.with_file_name(format!(".{name}.{suffix}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn names_stay_inside() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        fs::create_dir(inside.path().join("sub")).unwrap();
        let store = Store::open(inside.path()).unwrap();
        for good in ["a", "sub/a", "new/deep/a", "..a", "a..b"] {
            assert!(store.path(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "../a",
            "a/../../b",
            ".",
            "a/.",
            "a/",
            "link/a",
            "link",
            "a\0b",
        ] {
            assert!(store.path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let target = directory.path().join("a");
        let incoming = store.create("a").unwrap();
        incoming.file().unwrap().write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(incoming);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        let incoming = store.create("a").unwrap();
        incoming.file().unwrap().write_all(b"whole").unwrap();
        incoming.keep().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_broken_file_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a");
        let (incoming, have) = Incoming::resume(&target).unwrap();
        assert_eq!(have, 0);
        incoming.file().unwrap().write_all(b"half").unwrap();
        drop(incoming);
        let (incoming, have) = Incoming::resume(&target).unwrap();
        assert_eq!(have, 4);
        incoming.discard().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
