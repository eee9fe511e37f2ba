//! A directory for `pathmark serve`, with the key next to it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory in a temporary one. Dropping this removes it with its contents.
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

/// Waits until the next change of a file gets another time stamp, because until then its entity tag
/// is weak.
#[allow(dead_code, reason = "not all tests need it")]
pub(crate) fn settle(path: &Path) {
    let age = || {
        let modified = std::fs::metadata(path).unwrap().modified().unwrap();
        modified.elapsed().unwrap_or_default()
    };
    while age() < std::time::Duration::from_millis(30) {
        std::thread::yield_now();
    }
}

/// Returns the largest unfinished file in a directory, with its bytes.
#[allow(dead_code, reason = "not all tests look at it")]
pub(crate) fn unfinished(directory: &Path) -> Option<(PathBuf, u64)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let is_one = name.starts_with(".pathmark-")
            && name.ends_with(".part")
            && !name.ends_with("-tag.part");
        let bytes = entry.metadata().ok()?.len();
        is_one.then_some((entry.path(), bytes))
    });
    files.max_by_key(|(_, bytes)| *bytes)
}

/// Returns the bytes of the unfinished file in a directory, or 0 if there is none.
#[allow(dead_code, reason = "not all tests look at it")]
pub(crate) fn unfinished_bytes(directory: &Path) -> u64 {
    unfinished(directory).map_or(0, |(_, bytes)| bytes)
}

/// Waits until `true_by_now` returns true. If this never happens, the test fails instead of
/// hanging.
#[allow(dead_code, reason = "not all tests wait")]
#[expect(clippy::disallowed_methods, reason = "other processes in real time")]
pub(crate) fn until(true_by_now: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !true_by_now() {
        let waited = begun.elapsed();
        assert!(waited < std::time::Duration::from_secs(60), "it never came");
        std::thread::yield_now();
    }
}

/// Waits until an unfinished file in a directory has this number of bytes.
#[allow(dead_code, reason = "not all tests wait for one")]
pub(crate) fn until_unfinished(directory: &Path, bytes: u64) {
    until(|| unfinished_bytes(directory) >= bytes);
}
