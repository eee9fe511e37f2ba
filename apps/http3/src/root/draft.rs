//! Files with temporary names, which are renamed when they are complete.
//!
//! The owner of a temporary file holds its lock (flock(2)), so that no other process or task
//! writes, renames or removes it. The lock is released when the process ends, so that another
//! process can take over the file.

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

use super::tree::Attributes;
use super::{hash_file, open_file, stat_of};
use crate::fields::Sha256Digest;
use crate::resource::{Kind, RESERVED_PREFIX, Stat, TEMPORARY_SUFFIX};

/// Maximum number of unfinished uploads in a directory.
const MAX_AT_ONCE: usize = 1000;
/// Permission bits of a new file, before the process's umask is applied.
const MODE: Mode = Mode::from_raw_mode(0o666);

/// How to treat an existing file with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it and reject the new file.
    Keep,
    /// Replace it.
    Replace,
}

/// How to treat the file of a [`Draft`] that is dropped before it is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The file is removed.
    Removed,
    /// The file is kept, unless it is empty.
    Bytes,
    /// The file is kept.
    Kept,
}

/// The reason why a complete file was not renamed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeepError {
    /// Another file has the name and must be kept.
    #[error("there is a file of this name already; replace it explicitly, or choose another name")]
    Exists,
    /// The content under the name differs from the written one.
    #[error("another transfer or program wrote to the file meanwhile; transfer it again")]
    Changed,
    /// The name belongs to something other than a file, which must be kept.
    #[error("the name is that of a device, a socket or a pipe, which no file replaces")]
    Special,
    /// A file system error.
    #[error(transparent)]
    Storage(#[from] io::Error),
}

/// Returns true if a temporary name can't be opened but another one might be.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    let others = [Errno::ACCESS, Errno::PERM];
    let no_files = [Errno::LOOP, Errno::ISDIR, Errno::NXIO, Errno::NODEV];
    let taken = |errno| others.contains(&errno) || no_files.contains(&errno);
    error.kind() == ErrorKind::InvalidInput || Errno::from_io_error(error).is_some_and(taken)
}

/// Creates a temporary file, or opens an existing file. Returns `None` if that file has disappeared
/// in the meantime.
///
/// In a shared directory, others can create files. If they own a file or have linked it
/// elsewhere, they could read and write it under its final name too, so it is rejected.
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
    // The directory's owner can replace any file in it anyway.
    let trusted = [rustix::process::geteuid().as_raw(), within.st_uid];
    if found.st_nlink > 1 || !trusted.contains(&found.st_uid) {
        return refused("a temporary file's name is that of another user's file");
    }
    Ok(Some(file))
}

/// A file with a temporary name, owned by this value.
#[derive(Debug)]
pub struct Draft {
    directory: Arc<OwnedFd>,
    file: Arc<File>,
    temporary: Vec<u8>,
    /// Whether the file still has its temporary name.
    owned: bool,
    dropped: Dropped,
    attributes: Attributes,
    /// Another temporary file, which is removed together with this one.
    companion: Option<Vec<u8>>,
}

/// A file that has been renamed to its final name.
#[derive(Debug)]
#[must_use = "the name reaches the disk once it is verified"]
pub struct Placed {
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
}

impl Draft {
    /// Creates a file in `directory` under the first temporary name that no transfer holds.
    ///
    /// # Errors
    /// Fails if the file can't be created.
    pub fn fresh(directory: &Arc<OwnedFd>) -> io::Result<Self> {
        let mut refused = None;
        for number in 0..MAX_AT_ONCE {
            let number = number.to_string();
            let name = [RESERVED_PREFIX, number.as_bytes(), TEMPORARY_SUFFIX].concat();
            match Self::claim(directory, name, Dropped::Removed) {
                Ok(Some(draft)) => {
                    // A killed process may have left bytes.
                    draft.file.set_len(0)?;
                    return Ok(draft);
                }
                Ok(None) => {}
                // The name belongs to another user or isn't a file's.
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

    /// Opens the file with this temporary name, keeping its content in order to resume. Returns
    /// `None` while another transfer holds it.
    ///
    /// # Errors
    /// Fails if the file can't be opened.
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
                // Its owner renamed or removed it after this process opened it.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the open file.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Sets the temporary file that is removed together with this one.
    pub fn set_companion(&mut self, temporary: Vec<u8>) {
        self.companion = Some(temporary);
    }

    /// Sets whether the file is kept if this value is dropped.
    pub const fn set_dropped(&mut self, dropped: Dropped) {
        self.dropped = dropped;
    }

    /// Sets the attributes that the file gets when it is renamed.
    pub const fn set_attributes(&mut self, attributes: Attributes) {
        self.attributes = attributes;
    }

    /// Syncs and renames a complete file, then reads it back under its final name. This blocks
    /// until the disk is done.
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

    /// Does the same for a file whose first bytes were not read yet. It is therefore read before
    /// it is renamed, and removed if its digest differs.
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

    /// Renames a file that is already on disk.
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
            // The new file inherits the permission bits of the file it replaces.
            if let Ok((Kind::File, mode)) = before
                && self.attributes.mode.is_none()
            {
                let bits = |mode| Mode::from_raw_mode(mode) & Mode::from_raw_mode(0o777);
                let own = fstat(&*self.file).map_err(failed)?.st_mode;
                // A file system without modes has one for all files, and may refuse to set it.
                if bits(own) != bits(mode) {
                    rustix::fs::fchmod(&*self.file, bits(mode)).map_err(failed)?;
                }
            }
        }
        if existing == Existing::Replace {
            return renameat(directory, from, directory, name).map_err(failed);
        }
        match renameat_with(directory, from, directory, name, RenameFlags::NOREPLACE) {
            // Without this flag, use a link, which never replaces an existing name.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(directory, from, directory, name, AtFlags::empty()).map_err(failed)?;
                unlinkat(directory, from, AtFlags::empty()).map_err(failed)
            }
            renamed => renamed.map_err(failed),
        }
    }

    /// Ends the transfer. Returns true if the file is kept.
    #[must_use]
    pub fn end(mut self) -> bool {
        self.settle()
    }

    /// Removes the file unless it is to be kept. Failures are ignored.
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
            // If removing fails, the file keeps its temporary name, which clients can't see.
            let _ = self.remove();
        }
        self.owned = false;
        stays
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Fails if the file can't be removed.
    pub fn discard(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove_companion(&self) {
        if let Some(companion) = &self.companion {
            // Usually there is none.
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
    /// Syncs the name to disk and verifies the content.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn verify(self, digest: &Sha256Digest) -> Result<Stat, KeepError> {
        rustix::fs::fsync(&self.directory).map_err(io::Error::from)?;
        self.check(digest)
    }

    /// Verifies the content under the name, which may not be on disk yet.
    ///
    /// # Errors
    /// [`KeepError`].
    pub fn check(self, digest: &Sha256Digest) -> Result<Stat, KeepError> {
        let there = open_file(&self.directory, &self.name).map_err(io::Error::from)?;
        let stat = stat_of(&fstat(&there).map_err(io::Error::from)?);
        let hash = match stat.kind {
            Kind::File => hash_file(&there, &AtomicBool::new(false))?,
            _ => return Err(KeepError::Changed),
        };
        if hash == *digest {
            Ok(stat)
        } else {
            Err(KeepError::Changed)
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
