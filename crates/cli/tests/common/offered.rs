//! A directory for `pathmark serve`, whose key lies next to it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory in a temporary one, which goes with all that is in it.
pub(crate) struct Offered {
    path: PathBuf,
    outer: TempDir,
}

impl Offered {
    pub(crate) fn new() -> Self {
        let outer = TempDir::new().unwrap();
        let path = outer.path().join("data");
        std::fs::create_dir(&path).unwrap();
        Self { path, outer }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the key of its server is.
    #[allow(dead_code, reason = "not all tests look at it")]
    pub(crate) fn key(&self) -> PathBuf {
        self.outer.path().join(".pathmark-data.key")
    }
}

impl AsRef<Path> for Offered {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
