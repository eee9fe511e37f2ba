//! Receiving a file's bytes and checking its hash.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::send::{Hash, hash_exactly};

/// Bytes taken from the stream at once.
const CHUNK: usize = 256 * 1024;
/// Chunks that may wait for the disk.
const BEHIND: usize = 8;

/// How a transfer ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The stream failed or ended early.
    #[error("the transfer broke off: {0}")]
    Stream(#[source] io::Error),
    /// The file could not be written.
    #[error("cannot write the file: {0}")]
    Storage(#[source] io::Error),
    /// The bytes do not have the hash that came with them.
    #[error("what arrived does not have the sender's SHA-256")]
    WrongHash,
}

/// Receives the bytes from `offset` to `size` into `file`, then the hash, which must be that of all
/// `size` bytes (those before `offset` are read back from the file). `progress` is told of each
/// number of bytes received.
///
/// # Errors
/// [`ReceiveError`]; what was received stays in the file.
pub async fn receive_file(
    file: File,
    offset: u64,
    size: u64,
    stream: &mut (impl AsyncRead + Unpin),
    mut progress: impl FnMut(u64),
) -> Result<Hash, ReceiveError> {
    let (chunks, queue) = mpsc::channel(BEHIND);
    let writer = tokio::task::spawn_blocking(move || write_chunks(file, offset, queue));
    let mut left = size.saturating_sub(offset);
    let mut failed = None;
    while left > 0 {
        let mut chunk = BytesMut::zeroed(CHUNK.min(usize::try_from(left).unwrap_or(CHUNK)));
        let got = match stream.read(&mut chunk).await {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        match got {
            Ok(got) => {
                chunk.truncate(got);
                left -= got as u64;
                progress(got as u64);
                if chunks.send(chunk.freeze()).await.is_err() {
                    // The writer failed and says so itself.
                    break;
                }
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(chunks);
    let hash = writer
        .await
        .map_err(|error| ReceiveError::Storage(io::Error::other(error)))?
        .map_err(ReceiveError::Storage)?;
    if let Some(error) = failed {
        return Err(ReceiveError::Stream(error));
    }
    let mut expected = Hash::default();
    stream
        .read_exact(&mut expected)
        .await
        .map_err(ReceiveError::Stream)?;
    if hash == expected {
        Ok(hash)
    } else {
        Err(ReceiveError::WrongHash)
    }
}

fn write_chunks(mut file: File, offset: u64, mut queue: mpsc::Receiver<Bytes>) -> io::Result<Hash> {
    let mut hasher = Sha256::new();
    file.seek(SeekFrom::Start(0))?;
    hash_exactly(&mut file, offset, &mut hasher)?;
    // What lies behind the offset is of an older, broken transfer.
    file.set_len(offset)?;
    while let Some(chunk) = queue.blocking_recv() {
        hasher.update(&chunk);
        file.write_all(&chunk)?;
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::send::{hex, send_file};
    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    async fn transfer(source: &[u8], there: &[u8]) -> (Result<Hash, ReceiveError>, Vec<u8>) {
        let (offset, size) = (there.len() as u64, source.len() as u64);
        let (mut ours, mut theirs) = tokio::io::duplex(10_000);
        let sending = send_file(file_of(source), offset, size, &mut ours, |_| ());
        let mut target = file_of(there);
        let file = target.try_clone().unwrap();
        let receiving = receive_file(file, offset, size, &mut theirs, |_| ());
        let (sent, received) = tokio::join!(sending, receiving);
        sent.unwrap();
        let mut bytes = Vec::new();
        target.seek(SeekFrom::Start(0)).unwrap();
        target.read_to_end(&mut bytes).unwrap();
        (received, bytes)
    }

    #[tokio::test]
    async fn a_file_arrives_whole_also_when_resumed() {
        let source: Vec<u8> = (0..1_000_003u32)
            .map(|i| (i.wrapping_mul(i) >> 7) as u8)
            .collect();
        for offset in [0, 1, 500_000, source.len()] {
            let (result, bytes) = transfer(&source, &source[..offset]).await;
            let hash = result.unwrap();
            assert!(bytes == source, "offset {offset}");
            assert_eq!(hash[..], Sha256::digest(&source)[..]);
        }
        // SHA-256 of the empty message, FIPS 180-4.
        let (result, _) = transfer(b"", b"").await;
        assert!(hex(&result.unwrap()).starts_with("e3b0c44298fc1c14"));
    }

    #[tokio::test]
    async fn a_part_of_another_file_is_noticed() {
        let (result, _) = transfer(b"a file of today", b"a file of yest").await;
        assert!(matches!(result, Err(ReceiveError::WrongHash)));
    }

    #[tokio::test]
    async fn a_stream_that_ends_early_keeps_what_came() {
        let mut target = tempfile::tempfile().unwrap();
        let file = target.try_clone().unwrap();
        let result = receive_file(file, 0, 10, &mut b"four".as_slice(), |_| ()).await;
        assert!(matches!(result, Err(ReceiveError::Stream(_))));
        let mut bytes = Vec::new();
        target.seek(SeekFrom::Start(0)).unwrap();
        target.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"four");
    }
}
