//! Reading open files: piece by piece, or all for the SHA-256.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use crate::fields::Sha256Digest;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// Ends the work of another thread once it is dropped.
#[derive(Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// The flag that the thread reads.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// SHA-256 of the whole file.
///
/// # Errors
/// Those of reading; [`io::ErrorKind::Interrupted`] once `cancelled` is set.
pub fn hash_file(file: &File, cancelled: &AtomicBool) -> io::Result<Sha256Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut position = 0;
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let read = match file.read_at(&mut buffer, position) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        position += read as u64;
    }
}

/// The next bytes of a file before `end`, empty there. A file that ends earlier is an error.
///
/// # Errors
/// Those of reading.
pub fn read_piece(file: &File, from: u64, end: u64) -> io::Result<Bytes> {
    let left = usize::try_from(end.saturating_sub(from)).unwrap_or(PIECE);
    let mut piece = BytesMut::zeroed(left.min(PIECE));
    file.read_exact_at(&mut piece, from)?;
    Ok(piece.freeze())
}
