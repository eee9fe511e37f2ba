//! Sending a file's bytes and its hash.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Bytes read from the file at once.
const CHUNK: usize = 256 * 1024;
/// Chunks read ahead of the stream.
const AHEAD: usize = 8;

/// SHA-256 of a whole file.
pub type Hash = [u8; 32];

/// Sends `file` from `offset` to its end at `size`, then the hash of all `size` bytes. `progress`
/// is told of each number of bytes handed to the stream.
///
/// # Errors
/// Those of the file and the stream; [`io::ErrorKind::UnexpectedEof`] if the file became shorter.
pub async fn send_file(
    file: File,
    offset: u64,
    size: u64,
    stream: &mut (impl AsyncWrite + Unpin),
    mut progress: impl FnMut(u64),
) -> io::Result<Hash> {
    let (chunks, mut read) = mpsc::channel(AHEAD);
    let reader = tokio::task::spawn_blocking(move || read_chunks(file, offset, size, &chunks));
    while let Some(chunk) = read.recv().await {
        let chunk: Bytes = chunk;
        stream.write_all(&chunk).await?;
        progress(chunk.len() as u64);
    }
    let hash = reader.await.map_err(io::Error::other)??;
    stream.write_all(&hash).await?;
    Ok(hash)
}

fn read_chunks(
    mut file: File,
    offset: u64,
    size: u64,
    chunks: &mpsc::Sender<Bytes>,
) -> io::Result<Hash> {
    let mut hasher = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    hash_exactly(&mut file, offset, &mut hasher)?;
    let mut left = size.saturating_sub(offset);
    while left > 0 {
        let mut chunk = BytesMut::zeroed(CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
        file.read_exact(&mut chunk)?;
        hasher.update(&chunk);
        left -= chunk.len() as u64;
        if chunks.blocking_send(chunk.freeze()).is_err() {
            // The stream failed and says so itself.
            break;
        }
    }
    Ok(hasher.finalize().into())
}

/// Feeds the next `count` bytes of `file` to `hasher`.
pub(super) fn hash_exactly(
    file: &mut impl Read,
    count: u64,
    hasher: &mut Sha256,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut left = count;
    while left > 0 {
        let wanted = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
        let part = buffer.get_mut(..wanted).unwrap_or(&mut []);
        file.read_exact(part)?;
        hasher.update(&*part);
        left -= wanted as u64;
    }
    Ok(())
}

/// The hash of what lies at `path`.
///
/// # Errors
/// Those of reading.
pub fn hash_file(path: &std::path::Path) -> io::Result<Hash> {
    let mut file = File::open(path)?;
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
