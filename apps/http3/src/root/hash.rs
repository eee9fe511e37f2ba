//! Reads open files piece by piece, or completely for the SHA-256.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::file_stat;
use crate::fields::Sha256Digest;
use crate::resource::Stat;

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
