//! Adapts streams for the `h3` crate.
//!
//! Hints about streams pass from exchanges to the transport. Since the `h3` crate can't forward
//! them, they are stored by stream id.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};
use pathmark_driver::{self as driver, Stopped, WriteError};

use super::frames::Frames;
use super::{codes, no_stream};
use crate::lock;

/// A sending part. It buffers data from `h3` until the connection has room for it.
pub(super) struct SendStream {
    id: u64,
    /// `None` once the stream has become a tunnel.
    stream: Option<driver::SendStream>,
    /// Replaces the first frame that `h3` writes.
    head: Option<Bytes>,
    writing: Option<Writing>,
    hints: Hints,
}

/// The bytes being written.
enum Writing {
    Frame(WriteBuf<Bytes>),
    Head(Bytes),
}

/// A receiving part behind the frame filter.
pub(super) struct RecvStream {
    id: u64,
    /// `None` once the stream has become a tunnel.
    received: Option<Received>,
    hints: Hints,
}

/// Both parts of a bidirectional stream.
pub(super) struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

/// Converts an HTTP/3 error code. All codes are small (RFC 9114 section 8.1).
pub(super) fn short(code: u64) -> u32 {
    u32::try_from(code).unwrap_or(u32::MAX)
}

fn id(id: u64) -> StreamId {
    // Both sides number streams according to RFC 9000 section 2.1.
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("the transport's ids are below 2^62"))
}

fn write_error(error: driver::WriteError) -> StreamErrorIncoming {
    match error {
        driver::WriteError::Stopped(error_code) => {
            StreamErrorIncoming::StreamTerminated { error_code }
        }
        // This side never writes after its FIN, so the peer must have sent STOP_SENDING and then
        // acknowledged the RESET_STREAM in reply. At that point the transport drops the error
        // code. If a response arrives, it has the reason.
        driver::WriteError::ClosedStream => StreamErrorIncoming::StreamTerminated {
            error_code: codes::NO_ERROR,
        },
        driver::WriteError::ConnectionLost(error) => no_stream(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

fn read_error(error: driver::ReadError) -> StreamErrorIncoming {
    match error {
        driver::ReadError::Reset(error_code) => {
            StreamErrorIncoming::StreamTerminated { error_code }
        }
        driver::ReadError::ConnectionLost(error) => no_stream(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// Returns the error for calls on a stream that has become a tunnel.
fn gone() -> StreamErrorIncoming {
    StreamErrorIncoming::Unknown(Box::new(io::Error::other("the stream is a tunnel now")))
}

impl Writing {
    fn buffer(&mut self) -> &mut dyn Buf {
        match self {
            Self::Frame(frame) => frame,
            Self::Head(head) => head,
        }
    }
}

impl SendStream {
    /// Creates a sending part. If there is a `head`, it replaces the first frame that `h3` writes.
    pub(super) fn new(stream: driver::SendStream, hints: Hints, head: Option<Bytes>) -> Self {
        Self {
            id: stream.id().as_u64(),
            stream: Some(stream),
            head,
            writing: None,
            hints,
        }
    }

    /// Passes a hint to the transport. This only fails if the stream has ended.
    fn take_hint(&mut self) {
        let hint = self.hints.take(self.id);
        if let (Some(hint), Some(stream)) = (hint, &mut self.stream) {
            let _ = stream.set_priority(hint.priority);
            let _ = stream.announce(hint.bytes);
        }
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let stream = self.stream.take();
        self.hints.forget_opened(self.id);
        self.hints.leave_part(self.id, |parts| parts.send = stream);
    }
}

impl RecvStream {
    pub(super) fn new(stream: driver::RecvStream, frames: Frames, hints: Hints) -> Self {
        Self {
            id: stream.id().as_u64(),
            received: Some(Received {
                stream,
                frames,
                passed: VecDeque::new(),
            }),
            hints,
        }
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let received = self.received.take();
        self.hints
            .leave_part(self.id, |parts| parts.recv = received);
    }
}

impl Received {
    /// Returns the next piece that passes the filter.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        loop {
            if let Some(passed) = self.passed.pop_front() {
                return Poll::Ready(Ok(Some(passed)));
            }
            match ready!(self.stream.poll_read_chunk(cx)).map_err(read_error)? {
                Some(data) => {
                    if self.frames.feed(data, &mut self.passed).is_err() {
                        return Poll::Ready(Err(self.refuse(codes::EXCESSIVE_LOAD)));
                    }
                    if self.frames.is_malformed() {
                        return Poll::Ready(Err(self.refuse(codes::MESSAGE_ERROR)));
                    }
                }
                None if self.frames.is_between() => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(self.refuse(codes::FRAME_ERROR))),
            }
        }
    }

    /// Stops a stream that violates a rule.
    fn refuse(&mut self, error_code: u64) -> StreamErrorIncoming {
        // This only fails if the stream has already ended.
        let _ = self.stream.stop(short(error_code).into());
        StreamErrorIncoming::StreamTerminated { error_code }
    }
}

impl BidiStream {
    pub(super) const fn new(send: SendStream, recv: RecvStream) -> Self {
        Self { send, recv }
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(writing) = &mut self.writing {
            let buffer = writing.buffer();
            if !buffer.has_remaining() {
                break;
            }
            let stream = self.stream.as_mut().ok_or_else(gone)?;
            let written = ready!(stream.poll_write_bytes(cx, buffer.chunk()));
            buffer.advance(written.map_err(write_error)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        // `h3` waits for the last piece before handing over the next one, unless its user has
        // given up waiting. In that case the rest of the last piece would be missing.
        let writing = self.writing.as_mut().map(Writing::buffer);
        if writing.is_some_and(|buffer| buffer.has_remaining()) {
            let error = io::Error::other("the piece before this one is not written yet");
            return Err(StreamErrorIncoming::Unknown(Box::new(error)));
        }
        self.take_hint();
        self.writing = Some(match self.head.take() {
            Some(head) => Writing::Head(head),
            None => Writing::Frame(data.into()),
        });
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        let stream = self.stream.as_mut().ok_or_else(gone)?;
        stream.finish().map_err(write_error)?;
        self.hints.leave_end(self.id, || stream.stopped());
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        if let Some(stream) = &mut self.stream {
            // This only fails if the stream has already ended.
            let _ = stream.reset(short(code).into());
        }
    }

    fn send_id(&self) -> StreamId {
        id(self.id)
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        match &mut self.received {
            Some(received) => received.poll_piece(cx),
            None => Poll::Ready(Err(gone())),
        }
    }

    fn stop_sending(&mut self, code: u64) {
        if let Some(received) = &mut self.received {
            // This only fails if the stream has already ended.
            let _ = received.stream.stop(short(code).into());
        }
    }

    fn recv_id(&self) -> StreamId {
        id(self.id)
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.recv.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.recv)
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
        lock(&self.0).hints.insert(stream, hint);
    }

    pub(super) fn take(&self, stream: u64) -> Option<Hint> {
        lock(&self.0).hints.remove(&stream)
    }

    /// Requests the end of a stream that an exchange is about to finish.
    pub(super) fn want_end(&self, stream: u64) {
        lock(&self.0).ends.insert(stream, None);
    }

    /// Stores the future of a finished stream's acknowledgement, if it was requested.
    pub(super) fn leave_end(&self, stream: u64, end: impl FnOnce() -> Stopped) {
        if let Some(wanted) = lock(&self.0).ends.get_mut(&stream) {
            *wanted = Some(end());
        }
    }

    /// Removes and returns the end of a stream.
    pub(super) fn take_end(&self, stream: u64) -> Option<Stopped> {
        lock(&self.0).ends.remove(&stream).flatten()
    }

    /// Stores the future that completes when the peer no longer wants an answer on a stream it
    /// opened.
    pub(super) fn leave_opened(&self, stream: u64, stopped: Stopped) {
        lock(&self.0).opened.insert(stream, stopped);
    }

    /// Removes the end of a stream that the peer has opened.
    pub(super) fn forget_opened(&self, stream: u64) {
        // Dropping it takes the connection's lock, so it must happen outside this lock.
        let opened = lock(&self.0).opened.remove(&stream);
        drop(opened);
    }

    /// Waits until the peer no longer wants an answer on a stream that it has opened.
    pub(super) fn gone(&self, stream: u64) -> Gone {
        Gone {
            hints: self.clone(),
            stream,
            stopped: lock(&self.0).opened.remove(&stream),
        }
    }

    /// Requests the parts of a stream when `h3` drops them.
    pub(super) fn want_parts(&self, stream: u64) {
        lock(&self.0).leaving.insert(stream, Parts::default());
    }

    /// Calls `keep` to store a part that `h3` drops, if it was requested.
    pub(super) fn leave_part(&self, stream: u64, keep: impl FnOnce(&mut Parts)) {
        if let Some(parts) = lock(&self.0).leaving.get_mut(&stream) {
            keep(parts);
        }
    }

    /// Takes the parts of a stream that `h3` has dropped.
    pub(super) fn take_parts(&self, stream: u64) -> Parts {
        lock(&self.0).leaving.remove(&stream).unwrap_or_default()
    }
}
