//! Packets of simulated clients. Tests only.

use core::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pathmark_cc::{Controller, NewReno};

use super::*;
use crate::TransportConfig;
use crate::crypto::null::{NullCrypto, NullEndpointKey};
use crate::crypto::{ClientCrypto, InitialCrypto, Side};
use crate::wire::packet::{Header, TAG_LEN, TruncatedNumber};
use crate::wire::{ConnectionId, Writer};

pub(super) fn transport() -> Arc<TransportConfig> {
    Arc::new(TransportConfig::new(Arc::new(
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) },
    )))
}

pub(super) fn crypto() -> Arc<NullCrypto> {
    Arc::new(NullCrypto::new(&[b"test"]))
}

pub(super) const NOW: Instant = Instant::from_millis(1000);

pub(super) const EPOCH: Duration = Duration::from_secs(1_700_000_000);

pub(super) fn config(server: bool) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(NullEndpointKey::new(99)), EPOCH);
    config.server = server.then(|| ServerConfig {
        transport: transport(),
        crypto: crypto(),
    });
    config
}

pub(super) fn server() -> Endpoint {
    Endpoint::new(config(true), Random::from_u64(1))
}

pub(super) fn from(port: u16) -> Received {
    Received::plain(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 7), port)))
}

pub(super) fn id(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

/// A connection to `remote` that a client begins.
pub(super) fn connect_to(remote: SocketAddr) -> Connect {
    Connect {
        config: transport(),
        crypto: crypto(),
        server_name: "server.test".into(),
        remote,
        local: None,
        token: Vec::new(),
    }
}

/// A client's Initial with its ClientHello, in a datagram of `len` bytes.
pub(super) fn initial(
    crypto: &dyn ClientCrypto,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    len: usize,
) -> Vec<u8> {
    let mut hello = Vec::new();
    let mut session = crypto.start("server.test", vec![0; 60], 1).unwrap();
    session.write_handshake(&mut hello);
    let mut datagram = vec![0; len];
    let mut w = Writer::new(&mut datagram);
    let started = Header::Initial {
        dcid: *dcid,
        scid: *scid,
        token,
        number: TruncatedNumber::with_len(0, 1),
    }
    .encode(&mut w)
    .unwrap();
    // A CRYPTO frame at offset 0, then PADDING.
    w.put_u8(0x06).unwrap();
    w.put_u8(0).unwrap();
    w.put_prefixed(&hello).unwrap();
    let room = w.remaining() - TAG_LEN;
    w.put_zeros(room).unwrap();
    started.finish(&mut w, TAG_LEN).unwrap();
    let keys = InitialCrypto::initial_keys(crypto, dcid.as_slice(), Side::Client).local;
    let (number_at, header_len) = (started.number_at(), started.payload_at());
    keys.packet.seal(0, &mut datagram, header_len).unwrap();
    respond::mask(&mut datagram, number_at, header_len, |sample| {
        keys.header.mask(sample)
    });
    datagram
}

/// The usual Initial of client `n`.
pub(super) fn hello(n: u64, token: &[u8]) -> Vec<u8> {
    initial(&*crypto(), &id(n), &id(n + 1_000_000), token, 1200)
}
