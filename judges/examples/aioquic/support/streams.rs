//! Streams of either implementation behind one face. One of aioquic's is a TCP connection to its
//! process.

use bytes::Bytes;
use pathmark_transport::driver;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use super::fault::Fault;

/// A sending part.
#[derive(Debug)]
pub(crate) enum Sender {
    Ours(driver::SendStream),
    /// Dropping it ends it.
    Theirs(Option<OwnedWriteHalf>),
}

/// A receiving part.
#[derive(Debug)]
pub(crate) enum Receiver {
    Ours(driver::RecvStream),
    Theirs {
        tcp: BufReader<OwnedReadHalf>,
        /// One that this process opened counts among its open ones until it is dropped.
        _place: Option<OwnedSemaphorePermit>,
    },
}

impl Sender {
    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.write_all(data).await?,
            Self::Theirs(tcp) => {
                let tcp = tcp.as_mut().ok_or("it is finished")?;
                tcp.write_all(data).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.finish()?,
            Self::Theirs(tcp) => drop(tcp.take()),
        }
        Ok(())
    }

    /// Waits until everything is delivered. Of aioquic's streams only the other end can tell.
    pub(crate) async fn stopped(&mut self) -> Result<(), Fault> {
        if let Self::Ours(stream) = self {
            stream.stopped().await?;
        }
        Ok(())
    }
}

impl Receiver {
    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        Ok(match self {
            Self::Ours(stream) => stream.read_chunk().await?,
            Self::Theirs { tcp, .. } => {
                let chunk = Bytes::copy_from_slice(tcp.fill_buf().await?);
                tcp.consume(chunk.len());
                (!chunk.is_empty()).then_some(chunk)
            }
        })
    }

    /// Everything to the end.
    pub(crate) async fn read_to_end(&mut self) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}
