//! Adapts a connection for the `h3` crate.
//!
//! Hints about streams pass from exchanges to the transport. Since the `h3` crate can't forward
//! them, they are stored by stream id.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use pathmark_driver::{self as driver, Stopped, WriteError};

use super::frames::Frames;
use super::streams::{BidiStream, RecvStream, SendStream, short};
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
#[derive(Debug)]
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

    pub(super) fn stream_error(&self, error: StreamError) -> LinkError {
        LinkError::of_stream(error, self.connection.close_reason())
    }

    fn both(
        &self,
        (send, recv): (driver::SendStream, driver::RecvStream),
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
        let opened = ready!(self.connection.poll_open_bi(cx)).map_err(no_stream)?;
        Poll::Ready(Ok(self.both(opened, head.take())))
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
        let accepted = ready!(self.connection.poll_accept_bi(cx)).map_err(lost)?;
        let stopped = accepted.0.stopped();
        self.hints.leave_opened(accepted.0.id().as_u64(), stopped);
        Poll::Ready(Ok(self.both(accepted, None)))
    }

    fn opener(&self) -> Self::OpenStreams {
        Opener {
            adapter: self.clone(),
            head: None,
        }
    }
}

/// A hint to the transport about a sending part, given before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// The priority among the connection's streams. Higher priorities are sent first.
    pub(super) priority: i32,
    /// The approximate number of bytes to send.
    pub(super) bytes: u64,
}

/// Both parts of a stream that becomes a tunnel.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) send: Option<driver::SendStream>,
    pub(super) recv: Option<Received>,
}

/// A receiving part, its filter, and the pieces that have passed the filter.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) stream: driver::RecvStream,
    pub(super) frames: Frames,
    pub(super) passed: VecDeque<Bytes>,
}

/// Waits until the peer no longer wants an answer on a stream. If it is dropped earlier, a later
/// call can wait again.
pub(super) struct Gone {
    hints: Hints,
    stream: u64,
    stopped: Option<Stopped>,
}

impl Future for Gone {
    type Output = Result<Option<u64>, WriteError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.stopped {
            Some(stopped) => Pin::new(stopped).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            self.hints.leave_opened(self.stream, stopped);
        }
    }
}

/// The hints for a connection's streams that no stream has taken yet, and the ends of streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hints: BTreeMap<u64, Hint>,
    /// Streams for which an exchange waits for acknowledgement, with the future once they are
    /// finished.
    ends: BTreeMap<u64, Option<Stopped>>,
    /// The ends of streams that peers opened and that are not finished yet.
    opened: BTreeMap<u64, Stopped>,
    /// Streams that become tunnels. Their parts are kept when `h3` drops them.
    leaving: BTreeMap<u64, Parts>,
}

impl Hints {
    pub(super) fn leave(&self, stream: u64, hint: Hint) {
        self.state().hints.insert(stream, hint);
    }

    pub(super) fn take(&self, stream: u64) -> Option<Hint> {
        self.state().hints.remove(&stream)
    }

    /// Requests the end of a stream that an exchange is about to finish.
    pub(super) fn want_end(&self, stream: u64) {
        self.state().ends.insert(stream, None);
    }

    /// Stores the future of a finished stream's acknowledgement, if it was requested.
    pub(super) fn leave_end(&self, stream: u64, end: impl FnOnce() -> Stopped) {
        if let Some(wanted) = self.state().ends.get_mut(&stream) {
            *wanted = Some(end());
        }
    }

    /// Removes and returns the end of a stream.
    pub(super) fn take_end(&self, stream: u64) -> Option<Stopped> {
        self.state().ends.remove(&stream).flatten()
    }

    /// Stores the future that completes when the peer no longer wants an answer on a stream it
    /// opened.
    pub(super) fn leave_opened(&self, stream: u64, stopped: Stopped) {
        self.state().opened.insert(stream, stopped);
    }

    /// Removes the end of a stream that the peer has opened.
    pub(super) fn forget_opened(&self, stream: u64) {
        // Dropping it takes the connection's lock, so it must happen outside this lock.
        let opened = self.state().opened.remove(&stream);
        drop(opened);
    }

    /// Waits until the peer no longer wants an answer on a stream that it has opened.
    pub(super) fn gone(&self, stream: u64) -> Gone {
        Gone {
            hints: self.clone(),
            stream,
            stopped: self.state().opened.remove(&stream),
        }
    }

    /// Requests the parts of a stream when `h3` drops them.
    pub(super) fn want_parts(&self, stream: u64) {
        self.state().leaving.insert(stream, Parts::default());
    }

    /// Calls `keep` to store a part that `h3` drops, if it was requested.
    pub(super) fn leave_part(&self, stream: u64, keep: impl FnOnce(&mut Parts)) {
        if let Some(parts) = self.state().leaving.get_mut(&stream) {
            keep(parts);
        }
    }

    /// Takes the parts of a stream that `h3` has dropped.
    pub(super) fn take_parts(&self, stream: u64) -> Parts {
        self.state().leaving.remove(&stream).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
