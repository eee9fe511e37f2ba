//! Reads a file while its bytes are sent.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use crate::root::read_piece;

/// Bytes of a file that have yet to be read.
pub(crate) struct Reader {
    pub(crate) file: Arc<File>,
    pub(crate) position: u64,
    pub(crate) end: u64,
    /// Hashes the bytes that are read.
    pub(crate) hasher: Option<Sha256>,
}

impl Reader {
    /// Reads and hashes a piece on a blocking thread. The piece is empty at the end.
    pub(crate) fn next(mut self) -> JoinHandle<io::Result<(Self, Bytes)>> {
        tokio::task::spawn_blocking(move || {
            let piece = read_piece(&self.file, self.position, self.end)?;
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&piece);
            }
            self.position += piece.len() as u64;
            Ok((self, piece))
        })
    }
}
