//! From a path to an open file, name by name. Each step is relative to an open directory, so that
//! no rename or new link during the walk leads out of the root.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::stat_of;
use super::upload::{Lying, find_uploads};
use crate::fields::PathName;
use crate::resource::{Kind, Stat, is_reserved};

/// Symbolic links on the way at most, as in Linux.
const MAX_LINKS: usize = 40;
/// Open directories on the way at most; each takes a descriptor.
const MAX_DEPTH: usize = 128;

/// A directory and all beneath it.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// The end of a path.
#[derive(Debug)]
pub enum Found {
    /// A regular file, open for reading.
    File(File, Stat),
    /// A directory, open for reading.
    Directory(OwnedFd),
}

/// A path that leads to nothing that is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// No file has the name, or a link leads out of the root.
    #[error("there is no file of this name")]
    NotFound,
    /// The file is a device, a socket or a pipe.
    #[error("the name is that of a device, a socket or a pipe, which are not served")]
    Special,
    /// The server process has no permission.
    #[error("the server has no permission to open the file; its operator can grant it")]
    Denied,
    /// The server process has no descriptor or memory left.
    #[error(
        "the server has as many files open as its limit allows; its operator can raise the hard \
         limit (ulimit -Hn)"
    )]
    Busy,
    /// The path has more directories than are made.
    #[error("the path has more than {MAX_DEPTH} directories; choose a shorter one")]
    Deep,
    /// Another failure.
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

/// Flags of every descriptor here: none waits, becomes a terminal or survives an exec.
const COMMON: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a directory for reading.
///
/// # Errors
/// Those of opening.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Metadata of what a name in a directory is for, a link itself; `None` if the name is free.
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
    /// The directory at `path` as a root.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(path: &Path) -> io::Result<Self> {
        open_directory(path).map(Self)
    }

    /// All uploads beneath the root. It blocks as long as the file system does.
    #[must_use]
    pub fn uploads(&self) -> Vec<Lying> {
        find_uploads(&self.0)
    }

    /// Opens what a path leads to. Symbolic links are followed as long as they stay beneath the
    /// root; those behind the first `prefix` names, as long as they stay beneath these. It blocks
    /// as long as the file system does.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn find(&self, path: &PathName, prefix: usize) -> Result<Found, RootError> {
        let mut walk = Walk::new(self.0.as_fd());
        match walk.run(&path.names, prefix)? {
            End::Directory => Ok(Found::Directory(walk.here_readable()?)),
            End::File(_) if path.slash => Err(RootError::NotFound),
            End::File(name) => {
                let flags = COMMON | OFlags::RDONLY;
                let file = openat(walk.here(), name.as_slice(), flags, Mode::empty())?;
                let stat = stat_of(&fstat(&file)?);
                let file = File::from(file);
                // The system does not say the size of some files of its own.
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

    /// Opens the directory in which the last name of a path is, or would be. Links are followed as
    /// in [`find`](Self::find). With `create`, directories on the way that do not exist are made.
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

    /// The same with the number of directories between it and what the first `prefix` names lead
    /// to.
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
        let mut walk = Walk::new(self.0.as_fd());
        walk.create = create;
        match walk.run(before, prefix)? {
            End::Directory => Ok((walk.here_readable()?, walk.stack.len() - walk.floor)),
            End::File(_) => Err(RootError::NotFound),
        }
    }
}

/// Where a walk ends.
enum End {
    Directory,
    /// A regular file of this name in the last directory.
    File(Vec<u8>),
}

struct Walk<'a> {
    root: BorrowedFd<'a>,
    /// Directories from the root's child on.
    stack: Vec<OwnedFd>,
    /// Names that are still to go, the next one last.
    ahead: Vec<Vec<u8>>,
    links: usize,
    /// Directories of the stack that no `..` leaves.
    floor: usize,
    /// Directories that do not exist are made.
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

    /// The directory with a descriptor that reads entries.
    fn here_readable(&self) -> Result<OwnedFd, RootError> {
        let flags = COMMON | OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(openat(self.here(), ".", flags, Mode::empty())?)
    }

    /// Goes along the names. What the first `prefix` of them lead to is left by no link.
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

    /// Goes to one name; a regular file that ends the walk is returned.
    fn step(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, RootError> {
        let look = || statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = match look() {
            Err(Errno::NOENT) if self.create => {
                match mkdirat(self.here(), name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
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
                // An absolute target leads out of the root, whatever it is.
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
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn find(root: &Root, path: &str) -> Result<String, RootError> {
        let path = PathName::parse(path.as_bytes()).unwrap();
        match root.find(&path, 0)? {
            Found::File(mut file, _) => {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                Ok(text)
            }
            Found::Directory(_) => Ok("directory".to_owned()),
        }
    }

    #[test]
    fn links_lead_about_the_root_and_never_out() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        let inner = outer.path().join("root");
        fs::create_dir_all(inner.join("sub/deep")).unwrap();
        fs::write(inner.join("file"), "file").unwrap();
        fs::write(inner.join("sub/file"), "sub").unwrap();
        fs::write(inner.join(".pathmark-0.part"), "part").unwrap();
        for (target, link) in [
            ("file", "link"),
            ("sub/deep/../file", "around"),
            ("../file", "sub/up"),
            ("sub", "to-sub"),
            ("../secret", "out"),
            ("../root/file", "out-and-in"),
            ("../../secret", "sub/out"),
            ("/etc/passwd", "absolute"),
            ("loop", "loop"),
            ("..", "parent"),
            ("nothing", "dangling"),
            (".pathmark-0.part", "unfinished"),
            ("file/", "file-as-directory"),
        ] {
            symlink(target, inner.join(link)).unwrap();
        }
        let root = Root::open(&inner).unwrap();
        for (path, text) in [
            ("/", "directory"),
            ("/file", "file"),
            ("/sub", "directory"),
            ("/sub/deep/", "directory"),
            ("/link", "file"),
            ("/around", "sub"),
            ("/sub/up", "file"),
            ("/to-sub/file", "sub"),
            ("/to-sub/up", "file"),
        ] {
            assert_eq!(find(&root, path).unwrap(), text, "{path}");
        }
        for path in [
            "/nothing",
            "/file/",
            "/file/more",
            "/out",
            "/out-and-in",
            "/sub/out",
            "/absolute",
            "/loop",
            "/parent",
            "/parent/secret",
            "/dangling",
            "/.pathmark-0.part",
            "/unfinished",
            "/file-as-directory",
        ] {
            let found = find(&root, path);
            assert!(
                matches!(found, Err(RootError::NotFound)),
                "{path}: {found:?}"
            );
        }
    }

    #[test]
    fn special_files_and_closed_doors_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
        let root = Root::open(directory.path()).unwrap();
        assert!(matches!(find(&root, "/socket"), Err(RootError::Special)));
        let pipe = rustix::fs::mknodat(
            rustix::fs::CWD,
            directory.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        );
        pipe.unwrap();
        assert!(matches!(find(&root, "/pipe"), Err(RootError::Special)));
    }

    #[test]
    fn a_parent_is_that_of_the_last_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/file"), "x").unwrap();
        let root = Root::open(directory.path()).unwrap();
        let parent = |path: &str| {
            let path = PathName::parse(path.as_bytes()).unwrap();
            root.parent(&path, 0, false)
        };
        let sub = parent("/sub/new").unwrap();
        assert_eq!(names_stat(sub.as_fd(), b"file").unwrap().unwrap().size, 1);
        assert!(names_stat(sub.as_fd(), b"new").unwrap().is_none());
        assert!(matches!(parent("/none/new"), Err(RootError::NotFound)));
        assert!(matches!(parent("/sub/file/new"), Err(RootError::NotFound)));
        assert!(matches!(parent("/"), Err(RootError::NotFound)));
        let deep = PathName::parse(b"/one/two/new").unwrap();
        root.parent(&deep, 0, true).unwrap();
        assert!(directory.path().join("one/two").is_dir());
        assert!(!directory.path().join("one/two/new").exists());
        for path in [&b"/sub/file/new/x"[..], b"/.pathmark-x/new"] {
            let path = PathName::parse(path).unwrap();
            let parent = root.parent(&path, 0, true);
            assert!(matches!(parent, Err(RootError::NotFound)));
        }
        let deeper = PathName {
            names: vec![b"d".to_vec(); MAX_DEPTH + 2],
            slash: false,
        };
        assert!(matches!(
            root.parent(&deeper, 0, true),
            Err(RootError::Deep)
        ));
        assert!(!directory.path().join("d").exists());
    }

    /// A client that is confined to `own` stores links in it.
    #[test]
    fn links_behind_a_prefix_stay_beneath_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("disk/sub")).unwrap();
        fs::create_dir(at("other")).unwrap();
        fs::write(at("disk/file"), "own").unwrap();
        fs::write(at("other/file"), "other").unwrap();
        for (target, link) in [
            ("disk", "own"),
            ("../file", "disk/sub/up"),
            ("../other", "disk/out"),
            ("sub/../../other/file", "disk/far"),
            ("../disk/file", "disk/out-and-in"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let root = Root::open(directory.path()).unwrap();
        let name = |path: &str| PathName::parse(path.as_bytes()).unwrap();
        let found = |path: &str| match root.find(&name(path), 1) {
            Ok(Found::File(_, stat)) => Ok(stat.size),
            Ok(Found::Directory(_)) => Ok(0),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(found("/own/file"), Ok(3), "the operator's own link");
        assert_eq!(found("/own/sub/up"), Ok(3));
        assert_eq!((found("/own"), found("/other/file")), (Ok(0), Ok(5)));
        for path in ["/own/out/file", "/own/far", "/own/out-and-in"] {
            assert!(found(path).is_err(), "{path}");
            assert!(root.find(&name(path), 0).is_ok(), "{path}");
        }
        assert!(root.parent(&name("/own/out/new"), 1, true).is_err());
        assert!(root.parent(&name("/own/new/new"), 1, true).is_ok());
        let depth = |path: &str| root.parent_at(&name(path), 1, false).unwrap().1;
        assert_eq!((depth("/own/new"), depth("/own/sub/new")), (0, 1));
        assert!(at("disk/new").is_dir());
    }
}
