//! A directory to which files, directories and links are written, or whose entries are read piece
//! by piece. Symbolic links beneath its top are never followed.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmodat, fchmod, fstat, futimens,
    mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::{Existing, KeepError, open_directory, stat_of};
use crate::resource::{Entry, Kind, RESERVED_PREFIX, Stat, TEMPORARY_SUFFIX, Time, is_reserved};

/// Flags for opening directories.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Permission bits that can be set from elsewhere.
const BITS: u32 = 0o777;

/// Metadata to set on a file or directory. The default sets nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, before the process's umask is applied.
    pub mode: Option<u32>,
    /// The modification time.
    pub modified: Option<Time>,
}

/// A directory to write to.
#[derive(Debug)]
pub struct Tree {
    top: OwnedFd,
    umask: u32,
}

/// Returns the process's umask. Linux reports it in `/proc`, without changing it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    umask.unwrap_or(0o022)
}

/// Returns timestamps that only set the modification time.
fn timestamps(modified: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: modified.seconds,
            tv_nsec: modified.nanoseconds.into(),
        },
    }
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits & BITS)
}

/// Converts an error of a step of the walk.
fn in_the_way(error: Errno) -> io::Error {
    match error {
        Errno::NOTDIR | Errno::LOOP => io::Error::new(
            ErrorKind::NotADirectory,
            "a file or a symbolic link has the name of a directory; remove it, or choose another \
             directory",
        ),
        error => error.into(),
    }
}

impl Attributes {
    /// Applies the process's umask to the mode.
    #[must_use]
    pub fn allowed(self) -> Self {
        static UMASK: OnceLock<u32> = OnceLock::new();
        let umask = UMASK.get_or_init(umask);
        Self {
            mode: self.mode.map(|mode| mode & BITS & !umask),
            ..self
        }
    }

    /// Sets them on an open file or directory.
    ///
    /// # Errors
    /// Fails if they can't be set.
    pub fn set(&self, file: impl AsFd) -> io::Result<()> {
        if let Some(bits) = self.mode
            && fstat(&file)?.st_mode & BITS != bits & BITS
        {
            fchmod(&file, mode(bits))?;
        }
        if let Some(modified) = self.modified {
            futimens(&file, &timestamps(modified))?;
        }
        Ok(())
    }
}

impl Tree {
    /// Opens the directory at `path`, creating it and its parents if necessary.
    ///
    /// # Errors
    /// Fails if a directory can't be created or opened.
    pub fn make(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Self::open(path)
    }

    /// Opens the existing directory at `path`.
    ///
    /// # Errors
    /// Fails if the directory can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            top: open_directory(path)?,
            umask: umask(),
        })
    }

    /// Applies the umask to the mode.
    pub fn allowed(&self, attributes: Attributes) -> Attributes {
        let mode = attributes.mode.map(|mode| mode & BITS & !self.umask);
        Attributes { mode, ..attributes }
    }

    /// Opens the directory at `names`. Missing directories are created, and are only accessible
    /// to this user until [`finish`](Self::finish).
    ///
    /// # Errors
    /// Fails if a directory can't be created or opened.
    pub fn folder(&self, names: &[Vec<u8>]) -> io::Result<OwnedFd> {
        let mut here = openat(&self.top, ".", DIRECTORY, Mode::empty())?;
        for name in names {
            let open = || openat(&here, name.as_slice(), DIRECTORY, Mode::empty());
            let next = match open() {
                Err(Errno::NOENT) => {
                    make_directory(here.as_fd(), name, Mode::RWXU)?;
                    open()
                }
                opened => opened,
            };
            here = next.map_err(in_the_way)?;
        }
        Ok(here)
    }

    /// Opens the directory at `names` without creating any.
    ///
    /// # Errors
    /// Fails if a directory can't be opened.
    pub fn existing(&self, names: &[Vec<u8>]) -> io::Result<OwnedFd> {
        let mut here = openat(&self.top, ".", DIRECTORY, Mode::empty())?;
        for name in names {
            here = openat(&here, name.as_slice(), DIRECTORY, Mode::empty()).map_err(in_the_way)?;
        }
        Ok(here)
    }

    /// Sets a directory's attributes, after everything in it was written.
    ///
    /// # Errors
    /// Fails if the directory can't be opened or its attributes can't be set.
    pub fn finish(&self, names: &[Vec<u8>], attributes: Attributes) -> io::Result<()> {
        self.allowed(attributes).set(self.folder(names)?)
    }

    /// Creates a symbolic link, replacing a file or link of this name. Returns false if the same
    /// link already exists.
    ///
    /// # Errors
    /// Fails if the link can't be created, with [`ErrorKind::IsADirectory`] if a directory has
    /// the name.
    pub fn link(
        &self,
        names: &[Vec<u8>],
        target: &[u8],
        modified: Time,
        existing: Existing,
    ) -> Result<bool, KeepError> {
        let invalid = || io::Error::from(ErrorKind::InvalidInput);
        let (name, before) = names.split_last().ok_or_else(invalid)?;
        let folder = self.folder(before)?;
        let other = |there: &Stat| {
            let same =
                target_of(folder.as_fd(), name).is_ok_and(|own| own.as_deref() == Some(target));
            there.kind != Kind::Symlink || !same
        };
        if existing == Existing::Keep
            && look(folder.as_fd(), name)?.is_some_and(|there| other(&there))
        {
            return Err(KeepError::Exists);
        }
        Ok(make_link(folder.as_fd(), name, target, Some(modified))?)
    }

    /// Syncs everything that was written to disk.
    ///
    /// # Errors
    /// Fails if the disk does.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.top)?)
    }
}

/// Creates a directory, unless the name exists.
pub(super) fn make_directory(
    folder: BorrowedFd<'_>,
    name: &[u8],
    mode: Mode,
) -> rustix::io::Result<()> {
    match mkdirat(folder, name, mode) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Returns a link's target, or `None` if the name isn't that of a link.
pub(crate) fn target_of(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    match readlinkat(folder, name, Vec::new()) {
        Ok(target) => Ok(Some(target.into_bytes())),
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates a symbolic link, replacing a file or link of this name. Returns false if the same
/// link already exists. Callers must not create links in the same directory concurrently.
///
/// # Errors
/// Fails if the link can't be created, with [`ErrorKind::IsADirectory`] if a directory has the
/// name.
pub fn make_link(
    folder: BorrowedFd<'_>,
    name: &[u8],
    target: &[u8],
    modified: Option<Time>,
) -> io::Result<bool> {
    let there = readlinkat(folder, name, Vec::new());
    let is_new = !there.is_ok_and(|there| there.as_bytes() == target);
    let mut made = name;
    let temporary = [RESERVED_PREFIX, b"link", TEMPORARY_SUFFIX].concat();
    if is_new {
        made = &temporary;
        // Links are created one at a time, so an existing link was left by an earlier run.
        let _ = unlinkat(folder, made, AtFlags::empty());
        symlinkat(target, folder, made)?;
    }
    let timed = modified.map_or(Ok(()), |modified| {
        let times = timestamps(modified);
        utimensat(folder, made, &times, AtFlags::SYMLINK_NOFOLLOW)
    });
    if is_new && let Err(error) = renameat(folder, made, folder, name) {
        unlinkat(folder, made, AtFlags::empty())?;
        return Err(error.into());
    }
    timed?;
    Ok(is_new)
}

/// Returns the metadata of a name in a directory without following links, or `None` if the name
/// is free.
///
/// # Errors
/// Fails if the metadata can't be read.
pub fn look(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Stat>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat_of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sets the permission bits of a regular file, whose current metadata is `there`.
///
/// # Errors
/// Fails if they can't be set.
pub fn set_bits(
    folder: BorrowedFd<'_>,
    name: &[u8],
    there: &Stat,
    attributes: Attributes,
) -> io::Result<()> {
    match attributes.mode {
        Some(bits) if there.kind == Kind::File && there.mode & BITS != bits => {
            Ok(chmodat(folder, name, mode(bits), AtFlags::empty())?)
        }
        _ => Ok(()),
    }
}

/// Maximum number of names to sort together. To bound memory, larger directories are returned in
/// several sorted runs.
const RUN: usize = 16_384;
/// Maximum number of entries in a piece.
const PIECE: usize = 256;

/// Reads the entries of a directory.
pub struct Entries {
    directory: OwnedFd,
    reader: Dir,
    /// The names of this run in reverse order.
    run: Vec<Vec<u8>>,
}

impl Entries {
    /// Reads all entries of an open directory, except for unfinished files.
    ///
    /// # Errors
    /// Fails if the directory can't be read.
    pub fn of(directory: OwnedFd) -> io::Result<Self> {
        let reader = Dir::read_from(directory.as_fd())?;
        Ok(Self {
            directory,
            reader,
            run: Vec::new(),
        })
    }

    /// Returns the next entries, which are empty at the end. Names that disappear in the meantime
    /// are omitted.
    ///
    /// # Errors
    /// Fails if the directory can't be read.
    pub fn next_piece(&mut self) -> io::Result<Vec<Entry>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE {
            if self.run.is_empty() {
                self.fill()?;
            }
            let Some(name) = self.run.pop() else {
                break;
            };
            piece.extend(self.entry(name)?);
        }
        Ok(piece)
    }

    fn fill(&mut self) -> io::Result<()> {
        while self.run.len() < RUN
            && let Some(entry) = self.reader.read()
        {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") && !is_reserved(name) {
                self.run.push(name.to_vec());
            }
        }
        self.run.sort_unstable_by(|one, other| other.cmp(one));
        Ok(())
    }

    fn entry(&self, name: Vec<u8>) -> io::Result<Option<Entry>> {
        let directory = self.directory.as_fd();
        let Some(stat) = look(directory, &name)? else {
            return Ok(None);
        };
        let target = match stat.kind {
            Kind::Symlink => target_of(directory, &name)?,
            _ => None,
        };
        // Without a target, another file has taken the name of the link meanwhile.
        let is_there = stat.kind != Kind::Symlink || target.is_some();
        Ok(is_there.then_some(Entry { name, stat, target }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use crate::root::open_directory;

    use super::*;

    fn names(path: &str) -> Vec<Vec<u8>> {
        path.split('/')
            .map(|name| name.as_bytes().to_vec())
            .collect()
    }

    #[test]
    fn directories_are_made_and_links_are_not_followed() {
        let here = tempfile::tempdir().unwrap();
        let (top, outside) = (here.path().join("a/top"), here.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        let tree = Tree::make(&top).unwrap();
        tree.folder(&names("x/y")).unwrap();
        let bits = |path: &str| fs::metadata(top.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(bits("x/y"), 0o700);
        let time = Time {
            seconds: 1000,
            nanoseconds: 5,
        };
        let attributes = Attributes {
            mode: Some(0o7755),
            modified: Some(time),
        };
        tree.finish(&names("x/y"), attributes).unwrap();
        assert_eq!(bits("x/y"), 0o755 & !tree.umask);
        let metadata = fs::metadata(top.join("x/y")).unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1000, 5));

        symlink(&outside, top.join("out")).unwrap();
        for path in ["out", "out/z"] {
            let error = tree.folder(&names(path)).unwrap_err();
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
        let mut tree = tree;
        tree.umask = 0o027;
        let bits = tree.allowed(attributes).mode;
        assert_eq!(bits, Some(0o750));
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn links_take_the_place_of_links_and_files_alone() {
        let here = tempfile::tempdir().unwrap();
        let tree = Tree::make(here.path()).unwrap();
        let time = Time::default();
        let make =
            |path: &str, target: &[u8], existing| tree.link(&names(path), target, time, existing);
        let (keep, replace) = (Existing::Keep, Existing::Replace);
        assert!(make("d/link", b"../x", keep).unwrap());
        assert!(!make("d/link", b"../x", keep).unwrap());
        assert!(matches!(
            make("d/link", b"/y", keep),
            Err(KeepError::Exists)
        ));
        assert!(make("d/link", b"/y", replace).unwrap());
        let link = here.path().join("d/link");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/y"));
        assert_eq!(fs::symlink_metadata(&link).unwrap().mtime(), 0);
        assert!(make("d", b"x", keep).is_err() && make("d", b"x", replace).is_err());
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(here.path().join("d")).unwrap().count(), 1);
    }

    #[test]
    fn all_names_come_in_order_without_unfinished_ones() {
        let directory = tempfile::tempdir().unwrap();
        for n in 0..600 {
            std::fs::write(directory.path().join(format!("{n:03}")), "").unwrap();
        }
        std::fs::write(directory.path().join(".pathmark-7.part"), "").unwrap();
        std::os::unix::fs::symlink("000", directory.path().join("link")).unwrap();
        let mut entries = Entries::of(open_directory(directory.path()).unwrap()).unwrap();
        let mut all = Vec::new();
        loop {
            let piece = entries.next_piece().unwrap();
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= PIECE);
            all.extend(piece);
        }
        assert_eq!(all.len(), 601);
        assert!(all.is_sorted_by(|one, other| one.name < other.name));
        let link = all.last().unwrap();
        assert_eq!(link.target.as_deref(), Some(&b"000"[..]));
        assert_eq!(link.stat.kind, Kind::Symlink);
    }
}
