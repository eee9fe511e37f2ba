//! The server's side of HTTP/3.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::proto::frame::Frame;
use h3::quic::SendStream as _;
use h3::server::{Connection, RequestResolver, RequestStream};
use http::header::{CONNECTION, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Request, Response};
use pathmark_driver::{self as driver, WriteError};

use super::adapter::{Adapter, head_limit};
use super::datagrams::{DatagramFlow, Hub};
use super::pseudo::is_well_formed;
use super::streams::{BidiStream, Hint};
use super::tunnel::{TunnelRecv, TunnelSend, tunnel};
use super::{LinkError, Protocol, codes};

/// Bytes by which a HEADERS frame can exceed the limit of a header section. A section
/// just above its limit is answered with status 431, and only one far above it with a reset.
const MARGIN: u64 = 16 * 1024;

/// Accepts the requests of a connection.
pub(super) struct Link {
    connection: Connection<Adapter, Bytes>,
    adapter: Adapter,
    /// The datagrams, if the link has tunnels.
    hub: Option<Arc<Hub>>,
}

/// A request whose header section has not been read yet.
pub(super) struct Incoming {
    resolver: RequestResolver<Adapter, Bytes>,
    adapter: Adapter,
    hub: Option<Arc<Hub>>,
}

/// A request and its response. Dropping it before [`finish`](Self::finish) resets the stream.
pub(super) struct Exchange {
    stream: RequestStream<BidiStream, Bytes>,
    adapter: Adapter,
    hub: Option<Arc<Hub>>,
    finished: bool,
    /// Whether the stream has become a tunnel.
    left: bool,
}

impl Link {
    /// Begins HTTP/3. With `tunnels`, extended CONNECT (RFC 9220) and HTTP datagrams (RFC 9297) are
    /// enabled.
    pub(super) async fn begin(
        connection: driver::Connection,
        max_head: u64,
        tunnels: bool,
    ) -> Result<Self, LinkError> {
        let max_head = head_limit(max_head);
        let adapter = Adapter::new(connection, max_head.saturating_add(MARGIN));
        let mut builder = h3::server::builder();
        builder.max_field_section_size(max_head).send_grease(false);
        builder
            .enable_extended_connect(tunnels)
            .enable_datagram(tunnels);
        let building = builder.build(adapter.clone()).await;
        let connection = building.map_err(|error| adapter.connection_error(&error))?;
        let hub = tunnels.then(|| {
            let peer = Arc::clone(&connection.inner.shared);
            Arc::new(Hub::new(adapter.connection().clone(), peer))
        });
        Ok(Self {
            connection,
            adapter,
            hub,
        })
    }

    /// Returns the number of arrived HTTP datagrams that were dropped for lack of room or a stream.
    pub(super) fn dropped_datagrams(&self) -> u64 {
        self.hub.as_ref().map_or(0, |hub| hub.dropped())
    }

    /// Waits for the next request. Returns `None` once the client has closed the connection
    /// without an error. Dropping the future loses no request.
    pub(super) async fn next(&mut self) -> Result<Option<Incoming>, LinkError> {
        match self.connection.accept().await {
            Ok(request) => Ok(request.map(|resolver| Incoming {
                resolver,
                adapter: self.adapter.clone(),
                hub: self.hub.clone(),
            })),
            Err(error) => match self.adapter.connection_error(&error) {
                LinkError::Closed(_) => Ok(None),
                error => Err(error),
            },
        }
    }
}

impl Incoming {
    /// Reads the header section. Unless it arrives within `limit` and before `displaced` completes,
    /// the stream is reset.
    pub(super) async fn head_unless(
        self,
        limit: Duration,
        displaced: impl Future<Output = ()>,
    ) -> Result<(Request<()>, Exchange), LinkError> {
        let Self {
            mut resolver,
            adapter,
            hub,
        } = self;
        let frame = poll_fn(|cx| resolver.frame_stream.poll_next(cx));
        let frame = tokio::select! {
            frame = tokio::time::timeout(limit, frame) => frame,
            () = displaced => {
                resolver.frame_stream.reset(codes::REQUEST_REJECTED);
                return Err(LinkError::Displaced);
            }
        };
        let Ok(frame) = frame else {
            resolver.frame_stream.reset(codes::REQUEST_INCOMPLETE);
            return Err(LinkError::TimedOut);
        };
        if frame.is_err() {
            resolver.frame_stream.reset(codes::REQUEST_INCOMPLETE);
        }
        if let Ok(Some(Frame::Headers(section))) = &frame
            && !is_well_formed(section)
        {
            resolver.frame_stream.reset(codes::MESSAGE_ERROR);
            let why = "it has a pseudo-header field twice or too late (RFC 9114 section 4.3)";
            return Err(LinkError::Message(why.to_owned()));
        }
        let failed = |error| adapter.stream_error(error);
        let resolved = resolver.accept_with_frame(frame).map_err(failed)?;
        let Ok(resolved) = tokio::time::timeout(limit, resolved.resolve()).await else {
            return Err(LinkError::TimedOut);
        };
        let (mut request, stream) = resolved.map_err(failed)?;
        if let Some(protocol) = request.extensions().get::<h3::ext::Protocol>() {
            let protocol = Protocol(protocol.as_str().to_owned());
            request.extensions_mut().insert(protocol);
        }
        let mut exchange = Exchange {
            stream,
            adapter,
            hub,
            finished: false,
            left: false,
        };
        if is_of_a_connection(request.headers()) {
            exchange.reset(codes::MESSAGE_ERROR);
            let why = "it has a field of a connection (RFC 9114 section 4.2)";
            return Err(LinkError::Message(why.to_owned()));
        }
        Ok((request, exchange))
    }
}

/// Returns true for connection-specific fields, which make a message malformed in HTTP/3.
fn is_of_a_connection(headers: &HeaderMap) -> bool {
    let names = [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    names.iter().any(|name| headers.contains_key(name))
        || headers.get_all(TE).iter().any(|value| value != "trailers")
}

impl Exchange {
    fn id(&self) -> u64 {
        self.stream.send_id().into_inner()
    }

    /// Receives the stream's HTTP datagrams from now on. Returns `None` without tunnels.
    pub(super) fn datagrams(&self) -> Option<DatagramFlow> {
        let hub = self.hub.as_ref()?;
        Some(hub.flow(self.id()))
    }

    /// Takes the content in both directions, after a 2xx response to CONNECT.
    #[must_use]
    pub(super) fn into_tunnel(mut self) -> Option<(TunnelSend, TunnelRecv)> {
        let (stream, hints) = (self.id(), self.adapter.hints().clone());
        hints.want_parts(stream);
        self.left = true;
        drop(self);
        tunnel(&hints, stream, Box::new(()), Box::new(()))
    }

    /// Ends the exchange immediately with an HTTP/3 error code.
    pub(super) fn reset(&mut self, code: u64) {
        self.finished = true;
        self.stream.stop_stream(code.into());
        self.stream.stop_sending(code.into());
    }

    /// Returns the next bytes of the request's content, or `None` at its end.
    pub(super) async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        let data = self.adapter.checked(self.stream.recv_data().await)?;
        Ok(data.map(|mut data| data.copy_to_bytes(data.remaining())))
    }

    /// Returns the request's trailer section, once [`data`](Self::data) has returned `None`.
    pub(super) async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        self.adapter.checked(self.stream.recv_trailers().await)
    }

    /// Waits until the client no longer wants the response or has gone.
    pub(super) fn gone(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let stream = self.id();
        let gone = self.adapter.hints().gone(stream);
        async move {
            match gone.await {
                Ok(Some(code)) => LinkError::Reset { code },
                // The response is acknowledged, so the client can't cancel it any more.
                Ok(None) => std::future::pending().await,
                Err(WriteError::ConnectionLost(lost)) => {
                    LinkError::of_connection(Some(lost), &"the connection is lost")
                }
                Err(error) => LinkError::Ended(error.to_string()),
            }
        }
    }

    /// Informs the client that the rest of the content is not needed.
    pub(super) fn stop(&mut self) {
        self.stream.stop_sending(Code::H3_NO_ERROR);
    }

    /// Gives the transport a hint about the response: its urgency (RFC 9218: 0 to 7, where 0 is
    /// the most urgent) and its approximate size in bytes. Call this before responding.
    pub(super) fn hint(&self, urgency: u8, bytes: u64) {
        let priority = -i32::from(urgency);
        self.adapter
            .hints()
            .leave(self.id(), Hint { priority, bytes });
    }

    /// Sends the header section of a response, either interim (status 1xx) or final.
    pub(super) async fn respond(&mut self, head: Response<()>) -> Result<(), LinkError> {
        self.adapter.checked(self.stream.send_response(head).await)
    }

    /// Sends content.
    pub(super) async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        if data.is_empty() {
            return Ok(());
        }
        self.adapter.checked(self.stream.send_data(data).await)
    }

    /// Ends the response, after handing it to the transport completely.
    pub(super) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        if let Some(trailers) = trailers {
            self.adapter
                .checked(self.stream.send_trailers(trailers).await)?;
        }
        self.adapter.hints().want_end(self.id());
        self.adapter.checked(self.stream.finish().await)?;
        self.finished = true;
        Ok(())
    }

    /// Waits until the client has acknowledged all of a finished response or closed the
    /// connection without an error.
    pub(super) async fn acknowledged(&mut self) -> Result<(), LinkError> {
        let stream = self.id();
        let Some(end) = self.adapter.hints().take_end(stream) else {
            return Ok(());
        };
        match end.await {
            // Clients also use QUIC's code to stop a stream that they have completely received.
            Ok(None | Some(0 | codes::NO_ERROR)) => Ok(()),
            Ok(Some(code)) => Err(LinkError::Reset { code }),
            Err(WriteError::ConnectionLost(lost)) => {
                match LinkError::of_connection(Some(lost), &"the connection is lost") {
                    LinkError::Closed(_) => Ok(()),
                    error => Err(error),
                }
            }
            Err(error) => Err(LinkError::Ended(error.to_string())),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let (hints, stream) = (self.adapter.hints(), self.id());
        let _ = (hints.take(stream), hints.take_end(stream));
        hints.forget_opened(stream);
        if self.left {
            return;
        }
        if !self.finished {
            self.stream.stop_stream(Code::H3_INTERNAL_ERROR);
        }
        self.stream.stop_sending(Code::H3_NO_ERROR);
    }
}
