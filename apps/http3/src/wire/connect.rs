//! CONNECT requests: plain for TCP (RFC 9114 section 4.4), and extended for other protocols (RFC
//! 9220).

use bytes::Bytes;
use http::{Request, Response};

use super::client::{ClientExchange, ClientLink};
use super::datagrams::DatagramFlow;
use super::error::LinkError;
use super::section;
use super::tunnel::{TunnelRecv, TunnelSend, tunnel};

/// A CONNECT request whose response has not arrived. Dropping it cancels the request.
pub struct ClientConnect {
    exchange: ClientExchange,
    link: ClientLink,
    datagrams: Option<DatagramFlow>,
}

impl ClientLink {
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
    /// Waits for the final response's header section.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn response(&mut self) -> Result<Response<()>, LinkError> {
        self.exchange.response().await
    }

    /// Sends content before the response has arrived. The server may still refuse the request.
    ///
    /// # Errors
    /// [`LinkError`]. Even after [`LinkError::Reset`], the server may have sent a response.
    pub async fn send(&mut self, data: Bytes) -> Result<(), LinkError> {
        self.exchange.send(data).await
    }

    /// Takes the content in both directions, and the datagrams of an extended CONNECT. It must
    /// follow a 2xx response.
    pub fn into_tunnel(self) -> Option<(TunnelSend, TunnelRecv, Option<DatagramFlow>)> {
        let Self {
            mut exchange,
            link,
            datagrams,
        } = self;
        let (stream, hints) = (exchange.id(), link.adapter().hints().clone());
        exchange.leave();
        drop(exchange);
        // The connection closes when its last user is dropped.
        let (send, recv) = tunnel(&hints, stream, (Box::new(link.clone()), Box::new(link)))?;
        Some((send, recv, datagrams))
    }
}
