//! The client's side of HTTP/2.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};

use super::super::client::MAX_INTERIM;
use super::super::{LinkError, TcpConnection};
use super::{SEND_BUFFER, data, finish, poll_send};

/// Content in bytes of a stream, and of all streams of a connection, that may arrive before it is
/// read.
const WINDOWS: (u32, u32) = (8 << 20, 16 << 20);

/// Sends requests on a connection, which ends after the last clone and the last exchange.
#[derive(Clone)]
pub(in super::super) struct ClientLink {
    requests: SendRequest<Bytes>,
}

/// A request and its response. Dropping it before its end cancels the request.
pub(in super::super) struct ClientExchange {
    send: SendStream<Bytes>,
    answer: Answer,
    /// Interim responses so far.
    interim: usize,
}

/// The response.
enum Answer {
    Awaited(ResponseFuture),
    Content(RecvStream),
}

impl ClientLink {
    /// Begins HTTP/2. A spawned task drives the connection.
    pub(in super::super) async fn begin(
        connection: TcpConnection,
        max_head: u32,
    ) -> Result<Self, LinkError> {
        let handshake = Builder::new()
            .max_header_list_size(max_head)
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_send_buffer_size(SEND_BUFFER)
            .enable_push(false)
            .handshake(connection.stream);
        let (requests, connection) = handshake.await?;
        tokio::spawn(async move {
            let ended = connection.await;
            tracing::debug!(?ended, "HTTP/2 connection ended");
        });
        Ok(Self { requests })
    }

    /// Sends the header section of a request, as soon as the server allows another stream.
    pub(in super::super) async fn request(
        &self,
        head: Request<()>,
    ) -> Result<ClientExchange, LinkError> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, send) = requests.send_request(head, false)?;
        requests.ready().await?;
        Ok(ClientExchange {
            send,
            answer: Answer::Awaited(response),
            interim: 0,
        })
    }
}

impl ClientExchange {
    pub(in super::super) async fn send(&mut self, mut data: Bytes) -> Result<(), LinkError> {
        poll_fn(|cx| poll_send(&mut self.send, cx, &mut data)).await
    }

    /// Ends the request. A server can reset the stream with NO_ERROR before reading the whole
    /// request, in which case its response is still valid (RFC 9113 section 8.1).
    pub(in super::super) fn finish(
        &mut self,
        trailers: Option<HeaderMap>,
    ) -> Result<(), LinkError> {
        let mut context = Context::from_waker(Waker::noop());
        match self.send.poll_reset(&mut context) {
            Poll::Ready(Ok(Reason::NO_ERROR)) => Ok(()),
            _ => finish(&mut self.send, trailers),
        }
    }

    /// Returns an interim response if one has arrived, without waiting.
    pub(in super::super) fn interim(&mut self) -> Option<Response<()>> {
        match self.poll_interim(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(interim)) => interim,
            // The final response has the failure, too.
            Poll::Ready(Err(_)) | Poll::Pending => None,
        }
    }

    /// Waits for the next interim response, or returns `None` if the final one has arrived.
    fn poll_interim(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Response<()>>, LinkError>> {
        let Answer::Awaited(response) = &mut self.answer else {
            return Poll::Ready(Ok(None));
        };
        let interim = ready!(response.poll_informational(cx)).transpose()?;
        self.interim += usize::from(interim.is_some());
        Poll::Ready(if self.interim > MAX_INTERIM {
            Err(LinkError::endless())
        } else {
            Ok(interim)
        })
    }

    /// Waits for the final response's header section.
    pub(in super::super) async fn response(&mut self) -> Result<Response<()>, LinkError> {
        while poll_fn(|cx| self.poll_interim(cx)).await?.is_some() {}
        let Answer::Awaited(response) = &mut self.answer else {
            return Err(LinkError::Ended("the response was taken".to_owned()));
        };
        let (head, content) = Pin::new(response).await?.into_parts();
        self.answer = Answer::Content(content);
        Ok(Response::from_parts(head, ()))
    }

    pub(in super::super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        match &mut self.answer {
            Answer::Content(content) => data(content).await,
            Answer::Awaited(_) => Ok(None),
        }
    }

    pub(in super::super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        match &mut self.answer {
            Answer::Content(content) => Ok(content.trailers().await?),
            Answer::Awaited(_) => Ok(None),
        }
    }
}
