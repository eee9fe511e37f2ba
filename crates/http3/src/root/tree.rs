//! A directory that files, directories and links from elsewhere are written into. No step follows
//! a symbolic link beneath its top.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmodat, fchmod, fstat, futimens,
    mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::{open_directory, stat_of};
use crate::resource::{Kind, RESERVED_PREFIX, Stat, TEMPORARY_SUFFIX, Time};

/// How each directory is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Permission bits that a file or directory gets from elsewhere.
const BITS: u32 = 0o777;

/// Metadata that a file or directory gets; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, of which the process's umask takes some.
    pub mode: Option<u32>,
    /// The time of the last write.
    pub modified: Option<Time>,
}

/// A directory whose content is written.
#[derive(Debug)]
pub struct Tree {
    top: OwnedFd,
    umask: u32,
}

/// The process's umask, which Linux tells without a change of it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    umask.unwrap_or(0o022)
}

/// The time of the last write alone.
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

/// The failure of a step of the walk.
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
    /// The same, whose mode the process's umask has taken its bits from.
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
    /// Those of setting.
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
    /// The directory at `path`, which is made with those above it where there is none.
    ///
    /// # Errors
    /// Those of making and opening.
    pub fn make(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self {
            top: open_directory(path)?,
            umask: umask(),
        })
    }

    /// The directory at `path`, which is there.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            top: open_directory(path)?,
            umask: umask(),
        })
    }

    /// Attributes whose mode the umask has taken its bits from.
    #[must_use]
    pub fn allowed(&self, attributes: Attributes) -> Attributes {
        let mode = attributes.mode.map(|mode| mode & BITS & !self.umask);
        Attributes { mode, ..attributes }
    }

    /// Opens the directory that `names` lead to. Those on the way that do not exist are made, for
    /// this user alone until [`finish`](Self::finish).
    ///
    /// # Errors
    /// Those of making and opening.
    pub fn folder(&self, names: &[Vec<u8>]) -> io::Result<OwnedFd> {
        let mut here = openat(&self.top, ".", DIRECTORY, Mode::empty())?;
        for name in names {
            let open = || openat(&here, name.as_slice(), DIRECTORY, Mode::empty());
            let next = match open() {
                Err(Errno::NOENT) => {
                    match mkdirat(&here, name.as_slice(), Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    open()
                }
                opened => opened,
            };
            here = next.map_err(in_the_way)?;
        }
        Ok(here)
    }

    /// Opens the directory that `names` lead to, and makes none.
    ///
    /// # Errors
    /// Those of opening.
    pub fn existing(&self, names: &[Vec<u8>]) -> io::Result<OwnedFd> {
        let mut here = openat(&self.top, ".", DIRECTORY, Mode::empty())?;
        for name in names {
            here = openat(&here, name.as_slice(), DIRECTORY, Mode::empty()).map_err(in_the_way)?;
        }
        Ok(here)
    }

    /// Gives a directory its attributes, once all in it is written.
    ///
    /// # Errors
    /// Those of opening and setting.
    pub fn finish(&self, names: &[Vec<u8>], attributes: Attributes) -> io::Result<()> {
        self.allowed(attributes).set(self.folder(names)?)
    }

    /// Makes a symbolic link. A file or link of the name goes; false where it is there already.
    ///
    /// # Errors
    /// Those of making; [`ErrorKind::IsADirectory`] where a directory has the name.
    pub fn link(&self, names: &[Vec<u8>], target: &[u8], modified: Time) -> io::Result<bool> {
        let (name, before) = names.split_last().ok_or(ErrorKind::InvalidInput)?;
        let folder = self.folder(before)?;
        make_link(folder.as_fd(), name, target, Some(modified))
    }

    /// Waits until all that was written is on the disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.top)?)
    }
}

/// Makes a symbolic link. A file or link of the name goes; false where it is there already. One
/// caller at a time makes links in a directory.
///
/// # Errors
/// Those of making; [`ErrorKind::IsADirectory`] where a directory has the name.
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
        // Links are made one after the other: an earlier run left it.
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

/// The entry of a directory with this name, a link itself; `None` if the name is free.
///
/// # Errors
/// Those of asking.
pub fn look(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Stat>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat_of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a regular file, which has the metadata `there`, the permission bits of `attributes`.
///
/// # Errors
/// Those of setting.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
        assert!(tree.link(&names("d/link"), b"../x", time).unwrap());
        assert!(!tree.link(&names("d/link"), b"../x", time).unwrap());
        assert!(tree.link(&names("d/link"), b"/y", time).unwrap());
        let link = here.path().join("d/link");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/y"));
        assert_eq!(fs::symlink_metadata(&link).unwrap().mtime(), 0);
        assert!(tree.link(&names("d"), b"x", time).is_err());
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(here.path().join("d")).unwrap().count(), 1);
    }
}
