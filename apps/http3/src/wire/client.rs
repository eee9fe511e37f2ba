//! The client's side of HTTP/3.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use h3::ConnectionState;
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use http::{HeaderMap, Request, Response};
use pathmark_driver as driver;
use tokio::sync::watch;

use super::adapter::{Adapter, Opener, head_limit};
use super::datagrams::{DatagramFlow, Hub};
use super::streams::{BidiStream, Hint};
use super::{LinkError, PeerSettings};

/// Maximum number of interim responses before the final one.
pub(super) const MAX_INTERIM: usize = 16;
/// A reserved type of unidirectional streams, without any meaning.
const RESERVED_STREAM: [u8; 1] = [0x21];

/// Sends requests on a connection. The connection is closed when the last clone and the last
/// exchange are dropped.
#[derive(Clone)]
pub(super) struct Link {
    /// Must only be cloned under the lock, because a clone takes the head that was left for it.
    requests: Arc<Mutex<SendRequest<Opener, Bytes>>>,
    adapter: Adapter,
    peer: watch::Receiver<Option<PeerSettings>>,
    /// The datagrams, if the link has tunnels.
    hub: Option<Arc<Hub>>,
}

/// A request and its response. Dropping it before its end cancels the request.
pub(super) struct Exchange {
    stream: RequestStream<BidiStream, Bytes>,
    /// Whether the request is complete.
    sent: bool,
    /// Whether the response is complete.
    received: bool,
    /// Whether the stream has become a tunnel.
    left: bool,
    /// Interim responses so far.
    interim: usize,
    /// The final response, or the failure to receive it, if it arrived while content was being
    /// sent.
    early: Option<Result<Response<()>, LinkError>>,
    link: Link,
}

impl Link {
    /// Begins HTTP/3. A spawned task drives the connection until it is closed. With `tunnels`, HTTP
    /// datagrams are enabled.
    pub(super) async fn begin(
        connection: driver::Connection,
        max_head: u64,
        tunnels: bool,
    ) -> Result<Self, LinkError> {
        let max_head = head_limit(max_head);
        let adapter = Adapter::new(connection, max_head);
        let mut builder = h3::client::builder();
        builder.max_field_section_size(max_head).send_grease(false);
        builder.enable_datagram(tunnels);
        let building = builder.build::<_, _, Bytes>(adapter.clone()).await;
        let building = building.map_err(|error| adapter.connection_error(&error));
        let (mut driver, requests) = building?;
        let shared = Arc::clone(&driver.inner.shared);
        let hub =
            tunnels.then(|| Arc::new(Hub::new(adapter.connection().clone(), Arc::clone(&shared))));
        let (tell, peer) = watch::channel(None);
        tokio::spawn(async move {
            let end = poll_fn(|cx| {
                let end = driver.poll_close(cx);
                // Until the peer's SETTINGS arrive, `h3` returns default values as an owned `Cow`.
                let is_known = tell.borrow().is_some();
                if let (false, Cow::Borrowed(settings)) = (is_known, shared.settings()) {
                    let settings = PeerSettings {
                        connect_protocol: settings.enable_extended_connect(),
                        datagrams: settings.enable_datagram(),
                    };
                    tell.send_replace(Some(settings));
                }
                end
            });
            let end = end.await;
            tracing::debug!(%end, "HTTP/3 connection ended");
        });
        Ok(Self {
            requests: Arc::new(Mutex::new(requests)),
            adapter,
            peer,
            hub,
        })
    }

    /// Waits for the server's settings.
    pub(super) async fn peer_settings(&self) -> Result<PeerSettings, LinkError> {
        let mut peer = self.peer.clone();
        let arrived = peer.wait_for(Option::is_some).await;
        let settings = arrived.ok().and_then(|settings| *settings);
        settings.ok_or_else(|| self.over())
    }

    /// Sends a stream of a reserved type, which servers must ignore (RFC 9114 section 6.2.3).
    /// Returns true once the server has acknowledged it, or immediately false if the server
    /// allows no further stream.
    pub(super) async fn probe(&self) -> Result<bool, LinkError> {
        let mut opening = pin!(self.connection().open_uni());
        let opened = poll_fn(|cx| Poll::Ready(opening.as_mut().poll(cx))).await;
        let Poll::Ready(opened) = opened else {
            return Ok(false);
        };
        let probe = async {
            let mut stream = opened.ok()?;
            stream.write_all(&RESERVED_STREAM).await.ok()?;
            stream.finish().ok()?;
            stream.stopped().await.ok()
        };
        // A server that stops the stream has received it, too.
        match (probe.await, self.connection().close_reason()) {
            (None, Some(_)) => Err(self.over()),
            _ => Ok(true),
        }
    }

    /// Returns the underlying connection.
    pub(super) const fn connection(&self) -> &driver::Connection {
        self.adapter.connection()
    }

    /// Returns the number of arrived HTTP datagrams that were dropped for lack of room or a stream.
    pub(super) fn dropped_datagrams(&self) -> u64 {
        self.hub.as_ref().map_or(0, |hub| hub.dropped())
    }

    /// Sends the header section of a request.
    pub(super) async fn request(&self, head: Request<()>) -> Result<Exchange, LinkError> {
        self.send_head(head, None).await
    }

    /// Sends the header section of a request, using `frame` as its encoding if there is one.
    pub(super) async fn send_head(
        &self,
        head: Request<()>,
        frame: Option<Bytes>,
    ) -> Result<Exchange, LinkError> {
        let mut requests = {
            let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(frame) = frame {
                self.adapter.next().leave(frame);
            }
            requests.clone()
        };
        let sending = requests.send_request(head).await;
        let stream = sending.map_err(|error| self.adapter.stream_error(error))?;
        Ok(Exchange {
            stream,
            sent: false,
            received: false,
            left: false,
            interim: 0,
            early: None,
            link: self.clone(),
        })
    }

    /// Returns the datagrams of a stream, if the link has tunnels.
    pub(super) fn flow(&self, stream: u64) -> Option<DatagramFlow> {
        self.hub.as_ref().map(|hub| hub.flow(stream))
    }

    pub(super) const fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    fn over(&self) -> LinkError {
        LinkError::of_connection(self.connection().close_reason(), &"it is closed")
    }
}

impl Exchange {
    pub(super) fn id(&self) -> u64 {
        self.stream.id().into_inner()
    }

    /// Keeps the stream open when the exchange is dropped.
    pub(super) fn leave(&mut self) {
        (self.sent, self.left) = (true, true);
        self.link.adapter.hints().want_parts(self.id());
    }

    /// Announces the approximate size of the content to the transport. Call this before sending it.
    pub(super) fn announce(&self, bytes: u64) {
        let hint = Hint { priority: 0, bytes };
        self.link.adapter.hints().leave(self.id(), hint);
    }

    /// Sends content.
    pub(super) async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        if data.is_empty() {
            return Ok(());
        }
        self.link.adapter.checked(self.stream.send_data(data).await)
    }

    /// Ends the request. A server can stop the stream with H3_NO_ERROR before reading the whole
    /// request, in which case its response is still valid (RFC 9114 section 4.1).
    pub(super) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        match self.end(trailers).await {
            Err(StreamError::RemoteTerminate { code, .. }) if code == Code::H3_NO_ERROR => {}
            ended => ended.map_err(|error| self.link.adapter.stream_error(error))?,
        }
        self.sent = true;
        Ok(())
    }

    async fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), StreamError> {
        if let Some(trailers) = trailers {
            self.stream.send_trailers(trailers).await?;
        }
        self.stream.finish().await
    }

    /// Returns an interim response if one has arrived, without waiting.
    pub(super) fn interim(&mut self) -> Option<Response<()>> {
        if self.early.is_some() {
            return None;
        }
        // Dropping the future loses nothing, because it only removes a response that is complete.
        let received = {
            let mut context = Context::from_waker(Waker::noop());
            pin!(self.receive()).poll(&mut context)
        };
        match received {
            Poll::Pending => None,
            Poll::Ready(Ok(response)) if response.status().is_informational() => Some(response),
            Poll::Ready(ended) => {
                self.early = Some(ended);
                None
            }
        }
    }

    /// Waits for the final response's header section.
    pub(super) async fn response(&mut self) -> Result<Response<()>, LinkError> {
        if let Some(early) = self.early.take() {
            return early;
        }
        loop {
            let response = self.receive().await?;
            if !response.status().is_informational() {
                return Ok(response);
            }
        }
    }

    /// Waits for the next response, either interim or final.
    async fn receive(&mut self) -> Result<Response<()>, LinkError> {
        let response = self
            .link
            .adapter
            .checked(self.stream.recv_response().await)?;
        self.interim += usize::from(response.status().is_informational());
        if self.interim <= MAX_INTERIM {
            Ok(response)
        } else {
            Err(LinkError::endless())
        }
    }

    /// Returns the next bytes of the response's content, or `None` at its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        let data = self.link.adapter.checked(self.stream.recv_data().await)?;
        Ok(data.map(|mut data| data.copy_to_bytes(data.remaining())))
    }

    /// Returns the response's trailer section, once [`data`](Self::data) has returned `None`.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        let trailers = self
            .link
            .adapter
            .checked(self.stream.recv_trailers().await)?;
        self.received = true;
        Ok(trailers)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let _ = self.link.adapter.hints().take(self.id());
        if !self.sent {
            self.stream.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
        if self.left {
            return;
        }
        // After a complete response, only the end of the stream can still arrive.
        let code = if self.received {
            Code::H3_NO_ERROR
        } else {
            Code::H3_REQUEST_CANCELLED
        };
        self.stream.stop_sending(code);
    }
}
