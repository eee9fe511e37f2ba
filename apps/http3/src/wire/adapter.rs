//! Adapts a connection for the `h3` crate.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use pathmark_driver::{self as driver};

use super::frames::Frames;
use super::streams::{BidiStream, Hints, RecvStream, SendStream, short};
use super::{LinkError, lost, no_stream};

/// Maximum size of a header section in bytes, whatever limit the user sets. Each field counts at
/// least 32 bytes, and a map of `http` holds at most 32,768 fields.
const MAX_HEAD: u64 = 512 * 1024;

/// Reduces a limit of header sections to the range that the parsers support.
pub(super) fn head_limit(wanted: u64) -> u64 {
    wanted.min(MAX_HEAD)
}

/// A connection whose handshake is complete, with the limit for frames on its streams.
#[derive(Clone, Debug)]
pub(super) struct Adapter {
    connection: driver::Connection,
    limit: u64,
    hints: Hints,
    next: NextHead,
}

/// The first frame of a request, left for the next clone of an [`Opener`].
#[derive(Clone, Debug, Default)]
pub(super) struct NextHead(Arc<Mutex<Option<Bytes>>>);

/// Opens streams. A clone takes the head that was left for it, which replaces the frame of `h3`
/// on the first stream that it opens.
pub(super) struct Opener {
    adapter: Adapter,
    head: Option<Bytes>,
}

impl NextHead {
    /// Leaves a head for the next clone.
    pub(super) fn leave(&self, head: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }

    fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Clone for Opener {
    fn clone(&self) -> Self {
        Self {
            adapter: self.adapter.clone(),
            head: self.adapter.next.take(),
        }
    }
}

impl Adapter {
    pub(super) fn new(connection: driver::Connection, limit: u64) -> Self {
        Self {
            connection,
            limit,
            hints: Hints::default(),
            next: NextHead::default(),
        }
    }

    pub(super) const fn connection(&self) -> &driver::Connection {
        &self.connection
    }

    /// Returns the place for the head of the opener's next clone.
    pub(super) const fn next(&self) -> &NextHead {
        &self.next
    }

    pub(super) const fn hints(&self) -> &Hints {
        &self.hints
    }

    pub(super) fn connection_error(&self, error: &ConnectionError) -> LinkError {
        LinkError::of_connection(self.connection.close_reason(), error)
    }

    pub(super) fn checked<T>(&self, done: Result<T, StreamError>) -> Result<T, LinkError> {
        done.map_err(|error| self.stream_error(error))
    }

    pub(super) fn stream_error(&self, error: StreamError) -> LinkError {
        LinkError::of_stream(error, self.connection.close_reason())
    }

    fn both(
        &self,
        send: driver::SendStream,
        recv: driver::RecvStream,
        head: Option<Bytes>,
    ) -> BidiStream {
        let frames = Frames::bidirectional(self.limit);
        let recv = RecvStream::new(recv, frames, self.hints.clone());
        BidiStream::new(SendStream::new(send, self.hints.clone(), head), recv)
    }

    fn poll_open(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Option<Bytes>,
    ) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let opened = ready!(self.connection.poll_open_bi(cx));
        let (send, recv) = opened.map_err(no_stream)?;
        Poll::Ready(Ok(self.both(send, recv, head.take())))
    }
}

impl quic::OpenStreams<Bytes> for Adapter {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.poll_open(cx, &mut None)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let send = ready!(self.connection.poll_open_uni(cx)).map_err(no_stream)?;
        Poll::Ready(Ok(SendStream::new(send, self.hints.clone(), None)))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(short(code.value()).into(), reason);
    }
}

impl quic::OpenStreams<Bytes> for Opener {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.adapter.poll_open(cx, &mut self.head)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.adapter.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.adapter.close(code, reason);
    }
}

impl quic::Connection<Bytes> for Adapter {
    type RecvStream = RecvStream;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let recv = ready!(self.connection.poll_accept_uni(cx)).map_err(lost)?;
        let frames = Frames::unidirectional(self.limit);
        Poll::Ready(Ok(RecvStream::new(recv, frames, self.hints.clone())))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let (send, recv) = ready!(self.connection.poll_accept_bi(cx)).map_err(lost)?;
        self.hints.leave_opened(send.id().as_u64(), send.stopped());
        Poll::Ready(Ok(self.both(send, recv, None)))
    }

    fn opener(&self) -> Self::OpenStreams {
        Opener {
            adapter: self.clone(),
            head: None,
        }
    }
}
