//! CONNECT: plain for TCP (RFC 9114 section 4.4), extended for other protocols (RFC 9220).

use bytes::Bytes;
use http::{Request, Response};

use super::client::{ClientExchange, ClientLink};
use super::datagrams::DatagramFlow;
use super::error::LinkError;
use super::section;
use super::tunnel::{TunnelRecv, TunnelSend, tunnel};

/// A CONNECT request whose response has not arrived. It is cancelled if it is dropped.
pub struct ClientConnect {
    exchange: ClientExchange,
    link: ClientLink,
    datagrams: Option<DatagramFlow>,
}

impl ClientLink {
    /// Sends a CONNECT request; an extended one has a `protocol`, and goes to servers alone whose
    /// [`peer_settings`](Self::peer_settings) have `connect_protocol`.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn connect(
        &self,
        head: Request<()>,
        protocol: Option<&str>,
    ) -> Result<ClientConnect, LinkError> {
        let frame = section::connect(&head, protocol);
        let exchange = self.send_head(head, Some(frame)).await?;
        let datagrams = protocol.and_then(|_| self.flow(exchange.id()));
        Ok(ClientConnect {
            exchange,
            link: self.clone(),
            datagrams,
        })
    }
}

impl ClientConnect {
    /// The head of the final response.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn response(&mut self) -> Result<Response<()>, LinkError> {
        self.exchange.response().await
    }

    /// Sends bytes of the content before the response is there. The server may refuse the request
    /// all the same.
    ///
    /// # Errors
    /// [`LinkError`]; after [`LinkError::Reset`] the server may have responded.
    pub async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        self.exchange.send(data).await
    }

    /// After a response of status 2xx: the content each way, and the datagrams of an extended
    /// CONNECT.
    #[must_use]
    pub fn into_tunnel(self) -> Option<(TunnelSend, TunnelRecv, Option<DatagramFlow>)> {
        let Self {
            mut exchange,
            link,
            datagrams,
        } = self;
        let (stream, hints) = (exchange.id(), link.adapter().hints().clone());
        exchange.leave();
        drop(exchange);
        // The connection closes with its last user.
        let (send, recv) = tunnel(&hints, stream, (Box::new(link.clone()), Box::new(link)))?;
        Some((send, recv, datagrams))
    }
}
