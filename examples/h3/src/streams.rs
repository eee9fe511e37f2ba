//! Streams for `h3`.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};
use pathmark_driver as driver;

use super::no_stream;

/// The sending part of a stream, with the data that `h3` has handed over but that the connection
/// had no room for yet.
pub struct SendStream<B> {
    stream: driver::SendStream,
    writing: Option<WriteBuf<B>>,
}

/// The receiving part of a stream.
#[derive(Debug)]
pub struct RecvStream(driver::RecvStream);

/// Both parts of a bidirectional stream.
pub struct BidiStream<B> {
    send: SendStream<B>,
    recv: RecvStream,
}

/// Shortens an error code: those of HTTP/3 are small (RFC 9114 §8.1).
pub(super) fn short(code: u64) -> u32 {
    u32::try_from(code).unwrap_or(u32::MAX)
}

fn id(id: u64) -> StreamId {
    // Both libraries number streams as in RFC 9000 §2.1.
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("an id below 2^62"))
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

impl<B> SendStream<B> {
    pub(super) fn new(stream: driver::SendStream) -> Self {
        Self {
            stream,
            writing: None,
        }
    }
}

impl RecvStream {
    pub(super) fn new(stream: driver::RecvStream) -> Self {
        Self(stream)
    }
}

impl<B> BidiStream<B> {
    pub(super) fn new(send: driver::SendStream, recv: driver::RecvStream) -> Self {
        Self {
            send: SendStream::new(send),
            recv: RecvStream::new(recv),
        }
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
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

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        // `h3` only calls this after writing the last piece, unless its user has dropped that
        // write. In that case the rest of the piece would be missing.
        if self.writing.as_ref().is_some_and(WriteBuf::has_remaining) {
            let error = io::Error::other("a piece before this one is not written yet");
            return Err(StreamErrorIncoming::Unknown(Box::new(error)));
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        Poll::Ready(self.stream.finish().map_err(write_error))
    }

    fn reset(&mut self, code: u64) {
        // Fails only if the stream has already ended.
        let _ = self.stream.reset(short(code).into());
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
        match ready!(self.0.poll_read_chunk(cx)) {
            Ok(data) => Poll::Ready(Ok(data)),
            Err(error) => Poll::Ready(Err(read_error(error))),
        }
    }

    fn stop_sending(&mut self, code: u64) {
        // Fails only if the stream has already ended.
        let _ = self.0.stop(short(code).into());
    }

    fn recv_id(&self) -> StreamId {
        id(self.0.id().as_u64())
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
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

impl<B: Buf> quic::RecvStream for BidiStream<B> {
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

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.recv)
    }
}
