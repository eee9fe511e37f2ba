//! Files under temporary names, which get their own names once they are whole.
//!
//! The owner of a temporary file holds its lock (flock(2)): no other process or task writes,
//! renames or removes it. The lock ends with the process, so that the next one takes the file over.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fstat, linkat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::hash::hash_file;
use super::stat_of;
use super::tree::Attributes;
use crate::fields::Sha256Digest;
use crate::resource::{Kind, RESERVED_PREFIX, Stat, TEMPORARY_SUFFIX};

/// Unfinished uploads of a directory at most.
const MAX_AT_ONCE: usize = 1000;
/// Permission bits of a new file, of which the process's umask takes some.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// The fate of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is refused.
    Keep,
    /// The new one takes its place.
    Replace,
}

/// The fate of the file of a [`Draft`] that is dropped without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is removed.
    Removed,
    /// It stays, unless it is empty.
    Bytes,
    /// It stays.
    Kept,
}

/// Why a whole file did not get its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// Another file has the name and is to stay.
    #[error("there is a file of this name already; replace it explicitly, or choose another name")]
    Exists,
    /// The content under the name is not what was written.
    #[error("another transfer or program wrote to the file meanwhile; transfer it again")]
    Changed,
    /// The name is that of something that is no file and is to stay.
    #[error("the name is that of a device, a socket or a pipe, which no file replaces")]
    Special,
    /// A failure of the file system.
    #[error(transparent)]
    Storage(#[from] io::Error),
}

/// True where a temporary name cannot be opened, and another one may be.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    let others = [Errno::ACCESS, Errno::PERM];
    let no_files = [Errno::LOOP, Errno::ISDIR, Errno::NXIO, Errno::NODEV];
    let taken = |errno| others.contains(&errno) || no_files.contains(&errno);
    error.kind() == ErrorKind::InvalidInput || Errno::from_io_error(error).is_some_and(taken)
}

/// Creates a temporary file, or opens the one that lies there; `None` if that went away meanwhile.
///
/// Others may create files in a shared directory. What they own, or have linked elsewhere, would be
/// theirs to read and to write under its final name too, so that it is refused.
fn open_temporary(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match openat(directory, name, flags | OFlags::CREATE | OFlags::EXCL, MODE) {
        Err(Errno::EXIST) => {}
        created => return Ok(Some(File::from(created?))),
    }
    let file = match openat(directory, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?),
    };
    let (found, within) = (fstat(&file)?, fstat(directory)?);
    let refused = |why| Err(io::Error::new(ErrorKind::InvalidInput, why));
    if stat_of(&found).kind != Kind::File {
        return refused("a temporary file's name is that of a device, a socket or a pipe");
    }
    // The directory's owner can replace any file in it.
    let trusted = [rustix::process::geteuid().as_raw(), within.st_uid];
    if found.st_nlink > 1 || !trusted.contains(&found.st_uid) {
        return refused("a temporary file's name is that of another user's file");
    }
    Ok(Some(file))
}

/// A file under a temporary name that this value owns.
#[derive(Debug)]
pub struct Draft {
    directory: Arc<OwnedFd>,
    file: Arc<File>,
    temporary: Vec<u8>,
    /// The file has its temporary name.
    owned: bool,
    dropped: Dropped,
    attributes: Attributes,
    /// Another temporary name, which goes with the file where that is removed.
    companion: Option<Vec<u8>>,
}

/// A file that has got its name.
#[derive(Debug)]
#[must_use = "the name reaches the disk once it is verified"]
pub struct Placed {
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
}

impl Draft {
    /// A new file in `directory` under the first temporary name that no transfer holds.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn fresh(directory: &Arc<OwnedFd>) -> io::Result<Self> {
        let mut refused = None;
        for number in 0..MAX_AT_ONCE {
            let number = number.to_string();
            let name = [RESERVED_PREFIX, number.as_bytes(), TEMPORARY_SUFFIX].concat();
            match Self::claim(directory, name, Dropped::Removed) {
                Ok(Some(draft)) => {
                    // A process that was killed may have left bytes.
                    draft.file.set_len(0)?;
                    return Ok(draft);
                }
                Ok(None) => {}
                // The name is another user's, or no file's.
                Err(error) if is_taken(&error) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| {
            io::Error::other(
                "the directory has 1000 unfinished files; try again when some are finished",
            )
        }))
    }

    /// The file of this temporary name with what it has, to go on with; `None` while another
    /// transfer holds it.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn resume(directory: &Arc<OwnedFd>, temporary: Vec<u8>) -> io::Result<Option<Self>> {
        Self::claim(directory, temporary, Dropped::Bytes)
    }

    fn claim(
        directory: &Arc<OwnedFd>,
        temporary: Vec<u8>,
        dropped: Dropped,
    ) -> io::Result<Option<Self>> {
        loop {
            let Some(file) = open_temporary(directory.as_fd(), &temporary)? else {
                continue;
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let ours = stat_of(&fstat(&file)?);
            let there = statat(
                directory.as_fd(),
                temporary.as_slice(),
                AtFlags::SYMLINK_NOFOLLOW,
            );
            match there.map(|there| stat_of(&there)) {
                Ok(there) if (there.device, there.inode) == (ours.device, ours.inode) => {
                    return Ok(Some(Self {
                        directory: Arc::clone(directory),
                        file: Arc::new(file),
                        temporary,
                        owned: true,
                        dropped,
                        attributes: Attributes::default(),
                        companion: None,
                    }));
                }
                // Its owner renamed or removed it between this process's open and lock.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The file of this temporary name goes where this one is removed.
    pub fn set_companion(&mut self, temporary: Vec<u8>) {
        self.companion = Some(temporary);
    }

    /// Sets the fate of the file if this value is dropped.
    pub const fn set_dropped(&mut self, dropped: Dropped) {
        self.dropped = dropped;
    }

    /// The file gets these attributes with its name.
    pub const fn set_attributes(&mut self, attributes: Attributes) {
        self.attributes = attributes;
    }

    /// Gives a whole file its name, on disk too, and reads back what lies under the name then. It
    /// blocks as long as the disk takes.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn keep(
        self,
        name: &[u8],
        digest: &Sha256Digest,
        existing: Existing,
    ) -> Result<Stat, KeepError> {
        self.file.sync_all()?;
        self.place(name, existing)?.verify(digest)
    }

    /// The same for a file of which some bytes were not read yet: they are read back before it gets
    /// its name, and a file that is not as it should be is removed.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn keep_read(
        mut self,
        name: &[u8],
        digest: &Sha256Digest,
        existing: Existing,
    ) -> Result<(), KeepError> {
        if hash_file(&self.file, &AtomicBool::new(false))? != *digest {
            self.remove()?;
            return Err(KeepError::Changed);
        }
        self.file.sync_all()?;
        let directory = Arc::clone(&self.directory);
        let _ = self.place(name, existing)?;
        rustix::fs::fsync(&directory).map_err(io::Error::from)?;
        Ok(())
    }

    /// Gives a file that is on disk its name.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn place(mut self, name: &[u8], existing: Existing) -> Result<Placed, KeepError> {
        self.rename(name, existing)?;
        self.owned = false;
        self.remove_companion();
        Ok(Placed {
            directory: Arc::clone(&self.directory),
            name: name.to_vec(),
        })
    }

    fn rename(&self, name: &[u8], existing: Existing) -> Result<(), KeepError> {
        let directory = self.directory.as_fd();
        let from = self.temporary.as_slice();
        let failed = |error| match error {
            Errno::EXIST => KeepError::Exists,
            error => KeepError::Storage(error.into()),
        };
        self.attributes.set(&*self.file)?;
        if existing == Existing::Replace {
            let before = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let before = before.map(|before| (stat_of(&before).kind, before.st_mode));
            if let Ok((Kind::Special, _)) = before {
                return Err(KeepError::Special);
            }
            // The new file has the permission bits of the one that it replaces.
            if let Ok((Kind::File, mode)) = before
                && self.attributes.mode.is_none()
            {
                let bits = |mode| Mode::from_raw_mode(mode) & Mode::from_raw_mode(0o777);
                let own = fstat(&*self.file).map_err(failed)?.st_mode;
                // A file system that keeps no modes has one for all, and may refuse to set it.
                if bits(own) != bits(mode) {
                    rustix::fs::fchmod(&*self.file, bits(mode)).map_err(failed)?;
                }
            }
        }
        if existing == Existing::Replace {
            return renameat(directory, from, directory, name).map_err(failed);
        }
        match renameat_with(directory, from, directory, name, RenameFlags::NOREPLACE) {
            // A file system without that flag: a second name is never made over a first one.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(directory, from, directory, name, AtFlags::empty()).map_err(failed)?;
                unlinkat(directory, from, AtFlags::empty()).map_err(failed)
            }
            renamed => renamed.map_err(failed),
        }
    }

    /// Ends the transfer: true if the file stays.
    #[must_use]
    pub fn end(mut self) -> bool {
        self.settle()
    }

    /// Removes the file where it is not to stay, as far as that goes.
    fn settle(&mut self) -> bool {
        let stays = match self.dropped {
            Dropped::Removed => false,
            Dropped::Bytes => {
                let metadata = self.file.metadata();
                !metadata.is_ok_and(|metadata| metadata.len() == 0)
            }
            Dropped::Kept => true,
        };
        if self.owned && !stays {
            // A file that cannot be removed keeps its temporary name, which no client sees.
            let _ = self.remove();
        }
        self.owned = false;
        stays
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Those of removing.
    pub fn discard(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove_companion(&self) {
        if let Some(companion) = &self.companion {
            // Most often there is none.
            let _ = unlinkat(&self.directory, companion.as_slice(), AtFlags::empty());
        }
    }

    fn remove(&mut self) -> io::Result<()> {
        self.owned = false;
        self.remove_companion();
        Ok(unlinkat(
            self.directory.as_fd(),
            self.temporary.as_slice(),
            AtFlags::empty(),
        )?)
    }
}

impl Placed {
    /// Brings the name to the disk, and reads back what lies under it.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn verify(self, digest: &Sha256Digest) -> Result<Stat, KeepError> {
        rustix::fs::fsync(&self.directory).map_err(io::Error::from)?;
        self.check(digest)
    }

    /// Reads back what lies under the name. The name may not be on the disk yet.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn check(self, digest: &Sha256Digest) -> Result<Stat, KeepError> {
        let directory = self.directory.as_fd();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let there = openat(directory, self.name.as_slice(), flags, Mode::empty());
        let there = File::from(there.map_err(io::Error::from)?);
        let stat = stat_of(&fstat(&there).map_err(io::Error::from)?);
        let hash = match stat.kind {
            Kind::File => hash_file(&there, &AtomicBool::new(false))?,
            _ => return Err(KeepError::Changed),
        };
        match hash == *digest {
            true => Ok(stat),
            false => Err(KeepError::Changed),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = self.settle();
    }
}

#[cfg(test)]
mod tests;
