//! The directory that an origin serves. Names are resolved to open files, but never to files
//! outside the directory.

mod draft;
mod tree;
mod upload;
mod walk;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use rustix::fs::{FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::fields::Sha256Digest;
use crate::resource::{Kind, Stat, Time};

pub use draft::{Draft, Dropped, Existing, KeepError, Placed};
pub use tree::{Attributes, Entries, Tree, look, make_link, set_bits};
pub use upload::{Lying, Note, Upload, find_uploads};
pub use walk::{Found, Root, RootError, names_stat, open_directory};

pub(crate) use draft::is_taken;
pub(crate) use tree::target_of;

/// Returns the metadata of an open file.
///
/// # Errors
/// Fails if the metadata can't be read.
pub fn file_stat(file: &File) -> io::Result<Stat> {
    Ok(stat_of(&rustix::fs::fstat(file)?))
}

/// Size in bytes of the blocks in which `st_blocks` counts.
const BLOCK: u64 = 512;

/// Converts metadata to this crate's type.
pub(crate) fn stat_of(stat: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    // Nanoseconds are below 10^9, and seconds are signed regardless of their type.
    let time = |seconds: i64, nanoseconds: u64| Time {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    };
    Stat {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
        device: stat.st_dev,
        inode: stat.st_ino,
        taken: u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(BLOCK),
    }
}

/// Bytes to read at once.
const PIECE: usize = 256 * 1024;

/// Cancels the work of another thread when dropped.
#[derive(Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Returns the flag that the thread should check.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens a file of a directory for reading, but follows no link and doesn't wait for a pipe.
pub(crate) fn open_file(directory: impl AsFd, name: &[u8]) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// Returns the SHA-256 of a whole file.
///
/// # Errors
/// Fails if the file can't be read, with [`io::ErrorKind::Interrupted`] once `cancelled` is set.
pub fn hash_file(file: &File, cancelled: &AtomicBool) -> io::Result<Sha256Digest> {
    let mut hashing = Hashing::default();
    while !hashing.advance(file, u64::MAX, cancelled)? {}
    Ok(hashing.hasher.finalize().into())
}

/// The state of hashing a file.
#[derive(Debug, Default)]
pub(crate) struct Hashing {
    pub(crate) hasher: Sha256,
    position: u64,
}

impl Hashing {
    /// Hashes up to `bytes` more. Returns true at the end of the file.
    pub(crate) fn advance(
        &mut self,
        file: &File,
        bytes: u64,
        cancelled: &AtomicBool,
    ) -> io::Result<bool> {
        let mut buffer = vec![0; PIECE];
        let end = self.position.saturating_add(bytes);
        while self.position < end {
            if cancelled.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let read = match file.read_at(&mut buffer, self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Ok(true);
            }
            self.hasher.update(buffer.get(..read).unwrap_or_default());
            self.position += read as u64;
        }
        Ok(false)
    }
}

/// Returns true if an open file still has the same content as when its metadata was `before`.
/// Links, modes and renames also change metadata without changing the content. In that case the
/// SHA-256 decides, or the modification time if the SHA-256 is not known.
///
/// # Errors
/// As for [`hash_file`].
pub fn still_has(
    file: &File,
    before: &Stat,
    digest: Option<&Sha256Digest>,
    cancelled: &AtomicBool,
) -> io::Result<bool> {
    let after = file_stat(file)?;
    if after.is_same_version(before) {
        return Ok(true);
    }
    let is_same = match digest {
        _ if after.size != before.size => false,
        None => after.modified == before.modified,
        Some(digest) => hash_file(file, cancelled)? == *digest,
    };
    Ok(is_same)
}

/// Reads the next piece of a file before `end`, which is empty at `end`. A file that ends
/// earlier is an error.
///
/// # Errors
/// Fails if the file can't be read.
pub fn read_piece(file: &File, from: u64, end: u64) -> io::Result<Bytes> {
    let left = usize::try_from(end.saturating_sub(from)).unwrap_or(PIECE);
    let mut piece = BytesMut::zeroed(left.min(PIECE));
    file.read_exact_at(&mut piece, from)?;
    Ok(piece.freeze())
}
