//! Files on their way in, under temporary names: they appear under their own only when they are
//! whole.
//!
//! A temporary file belongs to the holder of its lock (flock(2)): only the owner writes, renames or
//! removes it, in this process or another. The lock ends with the process, so another process can
//! take over the file of a killed one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::send::{Hash, hash_file};
use super::source::open_plain;

/// Files of one name that may be under way at once, each with a temporary name of its own.
const MAX_AT_ONCE: u32 = 1000;

/// Endings of temporary names, which begin with a dot: bytes of a `get`, which file they are of,
/// bytes of a `put`.
const PART: &str = "part";
const TAG: &str = "tag";
const INCOMING: &str = "incoming";

/// True for names that unfinished files have, such as `.big.iso.part`. No finished file may have
/// one: it would be taken for the unfinished one of another name.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    // Also the key of a server of a directory in this one.
    if name.starts_with(".pathmark-") {
        return true;
    }
    let ending = name
        .strip_prefix('.')
        .and_then(|rest| rest.rsplit_once('.'));
    ending.is_some_and(|(name, ending)| !name.is_empty() && [PART, TAG, INCOMING].contains(&ending))
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is refused.
    Keep,
    /// The new one takes its place.
    Replace,
}

/// Why a whole file did not get its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// Another has the name, and was to stay.
    #[error("there is a file of this name already")]
    Exists,
    /// What lies under the name is not what was written.
    #[error("what lies under the name now is another file: something else wrote it meanwhile")]
    Changed,
    /// Syncing, renaming or reading failed.
    #[error(transparent)]
    Storage(#[from] io::Error),
}

/// A file on its way in, under a temporary name that this value owns.
#[derive(Debug)]
pub struct Incoming {
    file: File,
    partial: PathBuf,
    target: PathBuf,
    /// File with the tag of the source file, for a later `get` that resumes.
    tag: Option<PathBuf>,
    /// The temporary name is this value's still.
    owned: bool,
}

impl Incoming {
    /// Begins a file that shall lie at `target`. Its bytes are removed if it breaks off.
    ///
    /// # Errors
    /// Those of creating the file.
    pub(super) fn fresh(target: &Path) -> io::Result<Self> {
        for attempt in 0..MAX_AT_ONCE {
            let partial = sibling(target, &format!("{attempt}.{INCOMING}"));
            let Some(file) = claim(&partial)? else {
                continue;
            };
            let incoming = Self {
                file,
                partial,
                target: target.to_owned(),
                tag: None,
                owned: true,
            };
            // A server that was killed may have left bytes.
            incoming.file.set_len(0)?;
            return Ok(incoming);
        }
        Err(io::Error::other("too many unfinished files of this name"))
    }

    /// Begins or resumes a file that shall lie at `target`. Received bytes stay if it breaks off.
    /// `None` if another transfer holds the lock.
    ///
    /// # Errors
    /// Those of opening the file.
    pub fn resume(target: &Path) -> io::Result<Option<Self>> {
        let partial = sibling(target, PART);
        Ok(claim(&partial)?.map(|file| Self {
            file,
            partial,
            target: target.to_owned(),
            tag: Some(sibling(target, TAG)),
            owned: true,
        }))
    }

    /// How many bytes are there already and which file they are of; nothing if that is not known.
    ///
    /// # Errors
    /// Those of asking for the size.
    pub fn have(&self) -> io::Result<Option<(u64, String)>> {
        let bytes = self.file.metadata()?.len();
        let tag = self.tag.as_ref().and_then(|tag| read_tag(tag).ok());
        Ok(tag
            .filter(|tag| !tag.is_empty() && bytes > 0)
            .map(|tag| (bytes, tag)))
    }

    /// Forgets what is there: the bytes to come are those of the file that `tag` names.
    ///
    /// # Errors
    /// Those of writing.
    pub fn restart(&self, tag: &str) -> io::Result<()> {
        // In this order the new tag never names old bytes.
        self.file.set_len(0)?;
        match &self.tag {
            Some(path) => write_tag(path, tag),
            None => Ok(()),
        }
    }

    /// A handle on the file's bytes. The temporary name stays locked as long as it lives.
    ///
    /// # Errors
    /// Those of duplicating a descriptor.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The file is whole and has this hash: gives it its name, on disk too, and reads back what
    /// then lies there. Takes as long as the disk does.
    ///
    /// # Errors
    /// [`KeepError`]. Unless it has its name already, the file stays under the temporary one if
    /// that was promised.
    pub fn keep(mut self, hash: &Hash, existing: Existing) -> Result<(), KeepError> {
        self.file.sync_all()?;
        // Before the name is given up, as the next owner's tag has the same one.
        if let Some(tag) = &self.tag {
            remove(tag)?;
        }
        match existing {
            Existing::Replace => fs::rename(&self.partial, &self.target)?,
            Existing::Keep => rename_to_free(&self.partial, &self.target)?,
        }
        self.owned = false;
        if let Some(directory) = self.target.parent() {
            let directory = if directory.as_os_str().is_empty() {
                Path::new(".")
            } else {
                directory
            };
            File::open(directory)?.sync_all()?;
        }
        if hash_file(&self.target)? == *hash {
            Ok(())
        } else {
            Err(KeepError::Changed)
        }
    }

    /// The bytes are wrong: removes them.
    ///
    /// # Errors
    /// Those of removing a file.
    pub fn discard(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> io::Result<()> {
        self.owned = false;
        if let Some(tag) = &self.tag {
            remove(tag)?;
        }
        fs::remove_file(&self.partial)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let worthless = || {
            let resumable = self.tag.is_some();
            !resumable
                || self
                    .file
                    .metadata()
                    .is_ok_and(|metadata| metadata.len() == 0)
        };
        if self.owned && worthless() {
            // Nothing can be done about a file that cannot be removed; it carries a temporary name.
            let _ = self.remove();
        }
    }
}

/// Opens the file at `partial` and locks it; `None` if another process or value holds the lock.
fn claim(partial: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new()
            .write(true)
            .read(true)
            .create(true)
            .truncate(false)
            .open(partial)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let ours = file.metadata()?;
        match fs::symlink_metadata(partial) {
            Ok(there) if !there.is_file() => {
                let why = format!("{} is no plain file", partial.display());
                return Err(io::Error::new(ErrorKind::InvalidInput, why));
            }
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                return Ok(Some(file));
            }
            // Its owner renamed or removed it after it was opened here, and before it was locked.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads what names the file that the bytes are of. Neither a pipe nor a link is used for it.
fn read_tag(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let longest = super::protocol::MAX_MESSAGE as u64;
    open_plain(path)?.take(longest).read_to_string(&mut text)?;
    Ok(text)
}

fn write_tag(path: &Path, tag: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?
        .write_all(tag.as_bytes())
}

/// Renames, unless there is something of the new name.
fn rename_to_free(from: &Path, to: &Path) -> Result<(), KeepError> {
    let exists = |error: io::Error| match error.kind() {
        ErrorKind::AlreadyExists => KeepError::Exists,
        _ => KeepError::Storage(error),
    };
    match fs::hard_link(from, to) {
        Ok(()) => Ok(fs::remove_file(from)?),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(KeepError::Exists),
        // A file system without hard links. An empty file holds the name for a moment.
        Err(_) => {
            File::create_new(to).map_err(exists)?;
            Ok(fs::rename(from, to)?)
        }
    }
}

/// Removes a file that need not be there.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The temporary name of `target` with this ending, in the same directory.
fn sibling(target: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".");
    name.push(ending);
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};
    use tempfile::TempDir;

    use super::*;

    fn hash(bytes: &[u8]) -> Hash {
        Sha256::digest(bytes).into()
    }

    fn names(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn write(incoming: &Incoming, bytes: &[u8]) {
        incoming.file().unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let incoming = Incoming::fresh(&target).unwrap();
        write(&incoming, b"half");
        assert!(!target.exists());
        drop(incoming);
        assert!(names(&directory).is_empty());

        let incoming = Incoming::fresh(&target).unwrap();
        write(&incoming, b"whole");
        incoming.keep(&hash(b"whole"), Existing::Keep).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(names(&directory), ["a"]);
    }

    #[test]
    fn a_broken_file_is_gone_on_with() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let incoming = Incoming::resume(&target).unwrap().unwrap();
        assert_eq!(incoming.have().unwrap(), None);
        incoming.restart("v1").unwrap();
        write(&incoming, b"half");
        drop(incoming);
        let incoming = Incoming::resume(&target).unwrap().unwrap();
        assert_eq!(incoming.have().unwrap(), Some((4, "v1".to_owned())));
        incoming.restart("v2").unwrap();
        assert_eq!(incoming.have().unwrap(), None);
        write(&incoming, b"other");
        drop(incoming);
        let incoming = Incoming::resume(&target).unwrap().unwrap();
        assert_eq!(incoming.have().unwrap(), Some((5, "v2".to_owned())));
        incoming.discard().unwrap();
        assert!(names(&directory).is_empty());
    }

    #[test]
    fn an_unfinished_file_has_one_owner() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let first = Incoming::resume(&target).unwrap().unwrap();
        first.restart("v1").unwrap();
        write(&first, b"all");
        assert!(Incoming::resume(&target).unwrap().is_none());
        // A writer that still runs owns it too.
        let writer = first.file().unwrap();
        drop(first);
        assert!(Incoming::resume(&target).unwrap().is_none());
        drop(writer);
        let second = Incoming::resume(&target).unwrap().unwrap();
        assert_eq!(second.have().unwrap(), Some((3, "v1".to_owned())));
        second.keep(&hash(b"all"), Existing::Replace).unwrap();
        assert_eq!(names(&directory), ["a"]);
    }

    /// Opened before the owner renames it and locked after: the lock is on the finished file, which
    /// is not to be touched.
    #[test]
    fn a_lock_on_a_file_that_was_finished_meanwhile_is_worth_nothing() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let turns = 200;
        let finish = || {
            for turn in 0..turns {
                if let Some(incoming) = Incoming::resume(&target).unwrap() {
                    incoming.restart("v").unwrap();
                    let bytes = format!("{turn} {:?}", std::thread::current().id());
                    write(&incoming, bytes.as_bytes());
                    // Either the file has its own hash under its name, or another one has taken the
                    // name: no other thread has written to it.
                    match incoming.keep(&hash(bytes.as_bytes()), Existing::Replace) {
                        Ok(()) | Err(KeepError::Changed) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(finish);
            scope.spawn(finish);
        });
        let content = fs::read_to_string(&target).unwrap();
        assert_eq!(content.matches("ThreadId").count(), 1, "{content}");
        assert_eq!(names(&directory), ["a"]);
    }

    #[test]
    fn two_files_of_one_name_at_once() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let incoming = |bytes: &[u8]| {
            let incoming = Incoming::fresh(&target).unwrap();
            write(&incoming, bytes);
            incoming
        };
        let (one, two, three) = (incoming(b"one"), incoming(b"two"), incoming(b"three"));
        one.keep(&hash(b"one"), Existing::Keep).unwrap();
        let refused = two.keep(&hash(b"two"), Existing::Keep);
        assert!(matches!(refused, Err(KeepError::Exists)));
        assert_eq!(fs::read(&target).unwrap(), b"one");
        three.keep(&hash(b"three"), Existing::Replace).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"three");
        assert_eq!(names(&directory), ["a"]);
    }

    #[test]
    fn success_is_what_can_be_read_back() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let incoming = Incoming::fresh(&target).unwrap();
        write(&incoming, b"bytes");
        // A process that does not lock the file.
        fs::write(directory.path().join(".a.0.incoming"), b"other").unwrap();
        let changed = incoming.keep(&hash(b"bytes"), Existing::Keep);
        assert!(matches!(changed, Err(KeepError::Changed)));
    }

    #[test]
    fn what_a_killed_process_left_is_taken_over() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        fs::write(directory.path().join(".a.0.incoming"), b"left over").unwrap();
        let incoming = Incoming::fresh(&target).unwrap();
        write(&incoming, b"new");
        incoming.keep(&hash(b"new"), Existing::Keep).unwrap();
        assert_eq!(names(&directory), ["a"]);
    }

    #[test]
    fn a_link_in_the_place_of_a_temporary_file_is_refused() {
        let directory = TempDir::new().unwrap();
        let target = directory.path().join("a");
        let elsewhere = directory.path().join("elsewhere");
        fs::write(&elsewhere, b"keep me").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join(".a.part")).unwrap();
        assert!(Incoming::resume(&target).is_err());
        assert_eq!(fs::read(&elsewhere).unwrap(), b"keep me");
    }

    #[test]
    fn temporary_names() {
        for name in [".a.part", ".a.b.tag", ".a.0.incoming", ".pathmark-a.key"] {
            assert!(is_temporary(name), "{name}");
        }
        for name in ["a.part", ".part", "..part", ".a.partial", ".a", "part", ""] {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
