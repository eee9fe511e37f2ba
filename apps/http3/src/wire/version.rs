//! The interface that both versions of HTTP share: a request's head and content, and its response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use pathmark_driver as driver;

use super::adapter::head_limit;
use super::{
    ClientConnect, DatagramFlow, LinkError, PeerSettings, TcpConnection, TunnelRecv, TunnelSend,
    client, http2, server,
};

/// A part of HTTP/3 or of HTTP/2.
#[derive(Clone)]
enum Version<Three, Two> {
    Three(Three),
    Two(Two),
}

use Version::{Three, Two};

/// Accepts the requests of a connection.
pub struct ServerLink(Version<server::Link, http2::ServerLink>);

/// A request whose header section may not have been read yet.
pub struct Incoming(Version<server::Incoming, http2::Incoming>);

/// A request and its response. Dropping it before [`finish`](Self::finish) resets the stream.
pub struct ServerExchange(Version<server::Exchange, http2::ServerExchange>);

/// Sends requests on a connection. The connection is closed when the last clone and the last
/// exchange are dropped.
#[derive(Clone)]
pub struct ClientLink(Version<client::Link, http2::ClientLink>);

/// A request and its response. Dropping it before its end cancels the request.
pub struct ClientExchange(Version<client::Exchange, http2::ClientExchange>);

/// Limits a header section to what `h2` can count.
fn tcp_head_limit(max_head: u64) -> u32 {
    u32::try_from(head_limit(max_head)).unwrap_or(u32::MAX)
}

impl ServerLink {
    /// Begins HTTP/3 on a connection whose handshake is complete. `max_head` limits the header
    /// sections of requests.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn new(connection: driver::Connection, max_head: u64) -> Result<Self, LinkError> {
        let link = server::Link::begin(connection, max_head, false).await?;
        Ok(Self(Three(link)))
    }

    /// Does the same with extended CONNECT (RFC 9220) and HTTP datagrams (RFC 9297) enabled.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn with_tunnels(
        connection: driver::Connection,
        max_head: u64,
    ) -> Result<Self, LinkError> {
        let link = server::Link::begin(connection, max_head, true).await?;
        Ok(Self(Three(link)))
    }

    /// Begins HTTP/2, with at most `streams` requests at a time.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn over_tcp(
        connection: TcpConnection,
        max_head: u64,
        streams: u32,
    ) -> Result<Self, LinkError> {
        let link = http2::ServerLink::begin(connection, tcp_head_limit(max_head), streams);
        Ok(Self(Two(link.await?)))
    }

    /// Returns the number of arrived HTTP datagrams that were dropped for lack of room or a stream.
    pub fn dropped_datagrams(&self) -> u64 {
        match &self.0 {
            Three(link) => link.dropped_datagrams(),
            Two(_) => 0,
        }
    }

    /// Waits for the next request. Returns `None` once the client has closed the connection
    /// without an error. Dropping the future loses no request.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn next(&mut self) -> Result<Option<Incoming>, LinkError> {
        Ok(match &mut self.0 {
            Three(link) => link.next().await?.map(|next| Incoming(Three(next))),
            Two(link) => link.next().await?.map(|next| Incoming(Two(next))),
        })
    }
}

impl Incoming {
    /// Reads the header section, which must arrive within `limit`.
    ///
    /// # Errors
    /// [`LinkError`]. The stream is then reset, unless a status code explains the failure.
    pub async fn head(self, limit: Duration) -> Result<(Request<()>, ServerExchange), LinkError> {
        self.head_unless(limit, std::future::pending()).await
    }

    /// Does the same, but gives up if `displaced` completes before the header section has arrived.
    ///
    /// # Errors
    /// As for [`head`](Self::head).
    pub async fn head_unless(
        self,
        limit: Duration,
        displaced: impl Future<Output = ()>,
    ) -> Result<(Request<()>, ServerExchange), LinkError> {
        Ok(match self.0 {
            Three(incoming) => {
                let (request, exchange) = incoming.head_unless(limit, displaced).await?;
                (request, ServerExchange(Three(exchange)))
            }
            Two(incoming) => {
                let (request, exchange) = incoming.head();
                (request, ServerExchange(Two(exchange)))
            }
        })
    }
}

impl ServerExchange {
    /// Receives the stream's HTTP datagrams from now on. Returns `None` without tunnels.
    pub fn datagrams(&self) -> Option<DatagramFlow> {
        match &self.0 {
            Three(exchange) => exchange.datagrams(),
            Two(_) => None,
        }
    }

    /// Takes the content in both directions, after a 2xx response to CONNECT.
    #[must_use]
    pub fn into_tunnel(self) -> Option<(TunnelSend, TunnelRecv)> {
        match self.0 {
            Three(exchange) => exchange.into_tunnel(),
            Two(_) => None,
        }
    }

    /// Ends the exchange immediately with an HTTP/3 error code.
    pub fn reset(&mut self, code: u64) {
        match &mut self.0 {
            Three(exchange) => exchange.reset(code),
            Two(exchange) => exchange.reset(code),
        }
    }

    /// Returns the next bytes of the request's content, or `None` at its end.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.data().await,
            Two(exchange) => exchange.data().await,
        }
    }

    /// Returns the request's trailer section, once [`data`](Self::data) has returned `None`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.trailers().await,
            Two(exchange) => exchange.trailers().await,
        }
    }

    /// Waits until the client no longer wants the response or has gone. It must be awaited in the
    /// task that sends the response.
    pub fn gone(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let gone = match &self.0 {
            Three(exchange) => Three(exchange.gone()),
            Two(exchange) => Two(exchange.gone()),
        };
        async move {
            match gone {
                Three(gone) => gone.await,
                Two(gone) => gone.await,
            }
        }
    }

    /// Informs the client that the rest of the content is not needed.
    pub fn stop(&mut self) {
        // HTTP/2 can only say this after the response.
        if let Three(exchange) = &mut self.0 {
            exchange.stop();
        }
    }

    /// Gives the transport a hint about the response: its urgency (RFC 9218: 0 to 7, where 0 is
    /// the most urgent) and its approximate size in bytes. Call this before responding. It has no
    /// effect on TCP.
    pub fn hint(&self, urgency: u8, bytes: u64) {
        if let Three(exchange) = &self.0 {
            exchange.hint(urgency, bytes);
        }
    }

    /// Sends the header section of a response, either interim (status 1xx) or final.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn respond(&mut self, head: Response<()>) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.respond(head).await,
            Two(exchange) => exchange.respond(head),
        }
    }

    /// Sends content.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.send(data).await,
            Two(exchange) => exchange.send(data).await,
        }
    }

    /// Ends the response, after handing it to the transport completely.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.finish(trailers).await,
            Two(exchange) => exchange.finish(trailers),
        }
    }

    /// Waits until the client has acknowledged all of a finished response or closed the
    /// connection without an error. TCP tells nothing about this, so that a response counts as soon
    /// as it is handed over.
    ///
    /// # Errors
    /// [`LinkError`], which is [`LinkError::Reset`] if the client does not want the rest.
    pub async fn acknowledged(&mut self) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.acknowledged().await,
            Two(_) => Ok(()),
        }
    }
}

impl ClientLink {
    /// Begins HTTP/3 on a connection whose handshake is complete. A spawned task drives the
    /// connection until it is closed. `max_head` limits the header sections of responses.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn new(connection: driver::Connection, max_head: u64) -> Result<Self, LinkError> {
        let link = client::Link::begin(connection, max_head, false).await?;
        Ok(Self(Three(link)))
    }

    /// Does the same with HTTP datagrams enabled, for [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn with_tunnels(
        connection: driver::Connection,
        max_head: u64,
    ) -> Result<Self, LinkError> {
        let link = client::Link::begin(connection, max_head, true).await?;
        Ok(Self(Three(link)))
    }

    /// Begins HTTP/2.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn over_tcp(connection: TcpConnection, max_head: u64) -> Result<Self, LinkError> {
        let link = http2::ClientLink::begin(connection, tcp_head_limit(max_head)).await?;
        Ok(Self(Two(link)))
    }

    /// Waits for the server's settings.
    ///
    /// # Errors
    /// [`LinkError`], if the connection ends first.
    pub async fn peer_settings(&self) -> Result<PeerSettings, LinkError> {
        match &self.0 {
            Three(link) => link.peer_settings().await,
            Two(_) => Ok(PeerSettings {
                connect_protocol: false,
                datagrams: false,
            }),
        }
    }

    /// Sends a stream of a reserved type, which servers must ignore (RFC 9114 section 6.2.3).
    /// Returns true once the server has acknowledged it, or immediately false if the server
    /// allows no further stream, or none of such a type as over TCP.
    ///
    /// # Errors
    /// [`LinkError`], if the connection ends first.
    pub async fn probe(&self) -> Result<bool, LinkError> {
        match &self.0 {
            Three(link) => link.probe().await,
            Two(_) => Ok(false),
        }
    }

    /// Returns the underlying connection of HTTP/3.
    pub const fn connection(&self) -> Option<&driver::Connection> {
        match &self.0 {
            Three(link) => Some(link.connection()),
            Two(_) => None,
        }
    }

    /// Returns the number of arrived HTTP datagrams that were dropped for lack of room or a stream.
    pub fn dropped_datagrams(&self) -> u64 {
        match &self.0 {
            Three(link) => link.dropped_datagrams(),
            Two(_) => 0,
        }
    }

    /// Sends the header section of a request.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn request(&self, head: Request<()>) -> Result<ClientExchange, LinkError> {
        Ok(ClientExchange(match &self.0 {
            Three(link) => Three(link.request(head).await?),
            Two(link) => Two(link.request(head).await?),
        }))
    }

    /// Sends a CONNECT request. An extended CONNECT has a `protocol`, and should only be sent to
    /// servers whose [`peer_settings`](Self::peer_settings) have `connect_protocol`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn connect(
        &self,
        head: Request<()>,
        protocol: Option<&str>,
    ) -> Result<ClientConnect, LinkError> {
        match &self.0 {
            Three(link) => link.connect(head, protocol).await,
            Two(_) => Err(LinkError::Ended("tunnels need UDP".to_owned())),
        }
    }
}

impl ClientExchange {
    /// Announces the approximate size of the content to the transport. Call this before sending it.
    pub fn announce(&self, bytes: u64) {
        if let Three(exchange) = &self.0 {
            exchange.announce(bytes);
        }
    }

    /// Sends content.
    ///
    /// # Errors
    /// [`LinkError`]. Even after [`LinkError::Reset`], the server may have sent a response.
    pub async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.send(data).await,
            Two(exchange) => exchange.send(data).await,
        }
    }

    /// Ends the request. A server can stop the stream with H3_NO_ERROR before reading the whole
    /// request, in which case its response is still valid (RFC 9114 section 4.1).
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.finish(trailers).await,
            Two(exchange) => exchange.finish(trailers),
        }
    }

    /// Returns an interim response if one has arrived, without waiting.
    pub fn interim(&mut self) -> Option<Response<()>> {
        match &mut self.0 {
            Three(exchange) => exchange.interim(),
            Two(exchange) => exchange.interim(),
        }
    }

    /// Waits for the final response's header section.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn response(&mut self) -> Result<Response<()>, LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.response().await,
            Two(exchange) => exchange.response().await,
        }
    }

    /// Returns the next bytes of the response's content, or `None` at its end.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn data(&mut self) -> Result<Option<Bytes>, LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.data().await,
            Two(exchange) => exchange.data().await,
        }
    }

    /// Returns the response's trailer section, once [`data`](Self::data) has returned `None`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn trailers(&mut self) -> Result<Option<HeaderMap>, LinkError> {
        match &mut self.0 {
            Three(exchange) => exchange.trailers().await,
            Two(exchange) => exchange.trailers().await,
        }
    }
}
