//! Receiving at a socket that the application provides.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Incoming;
use crate::own_socket::DatagramSocket;
use pathmark_transport::connection::Received;

/// Largest number of datagrams received in a row before the endpoint handles them.
const BATCH: usize = 16;

/// Largest UDP payload (RFC 768: a length of 16 bits).
const LARGEST: usize = 65_535;

/// Buffers for one batch of datagrams from a socket that the application provides.
pub(super) struct OwnBatch {
    storage: Box<[u8]>,
    filled: Vec<(usize, Received)>,
}

impl OwnBatch {
    pub(super) fn new() -> Self {
        Self {
            storage: vec![0; BATCH * LARGEST].into_boxed_slice(),
            filled: Vec::with_capacity(BATCH),
        }
    }

    /// Returns `Ready` once at least one datagram has been received.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Arc<dyn DatagramSocket>,
    ) -> Poll<io::Result<()>> {
        self.filled.clear();
        for buffer in self.storage.chunks_mut(LARGEST) {
            match socket.poll_receive(cx, buffer) {
                Poll::Ready(Ok((length, received))) => {
                    self.filled.push((length.min(buffer.len()), received));
                }
                // Deliver the datagrams received so far; a later call will return the error again.
                _ if !self.filled.is_empty() => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Iterates over the datagrams of the batch in order of arrival.
    pub(super) fn datagrams(&mut self) -> impl Iterator<Item = Incoming<'_>> {
        let buffers = self.storage.chunks_mut(LARGEST);
        let both = buffers.zip(&self.filled);
        both.filter_map(|(buffer, (length, received))| {
            Some(Incoming {
                from: received.remote,
                to: received.local,
                ecn: received.ecn,
                ttl: received.ttl,
                bytes: buffer.get_mut(..*length)?,
            })
        })
    }
}
