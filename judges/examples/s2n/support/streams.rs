//! Streams of either implementation behind one face.

use bytes::Bytes;
use pathmark_transport::driver;
use s2n_quic::stream::{ReceiveStream, SendStream};

pub(crate) use super::fault::Fault;

/// A sending part.
#[derive(Debug)]
pub(crate) enum Sender {
    Ours(driver::SendStream),
    S2n(SendStream),
}

/// A receiving part.
#[derive(Debug)]
pub(crate) enum Receiver {
    Ours(driver::RecvStream),
    S2n(ReceiveStream),
}

impl Sender {
    pub(crate) async fn write_all(&mut self, data: &[u8]) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.write_all(data).await?,
            Self::S2n(stream) => stream.send(Bytes::copy_from_slice(data)).await?,
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => stream.finish()?,
            Self::S2n(stream) => stream.finish()?,
        }
        Ok(())
    }

    /// Waits until everything is delivered.
    pub(crate) async fn stopped(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ours(stream) => {
                stream.stopped().await?;
            }
            Self::S2n(stream) => stream.close().await?,
        }
        Ok(())
    }
}

impl Receiver {
    pub(crate) async fn read_chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        Ok(match self {
            Self::Ours(stream) => stream.read_chunk().await?,
            Self::S2n(stream) => stream.receive().await?,
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
