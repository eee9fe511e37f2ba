//! CONNECT requests: plain for TCP (RFC 9114 section 4.4), and extended for other protocols (RFC
//! 9220).
//!
//! Their header sections are encoded using QPACK (RFC 9204) with only its static table. This is
//! necessary because `h3` 0.0.8 sends `:scheme` and `:path` with each CONNECT, although a plain
//! CONNECT must not have them (RFC 9114 section 4.4). It also can't keep a field out of compression
//! contexts.

use bytes::Bytes;
use http::{Request, Response};

use super::client::{Exchange, Link};
use super::datagrams::DatagramFlow;
use super::tunnel::{TunnelRecv, TunnelSend, tunnel};
use super::{LinkError, frames};

/// A CONNECT request whose response has not arrived. Dropping it cancels the request.
pub struct ClientConnect {
    exchange: Exchange,
    link: Link,
    datagrams: Option<DatagramFlow>,
}

impl Link {
    /// Sends a CONNECT request.
    pub(super) async fn connect(
        &self,
        head: Request<()>,
        protocol: Option<&str>,
    ) -> Result<ClientConnect, LinkError> {
        let frame = connect(&head, protocol);
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
        let (sender_keeps, receiver_keeps) = (Box::new(link.clone()), Box::new(link));
        let (send, recv) = tunnel(&hints, stream, sender_keeps, receiver_keeps)?;
        Some((send, recv, datagrams))
    }
}

/// Indices in the static table (RFC 9204 appendix A).
const AUTHORITY: u64 = 0;
const PATH: u64 = 1;
const METHOD_CONNECT: u64 = 15;
const SCHEME_HTTPS: u64 = 23;
/// The frame type HEADERS.
const HEADERS: u64 = 1;

/// Encodes the HEADERS frame of a CONNECT request. An extended one (RFC 9220) has a `protocol`.
pub(super) fn connect(request: &Request<()>, protocol: Option<&str>) -> Bytes {
    // Nothing of the dynamic table is required (section 4.5.1).
    let mut section = vec![0, 0];
    let uri = request.uri();
    indexed(&mut section, METHOD_CONNECT);
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    named(&mut section, AUTHORITY, authority.as_bytes());
    if let Some(protocol) = protocol {
        indexed(&mut section, SCHEME_HTTPS);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        named(&mut section, PATH, path.as_bytes());
        literal(&mut section, ":protocol", protocol.as_bytes(), false);
    }
    for (name, value) in request.headers() {
        literal(
            &mut section,
            name.as_str(),
            value.as_bytes(),
            value.is_sensitive(),
        );
    }
    let mut frame = Vec::with_capacity(section.len() + 5);
    frames::put(&mut frame, HEADERS);
    frames::put(&mut frame, section.len() as u64);
    frame.extend_from_slice(&section);
    frame.into()
}

/// Encodes a field line from the static table (section 4.5.2).
fn indexed(out: &mut Vec<u8>, index: u64) {
    prefixed(out, 0b1100_0000, 6, index);
}

/// Encodes a value whose name is in the static table (section 4.5.4).
fn named(out: &mut Vec<u8>, name: u64, value: &[u8]) {
    prefixed(out, 0b0101_0000, 4, name);
    text(out, 0, 7, value);
}

/// Encodes a name and a value (section 4.5.6). Intermediaries must not compress a sensitive one.
fn literal(out: &mut Vec<u8>, name: &str, value: &[u8], sensitive: bool) {
    let flags = if sensitive { 0b0011_0000 } else { 0b0010_0000 };
    text(out, flags, 3, name.as_bytes());
    text(out, 0, 7, value);
}

/// Encodes a string without Huffman coding, whose length has a prefix of `bits` (section 4.1.2).
fn text(out: &mut Vec<u8>, flags: u8, bits: u8, text: &[u8]) {
    prefixed(out, flags, bits, text.len() as u64);
    out.extend_from_slice(text);
}

/// Encodes an integer with a prefix of `bits` (section 4.1.1).
fn prefixed(out: &mut Vec<u8>, flags: u8, bits: u8, value: u64) {
    let most = (1_u64 << bits) - 1;
    if value < most {
        out.push(flags | low(value));
        return;
    }
    out.push(flags | low(most));
    let mut rest = value - most;
    while rest >= 128 {
        out.push(low(rest % 128) | 0x80);
        rest /= 128;
    }
    out.push(low(rest));
}

/// Returns the lowest eight bits.
const fn low(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_connect_has_no_scheme_and_no_path() {
        let request = Request::connect("a:1").body(()).unwrap();
        let frame = connect(&request, None);
        assert_eq!(&frame[..], b"\x01\x08\0\0\xcf\x50\x03a:1");
    }

    #[test]
    fn an_extended_connect_has_all_pseudo_fields_first() {
        let mut request = Request::connect("https://a/b").body(()).unwrap();
        let mut secret = http::HeaderValue::from_static("s");
        secret.set_sensitive(true);
        request.headers_mut().insert("x", secret);
        let frame = connect(&request, Some("p"));
        let expected = b"\x01\x1c\0\0\xcf\x50\x01a\xd7\x51\x02/b\x27\x02:protocol\x01p\x31x\x01s";
        assert_eq!(&frame[..], &expected[..]);
    }

    /// The examples of RFC 7541 appendix C.1, whose integer encoding QPACK uses.
    #[test]
    fn integers_with_a_prefix() {
        for (value, bytes) in [(10, &[10][..]), (1337, &[31, 154, 10]), (31, &[31, 0])] {
            let mut out = Vec::new();
            prefixed(&mut out, 0, 5, value);
            assert_eq!(out, bytes);
        }
    }
}
