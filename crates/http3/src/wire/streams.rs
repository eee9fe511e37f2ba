//! Streams for the `h3` crate.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};
use pathmark_transport::driver;

use super::error::{codes, no_stream};
use super::frames::Frames;
use super::hints::Hints;

/// A sending part, with what `h3` has handed over and the connection has no room for yet.
pub(super) struct SendStream {
    stream: driver::SendStream,
    writing: Option<WriteBuf<Bytes>>,
    hints: Hints,
}

/// A receiving part behind the filter of frames.
#[derive(Debug)]
pub(super) struct RecvStream {
    stream: driver::RecvStream,
    frames: Frames,
    passed: VecDeque<Bytes>,
}

/// Both parts of a bidirectional stream.
pub(super) struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

/// An error code of HTTP/3, all of which are small (RFC 9114 section 8.1).
pub(super) fn short(code: u64) -> u32 {
    u32::try_from(code).unwrap_or(u32::MAX)
}

fn id(id: u64) -> StreamId {
    // Both sides count as RFC 9000 section 2.1 says.
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("the transport's ids are below 2^62"))
}

fn write_error(error: driver::WriteError) -> StreamErrorIncoming {
    match error {
        driver::WriteError::Stopped(error_code) => {
            StreamErrorIncoming::StreamTerminated { error_code }
        }
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

impl SendStream {
    pub(super) const fn new(stream: driver::SendStream, hints: Hints) -> Self {
        Self {
            stream,
            writing: None,
            hints,
        }
    }

    /// Passes on a hint. The stream has ended if that fails.
    fn take_hint(&mut self) {
        if let Some(hint) = self.hints.take(self.stream.id().as_u64()) {
            let _ = self.stream.set_priority(hint.priority);
            let _ = self.stream.announce(hint.bytes);
        }
    }
}

impl RecvStream {
    pub(super) const fn new(stream: driver::RecvStream, frames: Frames) -> Self {
        Self {
            stream,
            frames,
            passed: VecDeque::new(),
        }
    }

    /// Ends a stream that breaks a rule of its own accord.
    fn refuse(&mut self, error_code: u64) -> StreamErrorIncoming {
        // It fails only if the stream has ended.
        let _ = self.stream.stop(short(error_code));
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
            if !writing.has_remaining() {
                break;
            }
            let written = ready!(self.stream.poll_write_bytes(cx, writing.chunk()));
            writing.advance(written.map_err(write_error)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        // `h3` waits for the last piece before it hands over the next one, unless its user has
        // given up that wait: the rest of the piece would be missing.
        if self.writing.as_ref().is_some_and(Buf::has_remaining) {
            let error = io::Error::other("the piece before this one is not written yet");
            return Err(StreamErrorIncoming::Unknown(Box::new(error)));
        }
        self.take_hint();
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        self.stream.finish().map_err(write_error)?;
        let id = self.stream.id().as_u64();
        self.hints.leave_end(id, || self.stream.stopped());
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        // It fails only if the stream has ended.
        let _ = self.stream.reset(short(code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id().as_u64())
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
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
                }
                None if self.frames.is_between() => return Poll::Ready(Ok(None)),
                None => return Poll::Ready(Err(self.refuse(codes::FRAME_ERROR))),
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        // It fails only if the stream has ended.
        let _ = self.stream.stop(short(code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id().as_u64())
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
