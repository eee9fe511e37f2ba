//! HTTP/3 over pathmark's connections, using the `h3` crate.
//!
//! `h3` speaks HTTP/3 over any transport that implements its traits. [`Connection`] implements them
//! for [`driver::Connection`] by using its poll-based methods, without boxing any future. Opening,
//! accepting, reading and writing each keep one waker. [`serve`] and [`get`] are a simple server
//! and a client for one request; the tests show both in use.

#![forbid(unsafe_code)]

mod streams;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use http::{Request, Response, StatusCode, Uri};
use pathmark_driver as driver;
use pathmark_transport::connection::ConnectionError as Lost;

pub use streams::{BidiStream, RecvStream, SendStream};

/// The application protocol's name in TLS (ALPN, RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";

/// A connection for `h3`. Each clone waits independently.
#[derive(Clone, Debug)]
pub struct Connection(driver::Connection);

impl Connection {
    /// Wraps a connection whose handshake is complete.
    #[must_use]
    pub fn new(connection: driver::Connection) -> Self {
        Self(connection)
    }
}

/// Converts the reason why a connection ended into `h3`'s error.
fn lost(error: Lost) -> ConnectionErrorIncoming {
    match error {
        Lost::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: close.error_code.into_inner(),
        },
        Lost::TimedOut | Lost::HandshakeTimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn no_stream(error: Lost) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: lost(error),
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let (send, recv) = ready!(self.0.poll_open_bi(cx)).map_err(no_stream)?;
        Poll::Ready(Ok(BidiStream::new(send, recv)))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let send = ready!(self.0.poll_open_uni(cx)).map_err(no_stream)?;
        Poll::Ready(Ok(SendStream::new(send)))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.close(streams::short(code.value()).into(), reason);
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let recv = ready!(self.0.poll_accept_uni(cx)).map_err(lost)?;
        Poll::Ready(Ok(RecvStream::new(recv)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let (send, recv) = ready!(self.0.poll_accept_bi(cx)).map_err(lost)?;
        Poll::Ready(Ok(BidiStream::new(send, recv)))
    }

    fn opener(&self) -> Self::OpenStreams {
        self.clone()
    }
}

/// Answers each GET on `connection` with the body that `content` returns for its path, or with 404
/// if this is `None`, until the client ends the connection.
///
/// # Errors
/// [`ConnectionError`] if the connection ends in any other way.
pub async fn serve(
    connection: driver::Connection,
    content: impl Fn(&str) -> Option<Bytes>,
) -> Result<(), ConnectionError> {
    let mut server = h3::server::Connection::<_, Bytes>::new(Connection::new(connection)).await?;
    loop {
        let resolver = match server.accept().await {
            Ok(Some(resolver)) => resolver,
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error),
        };
        // A failed request only concerns its client.
        if let Ok((request, mut stream)) = resolver.resolve_request().await {
            let body = content(request.uri().path());
            let mut response = Response::new(());
            if body.is_none() {
                *response.status_mut() = StatusCode::NOT_FOUND;
            }
            if stream.send_response(response).await.is_ok() {
                let _ = stream.send_data(body.unwrap_or_default()).await;
                let _ = stream.finish().await;
            }
        }
    }
}

/// Why a GET failed.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// Only this request's stream failed.
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// GETs `uri` over `connection`, ends the connection, and returns the status and the whole body.
///
/// # Errors
/// [`GetError`] if the connection or the request fails.
pub async fn get(
    connection: driver::Connection,
    uri: Uri,
) -> Result<(StatusCode, Vec<u8>), GetError> {
    let connection = Connection::new(connection);
    let (mut driver, mut sender) = h3::client::new(connection).await?;
    let asking = async {
        let mut request = Request::new(());
        *request.uri_mut() = uri;
        let mut stream = sender.send_request(request).await?;
        stream.finish().await?;
        let response = stream.recv_response().await?;
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await? {
            let data = data.copy_to_bytes(data.remaining());
            body.extend_from_slice(&data);
        }
        // Dropping the last sender ends the connection.
        drop(sender);
        Ok((response.status(), body))
    };
    let driving = poll_fn(|cx| driver.poll_close(cx));
    let (answer, _) = both(asking, driving).await;
    answer
}

/// Runs both futures to completion.
async fn both<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> (A, B) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    let (mut a, mut b) = (None, None);
    poll_fn(|cx| {
        if a.is_none()
            && let Poll::Ready(output) = first.as_mut().poll(cx)
        {
            a = Some(output);
        }
        if b.is_none()
            && let Poll::Ready(output) = second.as_mut().poll(cx)
        {
            b = Some(output);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (first, second) => {
                (a, b) = (first, second);
                Poll::Pending
            }
        }
    })
    .await
}
