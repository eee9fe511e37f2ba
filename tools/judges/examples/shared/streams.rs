//! A common interface to streams of this library and of another stack.

use bytes::Bytes;
use pathmark_driver as driver;

pub(crate) use super::fault::Fault;
use super::theirs;

/// A sending part.
#[derive(Debug)]
pub(crate) enum Sender {
    Ours(driver::SendStream),
    Theirs(theirs::Sender),
}

/// A receiving part.
#[derive(Debug)]
pub(crate) enum Receiver {
    Ours(driver::RecvStream),
    Theirs(theirs::Receiver),
}

impl From<driver::SendStream> for Sender {
    fn from(stream: driver::SendStream) -> Self {
        Self::Ours(stream)
    }
}

impl From<theirs::Sender> for Sender {
    fn from(stream: theirs::Sender) -> Self {
        Self::Theirs(stream)
    }
}

impl From<driver::RecvStream> for Receiver {
    fn from(stream: driver::RecvStream) -> Self {
        Self::Ours(stream)
    }
}

impl From<theirs::Receiver> for Receiver {
    fn from(stream: theirs::Receiver) -> Self {
        Self::Theirs(stream)
    }
}

impl Sender {
    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.write_all(data).await?,
            Self::Theirs(stream) => stream.write_all(data).await?,
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.finish()?,
            Self::Theirs(stream) => stream.finish()?,
        }
        Ok(())
    }

    /// Waits until everything is delivered, as far as the stack can tell.
    pub(crate) async fn stopped(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => {
                stream.stopped().await?;
            }
            Self::Theirs(stream) => stream.stopped().await?,
        }
        Ok(())
    }
}

impl Receiver {
    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        Ok(match self {
            Self::Ours(stream) => stream.read_chunk().await?,
            Self::Theirs(stream) => stream.read_chunk().await?,
        })
    }

    pub(crate) async fn read_to_end(&mut self) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}
