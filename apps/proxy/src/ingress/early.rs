//! The early bytes of a connection, which directly follow its flow's request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::splice::Half;
use crate::flows::Meter;

/// Reads the first bytes of a connection while its flow is being opened.
pub(super) struct Early<'a> {
    from: Half<'a>,
    /// Bytes that may still be read.
    left: usize,
    meter: &'a Meter,
}

impl<'a> Early<'a> {
    /// Creates a reader of at most `most` bytes.
    pub(super) const fn new(local: &'a TcpStream, most: usize, meter: &'a Meter) -> Self {
        Self {
            from: Half(local),
            left: most,
            meter,
        }
    }
}

impl AsyncRead for Early<'_> {
    /// The reader ends after `most` bytes.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = self.left.min(buffer.remaining());
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.from).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        self.left -= read;
        self.meter.add(read);
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}
