//! Resolves a path to an open file, name by name. Each step is relative to an open directory, so
//! that a concurrent rename or new link can't lead out of the root.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::stat_of;
use super::tree::make_directory;
use super::upload::{Lying, find_uploads};
use crate::fields::PathName;
use crate::lock;
use crate::resource::{Kind, Stat, is_reserved};

/// Maximum number of symbolic links along a path, as in Linux.
const MAX_LINKS: usize = 40;
/// Maximum number of open directories along a path, because each takes a descriptor.
const MAX_DEPTH: usize = 128;

/// A directory and everything beneath it. If another directory gets its name, such as by switching
/// a link, the new one is used from then on.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    open: Mutex<Arc<OwnedFd>>,
}

/// The result of resolving a path.
#[derive(Debug)]
pub enum Found {
    /// A regular file, open for reading.
    File(File, Stat),
    /// A directory, open for reading.
    Directory(OwnedFd),
}

/// The reason why a path can't be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// No file has this name, or a link leads out of the root.
    #[error("there is no file of this name")]
    NotFound,
    /// It is a device, a socket or a pipe.
    #[error("the name is that of a device, a socket or a pipe, which are not served")]
    Special,
    /// The server process lacks permission.
    #[error("the server has no permission to open the file; its operator can grant it")]
    Denied,
    /// The server process has run out of descriptors or memory.
    #[error(
        "the server has as many files open as its limit allows; its operator can raise the hard \
         limit (ulimit -Hn)"
    )]
    Busy,
    /// The path has too many directories to create.
    #[error("the path has more than {MAX_DEPTH} directories; choose a shorter one")]
    Deep,
    /// Any other error.
    #[error("the server could not open the file: {0}")]
    Storage(io::Error),
}

impl From<Errno> for RootError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL => {
                Self::NotFound
            }
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::NXIO | Errno::NODEV => Self::Special,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            error => Self::Storage(error.into()),
        }
    }
}

/// Flags for all descriptors: they don't block, don't become a controlling terminal, and don't
/// survive exec.
const COMMON: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a directory for reading.
///
/// # Errors
/// Fails if the directory can't be opened.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Returns the metadata of a name in a directory without following links, or `None` if the name
/// is free.
///
/// # Errors
/// [`RootError`].
pub fn names_stat(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, RootError> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat_of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Root {
    /// Opens the directory at `path` as a root.
    ///
    /// # Errors
    /// Fails if the directory can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            open: Mutex::new(Arc::new(open_directory(path)?)),
            path: path.to_owned(),
        })
    }

    /// Returns the directory that has the name now, or the last one if there is none.
    fn now(&self) -> Arc<OwnedFd> {
        let open = Arc::clone(&lock(&self.open));
        let (Ok(named), Ok(own)) = (rustix::fs::stat(&self.path), fstat(&*open)) else {
            return open;
        };
        if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) {
            return open;
        }
        let Ok(other) = open_directory(&self.path).map(Arc::new) else {
            return open;
        };
        *lock(&self.open) = Arc::clone(&other);
        other
    }

    /// Returns all uploads beneath the root. This blocks for as long as the file system does.
    pub fn uploads(&self) -> Vec<Lying> {
        find_uploads(&self.now())
    }

    /// Opens a path. Symbolic links are followed as long as they stay beneath the root. After
    /// the first `prefix` names, they must even stay beneath these. This blocks for as long as
    /// the file system does.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn find(&self, path: &PathName, prefix: usize) -> Result<Found, RootError> {
        let root = self.now();
        let mut walk = Walk::new(root.as_fd());
        match walk.run(&path.names, prefix)? {
            End::Directory => Ok(Found::Directory(walk.here_readable()?)),
            End::File(_) if path.slash => Err(RootError::NotFound),
            End::File(name) => {
                let flags = COMMON | OFlags::RDONLY;
                let file = openat(walk.here(), name.as_slice(), flags, Mode::empty())?;
                let stat = stat_of(&fstat(&file)?);
                let file = File::from(file);
                // For some special files, the system doesn't report the size.
                let is_endless =
                    || stat.size == 0 && file.read_at(&mut [0], 0).is_ok_and(|read| read > 0);
                match stat.kind {
                    Kind::File if is_endless() => Err(RootError::Special),
                    Kind::File => Ok(Found::File(file, stat)),
                    _ => Err(RootError::NotFound),
                }
            }
        }
    }

    /// Opens the directory that contains the last name of a path, even if that name doesn't
    /// exist. Links are followed as in [`find`](Self::find). With `create`, missing directories
    /// are created.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn parent(
        &self,
        path: &PathName,
        prefix: usize,
        create: bool,
    ) -> Result<OwnedFd, RootError> {
        Ok(self.parent_at(path, prefix, create)?.0)
    }

    /// Opens the last existing directory of a path.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn nearest(&self, path: &PathName, prefix: usize) -> Result<OwnedFd, RootError> {
        let mut path = path.clone();
        loop {
            match self.parent(&path, prefix, false) {
                Err(RootError::NotFound) if path.names.len() > 1 => drop(path.names.pop()),
                found => return found,
            }
        }
    }

    /// Does the same as [`parent`](Self::parent), and also returns how many directories it is
    /// beneath the first `prefix` names.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn parent_at(
        &self,
        path: &PathName,
        prefix: usize,
        create: bool,
    ) -> Result<(OwnedFd, usize), RootError> {
        let (_, before) = path.names.split_last().ok_or(RootError::NotFound)?;
        if create && before.len() > MAX_DEPTH {
            return Err(RootError::Deep);
        }
        let root = self.now();
        let mut walk = Walk::new(root.as_fd());
        walk.create = create;
        match walk.run(before, prefix)? {
            End::Directory => Ok((walk.here_readable()?, walk.stack.len() - walk.floor)),
            End::File(_) => Err(RootError::NotFound),
        }
    }
}

/// The end of a walk.
enum End {
    Directory,
    /// A regular file with this name in the last directory.
    File(Vec<u8>),
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// Directories on the way, beginning with the root's child.
    stack: Vec<OwnedFd>,
    /// The remaining names in reverse order.
    ahead: Vec<Vec<u8>>,
    links: usize,
    /// Directories at the bottom of the stack that `..` can't leave.
    floor: usize,
    /// Whether to create missing directories.
    create: bool,
}

impl<'a> Walk<'a> {
    const fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            stack: Vec::new(),
            ahead: Vec::new(),
            links: 0,
            floor: 0,
            create: false,
        }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.root, AsFd::as_fd)
    }

    /// Returns a descriptor of the current directory from which entries can be read.
    fn here_readable(&self) -> Result<OwnedFd, RootError> {
        let flags = COMMON | OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(openat(self.here(), ".", flags, Mode::empty())?)
    }

    /// Follows the names. Links can't leave the directory at the first `prefix` names.
    fn run(&mut self, names: &[Vec<u8>], prefix: usize) -> Result<End, RootError> {
        let (before, beneath) = names.split_at(prefix.min(names.len()));
        match self.go(before)? {
            End::Directory if before.len() == prefix => {
                self.floor = self.stack.len();
                self.go(beneath)
            }
            end if beneath.is_empty() => Ok(end),
            _ => Err(RootError::NotFound),
        }
    }

    fn go(&mut self, names: &[Vec<u8>]) -> Result<End, RootError> {
        self.ahead = names.iter().rev().cloned().collect();
        while let Some(name) = self.ahead.pop() {
            match name.as_slice() {
                b"" | b"." => {}
                b".." if self.stack.len() <= self.floor => return Err(RootError::NotFound),
                b".." => drop(self.stack.pop()),
                name if is_reserved(name) => return Err(RootError::NotFound),
                name => {
                    if let Some(file) = self.step(name)? {
                        return Ok(End::File(file));
                    }
                }
            }
        }
        Ok(End::Directory)
    }

    /// Follows one name. Returns it if it is a regular file at the end.
    fn step(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, RootError> {
        let look = || statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = match look() {
            Err(Errno::NOENT) if self.create => {
                make_directory(self.here(), name, Mode::from_raw_mode(0o777))?;
                look()?
            }
            looked => looked?,
        };
        match stat_of(&stat).kind {
            Kind::Directory => {
                if self.stack.len() == MAX_DEPTH {
                    return Err(RootError::NotFound);
                }
                let flags = COMMON | OFlags::PATH | OFlags::DIRECTORY;
                let directory = openat(self.here(), name, flags, Mode::empty())?;
                self.stack.push(directory);
                Ok(None)
            }
            Kind::Symlink => {
                self.links += 1;
                let target = readlinkat(self.here(), name, Vec::new())?.into_bytes();
                // An absolute target always leads out of the root.
                if self.links > MAX_LINKS || target.is_empty() || target.starts_with(b"/") {
                    return Err(RootError::NotFound);
                }
                let names = target.split(|byte| *byte == b'/').rev();
                self.ahead.extend(names.map(<[u8]>::to_vec));
                Ok(None)
            }
            Kind::File if self.ahead.is_empty() => Ok(Some(name.to_vec())),
            Kind::File => Err(RootError::NotFound),
            Kind::Special => Err(RootError::Special),
        }
    }
}

#[cfg(test)]
mod tests;
