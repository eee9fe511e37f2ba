//! Reads a file while its bytes are sent, and writes one while more of its content arrives, both
//! on the runtime's blocking threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use crate::root::read_piece;

/// Maximum number of bytes to collect while others are being written.
const PIECE: usize = 512 * 1024;

/// The block size of most file systems in bytes. Blocks of zeros are not written, so that they
/// become holes.
const BLOCK: usize = 4096;
/// Bytes to compare at once.
const LINE: usize = 64;

/// Appends bytes to a file that has `position` bytes. Blocks of zeros become holes, and so do
/// partial blocks at either end.
pub(crate) fn append_sparsely(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    let to_block = position.next_multiple_of(BLOCK as u64) - position;
    // Less than the length of a block.
    let first = usize::try_from(to_block).unwrap_or(0).min(bytes.len());
    let write = |data: std::ops::Range<usize>| match bytes.get(data.clone()) {
        Some(piece) if !piece.is_empty() => file.write_all_at(piece, position + data.start as u64),
        _ => Ok(()),
    };
    let (head, rest) = bytes.split_at(first);
    let (mut data, mut at) = (0..0, 0);
    for block in std::iter::once(head).chain(rest.chunks(BLOCK)) {
        let end = at + block.len();
        if is_zero(block) {
            write(data)?;
            data = end..end;
        } else {
            data.end = end;
        }
        at = end;
    }
    let ends_in_hole = data.is_empty() && !bytes.is_empty();
    write(data)?;
    if ends_in_hole {
        file.set_len(position + bytes.len() as u64)
    } else {
        Ok(())
    }
}

fn is_zero(block: &[u8]) -> bool {
    let mut lines = block.chunks(LINE);
    lines.all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
}

/// A file and the hash of the bytes written so far.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) file: Arc<File>,
    pub(crate) hasher: Sha256,
    pub(crate) position: u64,
    /// Whether to hash the written bytes.
    hashes: bool,
}

impl Writer {
    /// Writes from the beginning of `file`, which must be empty.
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self {
            file,
            hasher: Sha256::new(),
            position: 0,
            hashes: true,
        }
    }

    /// Writes from `position`, which is the end of `file`. The hasher has processed all bytes
    /// before.
    pub(crate) fn from(file: Arc<File>, position: u64, hasher: Sha256) -> Self {
        Self {
            position,
            hasher,
            ..Self::new(file)
        }
    }

    /// Writes from `position`, which is the end of `file`, without hashing.
    pub(crate) fn after(file: Arc<File>, position: u64) -> Self {
        Self {
            position,
            hashes: false,
            ..Self::new(file)
        }
    }

    /// Hashes and writes bytes on a blocking thread. Returns their buffer for reuse.
    fn write(mut self, mut bytes: BytesMut) -> JoinHandle<io::Result<(Self, BytesMut)>> {
        tokio::task::spawn_blocking(move || {
            if self.hashes {
                self.hasher.update(&bytes);
            }
            append_sparsely(&self.file, &bytes, self.position)?;
            self.position += bytes.len() as u64;
            bytes.clear();
            Ok((self, bytes))
        })
    }
}

/// Accepts content in the order of the file.
pub(crate) struct Sink {
    state: State,
    arrived: BytesMut,
}

#[derive(Debug)]
enum State {
    /// Nothing is being written.
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

    /// Accepts bytes. They are written immediately, unless others are being written. In that
    /// case this only waits when a piece has been collected.
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

    /// Waits for the current write. Returns the number of bytes written so far, and their hasher.
    pub(crate) async fn progress(&mut self) -> io::Result<(u64, Sha256)> {
        let (writer, empty) = self.settle().await?;
        let progress = (writer.position, writer.hasher.clone());
        self.state = State::Idle(writer, empty);
        Ok(progress)
    }

    /// Writes the collected bytes. Returns the whole file's hasher and position.
    pub(crate) async fn finish(mut self) -> io::Result<Writer> {
        let (writer, _) = self.settle().await?;
        if self.arrived.is_empty() {
            return Ok(writer);
        }
        let written = writer.write(self.arrived).await;
        let (writer, _) = written.map_err(io::Error::other)??;
        Ok(writer)
    }

    /// Waits for the current write.
    async fn settle(&mut self) -> io::Result<(Writer, BytesMut)> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Idle(writer, empty) => Ok((writer, empty)),
            State::Writing(writing) => writing.await.map_err(io::Error::other)?,
            State::Failed => Err(io::Error::other("an earlier write failed")),
        }
    }
}

/// Bytes of a file that have yet to be read.
pub(crate) struct Reader {
    pub(crate) file: Arc<File>,
    pub(crate) position: u64,
    pub(crate) end: u64,
    /// Hashes the bytes that are read.
    pub(crate) hasher: Option<Sha256>,
}

impl Reader {
    /// Reads and hashes the first `end` bytes.
    pub(crate) fn hashing(file: &Arc<File>, end: u64) -> Self {
        Self {
            file: Arc::clone(file),
            position: 0,
            end,
            hasher: Some(Sha256::new()),
        }
    }

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

/// Runs `work` on a blocking thread.
///
/// # Errors
/// Fails if the work panics, or if the runtime shuts down before it begins.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

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
    async fn blocks_of_zeros_become_holes() {
        use std::os::unix::fs::MetadataExt;
        let mut content = vec![0; 5_000_000];
        for place in [0, 1_000_000, 1_003_000, 3_999_999] {
            content[place] = 1;
        }
        for (length, end) in [(1000, 1), (70_001, 0), (600_000, 0), (5_000_000, 1)] {
            *content.last_mut().unwrap() = end;
            let file = Arc::new(tempfile::tempfile().unwrap());
            let mut sink = Sink::new(Writer::new(Arc::clone(&file)));
            for piece in content.chunks(length) {
                sink.take(piece).await.unwrap();
            }
            sink.finish().await.unwrap();
            let mut read = Vec::new();
            std::io::Seek::rewind(&mut &*file).unwrap();
            (&*file).read_to_end(&mut read).unwrap();
            assert!(read == content, "{length}");
            // Both in memory and on disk, a file system that supports holes allocates few blocks.
            let sparse = tempfile::tempfile().unwrap();
            sparse.set_len(1_000_000).unwrap();
            if sparse.metadata().unwrap().blocks() == 0 {
                let allocated = file.metadata().unwrap().blocks() * 512;
                assert!(allocated < 1_000_000, "{allocated} bytes");
            }
        }
    }

    /// Pieces of a slow path, which aren't aligned with blocks.
    #[test]
    fn small_pieces_of_zeros_are_holes() {
        use std::os::unix::fs::MetadataExt;
        let (file, sparse) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        sparse.set_len(1_000_000).unwrap();
        let piece = [0; 1000];
        for number in 0..1000 {
            append_sparsely(&file, &piece, number * 1000).unwrap();
        }
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.len(), 1_000_000);
        assert_eq!(metadata.blocks(), sparse.metadata().unwrap().blocks());
    }

    #[test]
    fn an_end_within_a_block_is_written() {
        for (before, bytes) in [
            (0, 0),
            (0, 4096),
            (0, 4097),
            (5, 4091),
            (5, 8187),
            (4096, 10),
        ] {
            let file = tempfile::tempfile().unwrap();
            file.set_len(before).unwrap();
            append_sparsely(&file, &vec![0; bytes], before).unwrap();
            let length = file.metadata().unwrap().len();
            assert_eq!(length, before + bytes as u64, "{before} {bytes}");
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
