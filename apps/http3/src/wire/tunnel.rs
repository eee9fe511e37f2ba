//! The content of a CONNECT stream after its response. It carries bytes in both directions, each
//! of which ends independently.

use std::io;
use std::num::NonZeroU8;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use pathmark_driver::{self as driver, Stall, Stopped, WriteError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::codes;
use super::frames::{self, DATA};
use super::streams::{Hints, Parts, Received, short};

/// Maximum payload in bytes of a DATA frame that is written from a slice.
const MOST_WRITTEN: usize = 64 * 1024;

/// Keeps a value alive as long as the tunnel, since a client's connection closes when its last
/// user is dropped.
pub(super) type Keep = Box<dyn std::any::Any + Send + Sync>;

/// The sending direction. Dropping it before [`finish`](Self::finish) resets it.
pub struct TunnelSend {
    stream: driver::SendStream,
    /// The unwritten bytes of the current frame's header and payload.
    head: Bytes,
    payload: Bytes,
    /// Whether the direction is finished or reset.
    ended: bool,
    /// Completes once the peer has acknowledged all bytes. It is created when shutting down.
    acknowledged: Option<Stopped>,
    _keep: Keep,
}

/// The receiving direction. Dropping it before its end stops it.
pub struct TunnelRecv {
    received: Received,
    /// Payload bytes of the current frame that have not arrived yet.
    left: u64,
    /// Payload that has arrived but has not been read.
    chunk: Bytes,
    ended: bool,
    _keep: Keep,
}

/// Takes the parts of a stream that `h3` has dropped.
pub(super) fn tunnel(
    hints: &Hints,
    stream: u64,
    sender_keeps: Keep,
    receiver_keeps: Keep,
) -> Option<(TunnelSend, TunnelRecv)> {
    let Parts { send, recv } = hints.take_parts(stream);
    let send = TunnelSend {
        stream: send?,
        head: Bytes::new(),
        payload: Bytes::new(),
        ended: false,
        acknowledged: None,
        _keep: sender_keeps,
    };
    let recv = TunnelRecv {
        received: recv?,
        left: 0,
        chunk: Bytes::new(),
        ended: false,
        _keep: receiver_keeps,
    };
    Some((send, recv))
}

impl TunnelSend {
    /// Writes bytes without copying them. Returns once the transport has accepted them.
    ///
    /// # Errors
    /// `ConnectionReset` if the peer has stopped the direction, or `NotConnected` if the
    /// connection is lost.
    pub async fn send(&mut self, data: Bytes) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_drain(cx)).await?;
        self.begin(data);
        std::future::poll_fn(|cx| self.poll_drain(cx)).await
    }

    /// Ends the direction after the bytes that were sent.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub async fn finish(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_finish(cx)).await
    }

    /// Ends the direction immediately, like a TCP reset.
    pub fn reset(&mut self) {
        self.reset_with(codes::CONNECT_ERROR);
    }

    /// Waits until the peer has stopped the direction (true) or acknowledged all its data (false).
    pub fn stopped(&self) -> impl Future<Output = bool> + Send + use<> {
        let stopped: Stopped = self.stream.stopped();
        async move { !matches!(stopped.await, Ok(None)) }
    }

    /// Marks the beginning of a flow like a TCP connection, whose initial window can be in
    /// flight in addition to the congestion window.
    pub fn start_flow(&self) {
        self.stream.start_flow();
    }

    /// Sets the weight among the connection's flows and streams, which is 1 initially.
    pub fn set_weight(&self, weight: NonZeroU8) {
        self.stream.set_weight(weight);
    }

    /// Returns a handle that reports whether the peer accepts no bytes of this stream.
    pub fn stall(&self) -> Stall {
        self.stream.stall()
    }

    fn reset_with(&mut self, code: u64) {
        if !self.ended {
            self.ended = true;
            // This only fails if the stream has already ended.
            let _ = self.stream.reset(short(code).into());
        }
    }

    fn begin(&mut self, payload: Bytes) {
        if payload.is_empty() {
            return;
        }
        let mut head = Vec::with_capacity(9);
        frames::put(&mut head, DATA);
        frames::put(&mut head, payload.len() as u64);
        self.head = head.into();
        self.payload = payload;
    }

    /// Writes the current frame.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for part in [&mut self.head, &mut self.payload] {
            while part.has_remaining() {
                ready!(self.stream.poll_write_chunk(cx, part)).map_err(failed)?;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.ended {
            ready!(self.poll_drain(cx))?;
            self.stream.finish().map_err(failed)?;
            self.ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Converts a write error before the direction's end. The transport returns `Closed` for a
/// stream that the peer stopped, after the peer has acknowledged the reset.
fn failed(error: WriteError) -> io::Error {
    match error {
        WriteError::ClosedStream => io::ErrorKind::ConnectionReset.into(),
        error => error.into(),
    }
}

impl Drop for TunnelSend {
    fn drop(&mut self) {
        self.reset_with(codes::REQUEST_CANCELLED);
    }
}

impl AsyncWrite for TunnelSend {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        let data = data.get(..MOST_WRITTEN).unwrap_or(data);
        this.begin(Bytes::copy_from_slice(data));
        // Bytes that don't fit now are written by the next call.
        match this.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(data.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_drain(cx)
    }

    /// Completes once the peer has acknowledged all bytes, so that the connection can be closed.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_finish(cx))?;
        let stream = &this.stream;
        let end = this.acknowledged.get_or_insert_with(|| stream.stopped());
        match ready!(Pin::new(end).poll(cx)) {
            Ok(None) => Poll::Ready(Ok(())),
            Ok(Some(_)) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Err(error) => Poll::Ready(Err(failed(error))),
        }
    }
}

impl TunnelRecv {
    /// Returns the next bytes, or `None` at the end of the direction. Dropping the future loses
    /// no bytes.
    ///
    /// # Errors
    /// `ConnectionReset` if the peer has reset it, `InvalidData` for frames that are not allowed
    /// in a tunnel, or `NotConnected` if the connection is lost.
    pub async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// Waits until the peer has reset the direction or the connection is lost.
    pub async fn was_reset(&mut self) {
        if let Ok(None) = self.received.stream.received_reset().await {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the direction immediately.
    pub fn stop(&mut self) {
        self.stop_with(codes::CONNECT_ERROR);
    }

    fn stop_with(&mut self, code: u64) {
        if !self.ended {
            self.ended = true;
            // This only fails if the stream has already ended.
            let _ = self.received.stream.stop(short(code).into());
        }
    }

    fn refuse(&mut self, code: u64, why: &'static str) -> io::Error {
        self.stop_with(code);
        io::Error::new(io::ErrorKind::InvalidData, why)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if self.chunk.has_remaining() {
                return Poll::Ready(Ok(Some(std::mem::take(&mut self.chunk))));
            }
            if self.ended {
                return Poll::Ready(Ok(None));
            }
            if let Some(piece) = self.received.passed.pop_front() {
                self.take(piece)?;
                continue;
            }
            let Some(data) = ready!(self.received.stream.poll_read_chunk(cx))? else {
                if !self.received.frames.is_between() {
                    let why = "the tunnel ends within a frame";
                    return Poll::Ready(Err(self.refuse(codes::FRAME_ERROR, why)));
                }
                self.ended = true;
                continue;
            };
            let received = &mut self.received;
            if received.frames.feed(data, &mut received.passed).is_err() {
                let why = "a frame is above the limit";
                return Poll::Ready(Err(self.refuse(codes::EXCESSIVE_LOAD, why)));
            }
        }
    }

    /// Takes the next output of the filter: either a frame's header or a piece of its payload.
    fn take(&mut self, piece: Bytes) -> io::Result<()> {
        if self.left > 0 {
            self.left = self.left.saturating_sub(piece.len() as u64);
            self.chunk = piece;
            return Ok(());
        }
        match frames::header(&piece) {
            Some((DATA, length)) => {
                self.left = length;
                Ok(())
            }
            // A tunnel only has DATA frames (RFC 9114 section 4.4).
            _ => Err(self.refuse(codes::FRAME_UNEXPECTED, "a tunnel has DATA frames alone")),
        }
    }
}

impl Drop for TunnelRecv {
    fn drop(&mut self) {
        self.stop_with(codes::REQUEST_CANCELLED);
    }
}

impl AsyncRead for TunnelRecv {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(mut chunk) = ready!(this.poll_chunk(cx))? {
            let here = chunk.len().min(buffer.remaining());
            buffer.put_slice(&chunk.split_to(here));
            this.chunk = chunk;
        }
        Poll::Ready(Ok(()))
    }
}
