//! The server's side of HTTP/2.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsStream;

use super::super::tcp::End;
use super::super::{LinkError, Protocol, TcpConnection};
use super::{RESET_STREAMS, SEND_BUFFER, code_of, data, finish, poll_send, reason_of};
use crate::lock;

/// Content in bytes of a stream, and of all streams of a connection, that may arrive before it is
/// read.
const WINDOW: u32 = 256 * 1024;
/// Time for the end of a connection to be sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// Accepts the requests of a connection, which a spawned task drives.
pub(in super::super) struct ServerLink {
    requests: mpsc::Receiver<Result<Incoming, LinkError>>,
}

/// A request that has arrived.
pub(in super::super) struct Incoming {
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

/// The sending half of an exchange.
enum Half {
    /// The final response has not begun.
    Respond(SendResponse<Bytes>),
    /// Its content is sent.
    Send(SendStream<Bytes>),
}

/// A request and its response. Dropping it before it is finished resets the stream.
pub(in super::super) struct ServerExchange {
    half: Arc<Mutex<Half>>,
    content: RecvStream,
}

impl ServerLink {
    /// Begins HTTP/2, with at most `streams` requests at a time.
    pub(in super::super) async fn begin(
        connection: TcpConnection,
        max_head: u32,
        streams: u32,
    ) -> Result<Self, LinkError> {
        let mut builder = Builder::new();
        builder
            .max_header_list_size(max_head)
            .max_concurrent_streams(streams)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_concurrent_reset_streams(RESET_STREAMS)
            .max_pending_accept_reset_streams(RESET_STREAMS)
            .max_local_error_reset_streams(Some(RESET_STREAMS));
        let TcpConnection { stream, end, .. } = connection;
        let begun = tokio::select! {
            begun = builder.handshake(stream) => begun?,
            () = end.wanted() => return Err(LinkError::Displaced),
        };
        let (tell, requests) = mpsc::channel(1);
        tokio::spawn(drive(begun, end, tell));
        Ok(Self { requests })
    }

    /// Waits for the next request, or returns `None` at the end of the connection.
    pub(in super::super) async fn next(&mut self) -> Result<Option<Incoming>, LinkError> {
        self.requests.recv().await.transpose()
    }
}

/// Drives a connection until it ends or its requests are no longer wanted.
async fn drive(
    mut connection: Connection<TlsStream<TcpStream>, Bytes>,
    end: End,
    requests: mpsc::Sender<Result<Incoming, LinkError>>,
) {
    let mut wanted = std::pin::pin!(end.wanted());
    let over = loop {
        // Without a place for a further request, the others still go on.
        let place = tokio::select! {
            place = requests.reserve() => place,
            closed = poll_fn(|cx| connection.poll_closed(cx)) => break closed,
            () = &mut wanted => {
                connection.abrupt_shutdown(Reason::NO_ERROR);
                break flush(&mut connection).await;
            }
        };
        let Ok(place) = place else {
            connection.abrupt_shutdown(Reason::NO_ERROR);
            break flush(&mut connection).await;
        };
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = requests.closed() => continue,
            () = &mut wanted => {
                connection.abrupt_shutdown(Reason::NO_ERROR);
                break flush(&mut connection).await;
            }
        };
        match accepted {
            Some(Ok((request, respond))) => place.send(Ok(Incoming { request, respond })),
            Some(Err(error)) => break Err(error),
            None => break Ok(()),
        }
    };
    if let Err(error) = over {
        let _ = requests.send(Err(error.into())).await;
    }
}

/// Sends what is left, for a short time.
async fn flush(connection: &mut Connection<TlsStream<TcpStream>, Bytes>) -> Result<(), h2::Error> {
    let closed = poll_fn(|cx| connection.poll_closed(cx));
    let closed = tokio::time::timeout(FAREWELL, closed).await;
    closed.unwrap_or(Ok(()))
}

impl Incoming {
    /// Returns the request.
    pub(in super::super) fn head(self) -> (Request<()>, ServerExchange) {
        let Self { request, respond } = self;
        let (mut head, content) = request.into_parts();
        if let Some(protocol) = head.extensions.get::<h2::ext::Protocol>() {
            let protocol = Protocol(protocol.as_str().to_owned());
            head.extensions.insert(protocol);
        }
        let exchange = ServerExchange {
            half: Arc::new(Mutex::new(Half::Respond(respond))),
            content,
        };
        (Request::from_parts(head, ()), exchange)
    }
}

impl Half {
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reason, h2::Error>> {
        match self {
            Self::Respond(respond) => respond.poll_reset(cx),
            Self::Send(stream) => stream.poll_reset(cx),
        }
    }

    fn reset(&mut self, reason: Reason) {
        match self {
            Self::Respond(respond) => respond.send_reset(reason),
            Self::Send(stream) => stream.send_reset(reason),
        }
    }
}

impl ServerExchange {
    /// Ends the exchange immediately with a code of HTTP/3.
    pub(in super::super) fn reset(&self, code: u64) {
        lock(&self.half).reset(reason_of(code));
    }

    pub(in super::super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        data(&mut self.content).await
    }

    pub(in super::super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        Ok(self.content.trailers().await?)
    }

    /// Waits until the client no longer wants the response or has gone. This must be awaited in the
    /// task that sends.
    pub(in super::super) fn gone(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let half = Arc::clone(&self.half);
        async move {
            match poll_fn(|cx| lock(&half).poll_reset(cx)).await {
                Ok(reason) => LinkError::Reset {
                    code: code_of(reason),
                },
                Err(error) => error.into(),
            }
        }
    }

    pub(in super::super) fn respond(&self, head: Response<()>) -> Result<(), LinkError> {
        let mut half = lock(&self.half);
        let Half::Respond(respond) = &mut *half else {
            return Err(LinkError::Ended("the response has begun".to_owned()));
        };
        if head.status().is_informational() {
            return Ok(respond.send_informational(head)?);
        }
        *half = Half::Send(respond.send_response(head, false)?);
        Ok(())
    }

    pub(in super::super) async fn send(&self, mut data: Bytes) -> Result<(), LinkError> {
        poll_fn(|cx| match &mut *lock(&self.half) {
            Half::Send(stream) => poll_send(stream, cx, &mut data),
            Half::Respond(_) => Poll::Ready(Err(early())),
        })
        .await
    }

    /// Ends the response. `h2` resets the stream if the request has not ended by then.
    pub(in super::super) fn finish(&self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        match &mut *lock(&self.half) {
            Half::Send(stream) => finish(stream, trailers),
            Half::Respond(_) => Err(early()),
        }
    }
}

/// Returns the error for content before a response.
fn early() -> LinkError {
    LinkError::Ended("the response has not begun".to_owned())
}
