//! The directory that a server offers: names that stay inside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::incoming::{Incoming, is_temporary};

/// A name that may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a file inside the directory, or a name of unfinished files")]
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
    /// If the path does not exist, or is not a directory.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let root = directory.canonicalize()?;
        if !root.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "not a directory",
            ));
        }
        Ok(Self { root })
    }

    /// The path of `name` (parts joined by `/`), which lies inside the directory also when links
    /// are followed.
    ///
    /// # Errors
    /// [`BadName`] for an empty or absolute name, `.` or `..` in it, links that lead outside, and
    /// names that [unfinished files](is_temporary) have.
    pub fn path(&self, name: &str) -> Result<PathBuf, BadName> {
        let bad = || BadName(name.to_owned());
        let plain = !name.contains('\0')
            && name
                .split('/')
                .all(|part| !matches!(part, "" | "." | "..") && !is_temporary(part));
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

    /// Begins to receive `name`; [`Incoming::keep`] puts it in its place. Any number of clients may
    /// send files of one name at once, each under a temporary name of its own.
    ///
    /// # Errors
    /// [`BadName`] as an [`io::ErrorKind::InvalidInput`], and those of creating the file.
    pub fn create(&self, name: &str) -> io::Result<Incoming> {
        let target = self
            .path(name)
            .map_err(|bad| io::Error::new(io::ErrorKind::InvalidInput, bad))?;
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        Incoming::fresh(&target)
    }
}

#[cfg(test)]
mod tests {
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
            ".a.part",
            ".a.tag",
            "sub/.a.0.incoming",
            ".a.0.incoming/b",
        ] {
            assert!(store.path(bad).is_err(), "{bad:?}");
        }
    }
}
