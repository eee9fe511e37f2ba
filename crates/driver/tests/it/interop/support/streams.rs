//! A common interface to streams of either implementation.

use std::io;

use bytes::Bytes;
use pathmark_driver as driver;
use quinn::VarInt;
use tokio::io::AsyncReadExt;

use super::peers::End;

/// Why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The reader stopped it with this code.
    Stopped(u64),
    /// The writer reset it with this code.
    Reset(u64),
    /// It had ended before.
    Closed,
    Lost(End),
}

/// A sending part.
#[derive(Debug)]
pub(crate) enum Sender {
    Ours(driver::SendStream),
    Quinn(quinn::SendStream),
}

/// A receiving part.
#[derive(Debug)]
pub(crate) enum Receiver {
    Ours(driver::RecvStream),
    Quinn(quinn::RecvStream),
}

fn code(code: u32) -> VarInt {
    VarInt::from_u32(code)
}

impl From<driver::WriteError> for Fault {
    fn from(error: driver::WriteError) -> Self {
        match error {
            driver::WriteError::Stopped(code) => Self::Stopped(code),
            driver::WriteError::ConnectionLost(error) => Self::Lost(error.into()),
            _ => Self::Closed,
        }
    }
}

impl From<driver::ReadError> for Fault {
    fn from(error: driver::ReadError) -> Self {
        match error {
            driver::ReadError::Reset(code) => Self::Reset(code),
            driver::ReadError::ConnectionLost(error) => Self::Lost(error.into()),
            _ => Self::Closed,
        }
    }
}

impl From<quinn::WriteError> for Fault {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(code) => Self::Stopped(code.into_inner()),
            quinn::WriteError::ConnectionLost(error) => Self::Lost(error.into()),
            _ => Self::Closed,
        }
    }
}

impl From<quinn::ReadError> for Fault {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(code) => Self::Reset(code.into_inner()),
            quinn::ReadError::ConnectionLost(error) => Self::Lost(error.into()),
            _ => Self::Closed,
        }
    }
}

impl Sender {
    pub(crate) async fn write(&mut self, data: &[u8]) -> Result<usize, Fault> {
        Ok(match self {
            Self::Ours(stream) => stream.write(data).await?,
            Self::Quinn(stream) => stream.write(data).await?,
        })
    }

    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.write_all(data).await?,
            Self::Quinn(stream) => stream.write_all(data).await?,
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.finish()?),
            Self::Quinn(stream) => stream.finish().map_err(|_| Fault::Closed),
        }
    }

    pub(crate) fn reset(&mut self, number: u32) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.reset(number.into())?),
            Self::Quinn(stream) => stream.reset(code(number)).map_err(|_| Fault::Closed),
        }
    }

    /// Waits until everything is delivered (`None`) or the reader stopped it (its code).
    pub(crate) async fn stopped(&mut self) -> Result<Option<u64>, Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.stopped().await?),
            Self::Quinn(stream) => match stream.stopped().await {
                Ok(code) => Ok(code.map(VarInt::into_inner)),
                Err(quinn::StoppedError::ConnectionLost(error)) => Err(Fault::Lost(error.into())),
                Err(quinn::StoppedError::ZeroRttRejected) => Err(Fault::Closed),
            },
        }
    }
}

impl Receiver {
    pub(crate) async fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, Fault> {
        Ok(match self {
            Self::Ours(stream) => stream.read(out).await?,
            Self::Quinn(stream) => stream.read(out).await?,
        })
    }

    /// Reads using tokio's trait.
    pub(crate) async fn read_io(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Ours(stream) => AsyncReadExt::read(stream, out).await,
            Self::Quinn(stream) => AsyncReadExt::read(stream, out).await,
        }
    }

    /// Waits until the writer has reset it (its code) or cannot do so any more.
    pub(crate) async fn received_reset(&mut self) -> Result<Option<u64>, Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.received_reset().await?),
            Self::Quinn(stream) => match stream.received_reset().await {
                Ok(code) => Ok(code.map(VarInt::into_inner)),
                Err(error) => Err(quinn::ReadError::from(error).into()),
            },
        }
    }

    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.read_chunk().await?),
            Self::Quinn(stream) => {
                let chunk = stream.read_chunk(usize::MAX, true).await?;
                Ok(chunk.map(|chunk| chunk.bytes))
            }
        }
    }

    pub(crate) async fn read_to_end(&mut self) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    pub(crate) fn stop(&mut self, number: u32) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => Ok(stream.stop(number.into())?),
            Self::Quinn(stream) => stream.stop(code(number)).map_err(|_| Fault::Closed),
        }
    }
}
