//! Attackers: connections whose packets are made by hand, and handshakes that never end.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use super::*;
use crate::shared::Shared;
use pathmark_transport::connection as core;
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::tls::{EndpointSecret, TlsClientConfig};
use pathmark_transport::endpoint::{self, ConnectionHandle, EndpointConfig};
use pathmark_transport::wire::frame::Stream;
use pathmark_transport::wire::{Dir, Frame, Side, StreamId};

/// Streams of one kind that a peer can open by default.
const STREAMS: u64 = 128;
/// Pieces per packet.
const PIECES: u64 = 120;
/// Bytes of IPv4 and UDP headers.
const HEADERS: usize = 28;

/// How an attack sends over one of its connections.
pub(super) trait Attack: Send + 'static {
    /// Sends something to `server`, and returns the number of bytes including headers.
    fn send(&mut self, server: SocketAddr) -> usize;
}

/// Connects a client at 127.0.1.`host` to `server`.
async fn connect(server: SocketAddr, host: u8) -> (Endpoint, Arc<Shared>, Connection) {
    let endpoint = Endpoint::client((Ipv4Addr::new(127, 0, 1, host), 0).into()).unwrap();
    let config = ClientConfig::with_transport(forging(client_tls()), Arc::new(boundless()));
    let connecting = endpoint.connect_with(config, server, NAME).unwrap();
    let shared = Arc::clone(connecting.shared());
    let connection = connecting.await.unwrap();
    connection.confirmed().await.unwrap();
    (endpoint, shared, connection)
}

fn byte(stream: u64, offset: u64) -> Frame<'static> {
    Frame::Stream(Stream {
        id: StreamId::new(Side::Client, Dir::Uni, stream).unwrap(),
        offset,
        fin: false,
        data: b"x",
    })
}

/// A connection whose packets are made by hand.
pub(super) struct Forger {
    shared: Arc<Shared>,
    /// The sockets that send the packets, in turn.
    sockets: Vec<UdpSocket>,
    sent: u64,
    kind: Kind,
    _alive: (Endpoint, Connection),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pieces of one byte, far apart.
    Pieces,
    /// All streams that can be opened, and then one more byte on each, in order.
    Streams,
    /// Small packets, skipping every second packet number.
    Gaps,
    /// Packets from constantly changing addresses.
    Rebinding,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Pieces, Self::Streams, Self::Gaps, Self::Rebinding];
}

impl Forger {
    pub(super) async fn new(kind: Kind, server: SocketAddr, host: u8) -> Self {
        let (endpoint, shared, connection) = connect(server, host).await;
        let sockets = match kind {
            Kind::Rebinding => 8u8,
            Kind::Pieces | Kind::Streams | Kind::Gaps => 0,
        };
        let socket = |n: u8| UdpSocket::bind((Ipv4Addr::new(127, 0, 2 + n, host), 0)).unwrap();
        Self {
            shared,
            sockets: (0..sockets).map(socket).collect(),
            sent: 0,
            kind,
            _alive: (endpoint, connection),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let n = self.sent;
        match self.kind {
            Kind::Pieces => {
                // Spread over all streams that can be opened, and over their whole windows.
                let piece = |i: u64| {
                    let i = n * PIECES + i;
                    byte(i % STREAMS, 1 + i / STREAMS * 2 % 200_000)
                };
                frames(&(0..PIECES).map(piece).collect::<Vec<_>>())
            }
            Kind::Streams => frames(&(0..STREAMS).map(|i| byte(i, n)).collect::<Vec<_>>()),
            Kind::Gaps => frames(&[Frame::Ping]),
            // Every second packet has full size, so that the path can be validated if there is an
            // answer.
            Kind::Rebinding => {
                let mut frames = frames(&[Frame::Ping]);
                frames.resize(if n.is_multiple_of(2) { 1 } else { 1130 }, 0);
                frames
            }
        }
    }
}

impl Attack for Forger {
    fn send(&mut self, server: SocketAddr) -> usize {
        assert_eq!(self.shared.lock().lost(), None, "{:?}", self.kind);
        let packets = forge(&self.shared, |core| {
            let payload = self.payload();
            if self.kind == Kind::Gaps {
                packets(core, clock::now(), &payload);
            }
            payload
        });
        self.sent += 1;
        let turn = self.sent as usize % self.sockets.len().max(1);
        let mut sent = 0;
        for bytes in packets {
            if let Some(socket) = self.sockets.get(turn) {
                let _ = socket.send_to(&bytes, server);
            } else {
                send_by(&self.shared, server, &bytes);
            }
            sent += bytes.len() + HEADERS;
        }
        sent
    }
}

/// Starts one handshake after the other, proves its address if necessary, and completes none.
pub(super) struct SlowHandshakes {
    socket: UdpSocket,
    crypto: Arc<TlsClientConfig>,
    seed: u64,
    /// The latest handshake.
    last: Option<Box<core::Connection>>,
}

impl SlowHandshakes {
    pub(super) fn new(host: u8) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, host), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            crypto: Arc::new(client_tls()),
            seed: u64::from(host),
            last: None,
        }
    }

    fn begin(&mut self, server: SocketAddr) -> (ConnectionHandle, Box<core::Connection>) {
        self.seed += 1000;
        let key = Arc::new(EndpointSecret::new(&[3; 32]).unwrap());
        let config = EndpointConfig::new(key, clock::unix_time());
        let random = Random::from_u64(self.seed);
        let connect = endpoint::Connect {
            config: Arc::new(transport()),
            crypto: Arc::clone(&self.crypto) as _,
            server_name: NAME.into(),
            remote: server,
            local: None,
            token: Vec::new(),
        };
        let mut endpoint = endpoint::Endpoint::new(config, random);
        endpoint.connect(clock::now(), connect).unwrap()
    }

    fn flight(&self, connection: &mut core::Connection, server: SocketAddr) -> usize {
        let mut buffer = [0; 4096];
        let mut sent = 0;
        while let Some(transmit) = connection.poll_transmit(clock::now(), &mut buffer, 1) {
            let _ = self.socket.send_to(&buffer[..transmit.len], server);
            sent += transmit.len + HEADERS;
        }
        sent
    }
}

impl Attack for SlowHandshakes {
    fn send(&mut self, server: SocketAddr) -> usize {
        let mut sent = 0;
        let mut bytes = [0; 2048];
        let mut last = self.last.take();
        while let Ok(length) = self.socket.recv(&mut bytes) {
            // Only a Retry is processed; all other answers are ignored.
            if let Some(last) = &mut last
                && bytes[0] & 0xf0 == 0xf0
            {
                last.handle_datagram(clock::now(), received_from(server), &mut bytes[..length]);
                sent += self.flight(last, server);
            }
        }
        let (_, mut connection) = self.begin(server);
        sent += self.flight(&mut connection, server);
        self.last = Some(connection);
        sent
    }
}
