//! Receiving a file's bytes and checking its hash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{BufMut, BytesMut};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::send::{Hash, SKIP};
use super::source::blocking;

/// Bytes that are collected from the stream while others are written to the disk. A thread that may
/// block is taken for each write only, so that peers that are slow hold none.
const CHUNK: usize = 512 * 1024;
/// Bytes read back from the file at once.
const PART: usize = 256 * 1024;

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
    #[error("the bytes received do not have the sender's SHA-256")]
    WrongHash,
}

/// Receives the bytes from `offset` to `size` into `file`, then the hash, which must be that of all
/// `size` bytes (those before `offset` are read back from the file). `progress` gets each number of
/// bytes received.
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
    let mut writer = Writer {
        file,
        position: 0,
        hasher: Sha256::new(),
    };
    while writer.position < offset {
        writer = blocking(move || writer.read_back(offset))
            .await
            .map_err(ReceiveError::Storage)?;
    }
    writer = blocking(move || writer.cut())
        .await
        .map_err(ReceiveError::Storage)?;
    let mut left = size.saturating_sub(offset);
    let mut failed = None;
    let mut arrived = BytesMut::new();
    let mut empty = BytesMut::new();
    // As long as bytes are to come, or some have come.
    while left > 0 && failed.is_none() || !arrived.is_empty() {
        if arrived.is_empty() {
            match read_some(stream, &mut arrived, left).await {
                Ok(got) => {
                    left -= got;
                    progress(got);
                }
                Err(error) => failed = Some(error),
            }
            continue;
        }
        let full = std::mem::replace(&mut arrived, std::mem::take(&mut empty));
        let mut writing = tokio::task::spawn_blocking(move || writer.write(full));
        let written = loop {
            let room = arrived.len() < CHUNK && left > 0 && failed.is_none();
            tokio::select! {
                written = &mut writing => break written,
                got = read_some(stream, &mut arrived, left), if room => match got {
                    Ok(got) => {
                        left -= got;
                        progress(got);
                    }
                    Err(error) => failed = Some(error),
                },
            }
        };
        (writer, empty) = written
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(ReceiveError::Storage)?;
    }
    if let Some(error) = failed {
        return Err(ReceiveError::Stream(error));
    }
    let hash: Hash = writer.hasher.finalize().into();
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

/// Appends what has come to `arrived`, which holds a chunk at most: the number of bytes, of which
/// `left` are to come. Nothing is lost if it is dropped.
async fn read_some(
    stream: &mut (impl AsyncRead + Unpin),
    arrived: &mut BytesMut,
    left: u64,
) -> io::Result<u64> {
    let room = CHUNK.saturating_sub(arrived.len());
    arrived.reserve(room);
    let most = room.min(usize::try_from(left).unwrap_or(room));
    match stream.read_buf(&mut arrived.limit(most)).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        got => Ok(got as u64),
    }
}

/// A file that is written from its beginning to its end, part by part.
struct Writer {
    file: File,
    position: u64,
    hasher: Sha256,
}

impl Writer {
    /// Hashes some bytes before `offset`, which are there already.
    fn read_back(mut self, offset: u64) -> io::Result<Self> {
        let until = offset.min(self.position + SKIP);
        let mut buffer = vec![0; PART];
        while self.position < until {
            let left = usize::try_from(until - self.position).unwrap_or(PART);
            let part = buffer.get_mut(..PART.min(left)).unwrap_or_default();
            self.file.read_exact_at(part, self.position)?;
            self.hasher.update(&*part);
            self.position += part.len() as u64;
        }
        Ok(self)
    }

    /// Removes what lies behind: it is of an older, broken transfer.
    fn cut(self) -> io::Result<Self> {
        self.file.set_len(self.position)?;
        Ok(self)
    }

    /// Writes and hashes `bytes`; returns their memory.
    fn write(mut self, mut bytes: BytesMut) -> io::Result<(Self, BytesMut)> {
        self.hasher.update(&bytes);
        self.file.write_all_at(&bytes, self.position)?;
        self.position += bytes.len() as u64;
        bytes.clear();
        Ok((self, bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use super::super::send::{hex, send_file};
    use super::super::source::Source;
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    async fn transfer(source: &[u8], there: &[u8]) -> (Result<Hash, ReceiveError>, Vec<u8>) {
        let (offset, size) = (there.len() as u64, source.len() as u64);
        let (mut ours, mut theirs) = tokio::io::duplex(10_000);
        let source = Source::new(file_of(source)).unwrap();
        let sending = send_file(source, offset, &mut ours, |_| ());
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

    /// Slow transfers hold no thread: more of them than there are threads that may block, and one
    /// that is not slow comes through.
    #[test]
    fn transfers_that_stand_still_hold_no_thread() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let source = vec![7; 3 * CHUNK];
            let mut standing = Vec::new();
            for _ in 0..8 {
                let (mut ours, mut theirs) = tokio::io::duplex(1000);
                let source = Source::new(file_of(&source)).unwrap();
                // The receiver reads the first 500 bytes only.
                let sending = tokio::spawn(async move {
                    let _ = send_file(source, 0, &mut ours, |_| ()).await;
                });
                theirs.read_exact(&mut [0; 500]).await.unwrap();
                // The sender writes no more than the beginning.
                let (mut far, mut near) = tokio::io::duplex(1000);
                let receiving = tokio::spawn(async move {
                    let file = tempfile::tempfile().unwrap();
                    let _ = receive_file(file, 0, 1000, &mut near, |_| ()).await;
                });
                far.write_all(&[0; 500]).await.unwrap();
                standing.push((theirs, far, sending, receiving));
            }
            let (result, bytes) = transfer(&source, &[]).await;
            result.unwrap();
            assert!(bytes == source);
            assert!(
                standing
                    .iter()
                    .all(|(_, _, s, r)| !s.is_finished() && !r.is_finished())
            );
        });
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
