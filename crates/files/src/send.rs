//! Sending a file's bytes and its hash.

use std::io::{self, Read};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::source::{SendError, Source, blocking, open_plain};

/// Bytes read from the file at once: one chunk is read while another is sent. A thread that may
/// block is taken for that only, so that peers that are slow hold none.
const CHUNK: usize = 512 * 1024;
/// Bytes hashed at once of a part that is not sent.
pub(super) const SKIP: u64 = 8 * 1024 * 1024;

/// SHA-256 of a whole file.
pub type Hash = [u8; 32];

/// Sends `source` from `offset` to its end, then the hash of all its bytes. `progress` gets each
/// number of bytes handed to the stream.
///
/// # Errors
/// [`SendError`]. The hash is sent only of a file that did not change meanwhile.
pub async fn send_file(
    source: Source,
    offset: u64,
    stream: &mut (impl AsyncWrite + Unpin),
    mut progress: impl FnMut(u64),
) -> Result<Hash, SendError> {
    let mut reader = Reader {
        source,
        position: 0,
        hasher: Sha256::new(),
    };
    while reader.position < offset {
        reader = blocking(move || reader.skip(offset)).await?;
    }
    let mut next = tokio::task::spawn_blocking(move || reader.next());
    loop {
        let (reader, chunk) = next
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error).into()))?;
        if chunk.is_empty() {
            let hash: Hash = reader.hasher.finalize().into();
            stream.write_all(&hash).await.map_err(SendError::Stream)?;
            return Ok(hash);
        }
        next = tokio::task::spawn_blocking(move || reader.next());
        stream.write_all(&chunk).await.map_err(SendError::Stream)?;
        progress(chunk.len() as u64);
    }
}

/// A file that is read from its beginning to its end, part by part.
struct Reader {
    source: Source,
    position: u64,
    hasher: Sha256,
}

impl Reader {
    /// Hashes some bytes before `offset`.
    fn skip(mut self, offset: u64) -> Result<Self, SendError> {
        let until = offset.min(self.position + SKIP);
        while self.position < until {
            self.part(until)?;
        }
        Ok(self)
    }

    /// The next bytes; none at the end of a file that did not change.
    fn next(mut self) -> Result<(Self, Bytes), SendError> {
        let chunk = self.part(self.source.bytes())?;
        if chunk.is_empty() {
            self.source.check()?;
        }
        Ok((self, chunk))
    }

    /// Up to a chunk of the bytes before `until`.
    fn part(&mut self, until: u64) -> Result<Bytes, SendError> {
        let left = until.saturating_sub(self.position);
        let mut chunk = BytesMut::zeroed(CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
        self.source.read(&mut chunk, self.position)?;
        self.hasher.update(&chunk);
        self.position += chunk.len() as u64;
        Ok(chunk.freeze())
    }
}

/// The hash of what lies at `path`.
///
/// # Errors
/// Those of reading.
pub fn hash_file(path: &Path) -> io::Result<Hash> {
    let mut file = open_plain(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(hasher.finalize().into());
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Bytes in hexadecimal, two digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
