//! A file that is written while more of its content arrives.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::BytesMut;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

/// Bytes that are collected while others are written.
const PIECE: usize = 512 * 1024;

/// A file with the bytes written so far.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) file: Arc<File>,
    pub(crate) hasher: Sha256,
    pub(crate) position: u64,
    /// The hasher sees what is written.
    hashes: bool,
}

impl Writer {
    /// Writes from the beginning of `file` on.
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self {
            file,
            hasher: Sha256::new(),
            position: 0,
            hashes: true,
        }
    }

    /// Writes from `position` on, where `file` ends, and hashes nothing.
    pub(crate) fn after(file: Arc<File>, position: u64) -> Self {
        Self {
            position,
            hashes: false,
            ..Self::new(file)
        }
    }

    /// Hashes and writes bytes on a thread that may block; returns their memory.
    fn write(mut self, mut bytes: BytesMut) -> JoinHandle<io::Result<(Self, BytesMut)>> {
        tokio::task::spawn_blocking(move || {
            if self.hashes {
                self.hasher.update(&bytes);
            }
            self.file.write_all_at(&bytes, self.position)?;
            self.position += bytes.len() as u64;
            bytes.clear();
            Ok((self, bytes))
        })
    }
}

/// Takes content in the order of the file.
#[derive(Debug)]
pub(crate) struct Sink {
    state: State,
    arrived: BytesMut,
}

#[derive(Debug)]
enum State {
    /// Nothing is written now.
    Idle(Writer, BytesMut),
    Writing(JoinHandle<io::Result<(Writer, BytesMut)>>),
    /// Writing failed.
    Failed,
}

impl Sink {
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            state: State::Idle(writer, BytesMut::new()),
            arrived: BytesMut::new(),
        }
    }

    /// Takes bytes. They are written at once, unless others are being written; then this waits only
    /// once a piece is collected.
    pub(crate) async fn take(&mut self, data: &[u8]) -> io::Result<()> {
        self.arrived.extend_from_slice(data);
        if let State::Writing(writing) = &self.state
            && !writing.is_finished()
            && self.arrived.len() < PIECE
        {
            return Ok(());
        }
        let (writer, empty) = self.settle().await?;
        let full = std::mem::replace(&mut self.arrived, empty);
        self.state = State::Writing(writer.write(full));
        Ok(())
    }

    /// Writes what is collected; the whole file's hasher and position.
    pub(crate) async fn finish(mut self) -> io::Result<Writer> {
        let (writer, _) = self.settle().await?;
        if self.arrived.is_empty() {
            return Ok(writer);
        }
        let written = writer.write(self.arrived).await;
        let (writer, _) = written.map_err(io::Error::other)??;
        Ok(writer)
    }

    /// Waits for the write under way.
    async fn settle(&mut self) -> io::Result<(Writer, BytesMut)> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(writer, empty) => Ok((writer, empty)),
            State::Writing(writing) => writing.await.map_err(io::Error::other)?,
            State::Failed => Err(io::Error::other("an earlier write failed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn content_is_written_in_order_whatever_its_pieces() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 3) as u8).collect();
        for length in [1000, 70_000, 600_000, 3_000_000] {
            let file = Arc::new(tempfile::tempfile().unwrap());
            let mut sink = Sink::new(Writer::new(Arc::clone(&file)));
            for piece in content.chunks(length) {
                sink.take(piece).await.unwrap();
            }
            let writer = sink.finish().await.unwrap();
            assert_eq!(writer.position, 3_000_000);
            assert_eq!(writer.hasher.finalize(), Sha256::digest(&content));
            let mut read = vec![0; content.len()];
            file.read_exact_at(&mut read, 0).unwrap();
            assert!(read == content);
        }
    }

    #[tokio::test]
    async fn a_failure_stays_one() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Sink::new(Writer::new(Arc::new(full)));
        let mut failed = 0;
        for _ in 0..3 {
            failed += usize::from(sink.take(&[0; PIECE]).await.is_err());
        }
        assert!(failed >= 1 && sink.finish().await.is_err());
    }
}
