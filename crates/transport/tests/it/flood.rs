//! A flood of garbage and half-open handshakes only needs limited memory at an endpoint, which
//! continues to serve.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pathmark_cc::{Controller, NewReno};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::{Connection, Received};
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::crypto::{ClientCrypto, Random, ServerCrypto};
use pathmark_transport::endpoint::{
    Connect, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, RetryPolicy, ServerConfig,
};
use pathmark_transport::{Duration, Instant};

use crate::memory::{forget, most};
use crate::plain;

const MIB: isize = 1 << 20;

pub(crate) fn transport() -> Arc<TransportConfig> {
    Arc::new(TransportConfig::new(Arc::new(
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) },
    )))
}

fn endpoint(server: Option<Arc<dyn ServerCrypto>>, retry: RetryPolicy, seed: u64) -> Endpoint {
    let epoch = Duration::from_secs(1_700_000_000);
    let mut config = EndpointConfig::new(Arc::new(NullEndpointKey::new(seed)), epoch);
    config.retry = retry;
    config.server = server.map(|crypto| ServerConfig {
        transport: transport(),
        crypto,
    });
    Endpoint::new(config, Random::from_u64(seed))
}

fn from(n: u32) -> Received {
    let host = Ipv4Addr::from_bits(0x0a00_0000 + n / 64);
    plain(SocketAddr::from((host, (n % 64) as u16 + 1)))
}

/// Returns the datagrams that a connection has to send.
fn transmits(now: Instant, connection: &mut Connection) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut buffer = vec![0; 65_536];
    while let Some(transmit) = connection.poll_transmit(now, &mut buffer, 10) {
        let sent = &buffer[..transmit.len];
        datagrams.extend(sent.chunks(transmit.segment_size).map(<[u8]>::to_vec));
    }
    datagrams
}

/// A server with the connections that it accepts.
struct Server {
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Box<Connection>)>,
}

impl Server {
    /// Handles a datagram, and returns the answers to its sender.
    fn take(&mut self, now: Instant, received: Received, datagram: &mut [u8]) -> Vec<Vec<u8>> {
        let mut answer = Vec::new();
        let handle = match self.endpoint.handle(now, &received, datagram, &mut answer) {
            DatagramEvent::Respond => return vec![answer],
            DatagramEvent::Nothing => return Vec::new(),
            DatagramEvent::Incoming(incoming) => {
                while let Some(evicted) = self.endpoint.poll_evicted() {
                    let at = self.position(evicted);
                    let (_, mut connection) = self.connections.swap_remove(at);
                    connection.refuse(now);
                    transmits(now, &mut connection);
                    assert!(!self.endpoint.update(now, evicted, &mut connection));
                }
                let Ok((handle, connection)) = self.endpoint.accept(now, incoming) else {
                    return Vec::new();
                };
                self.connections.push((handle, connection));
                handle
            }
            DatagramEvent::Connection(handle) => {
                let connection = self.find(handle);
                connection.handle_datagram(now, received, datagram);
                handle
            }
        };
        let out = transmits(now, self.find(handle));
        let at = self.position(handle);
        let (_, connection) = &mut self.connections[at];
        if !self.endpoint.update(now, handle, connection) {
            self.connections.swap_remove(at);
        }
        out
    }

    /// Lets time pass until `end`, following each connection's deadlines.
    fn run_timers(&mut self, end: Instant) {
        let endpoint = &mut self.endpoint;
        self.connections.retain_mut(|(handle, connection)| {
            while let Some(deadline) = connection.deadline().filter(|d| *d <= end) {
                connection.handle_timeout(deadline);
                transmits(deadline, connection);
                if !endpoint.update(deadline, *handle, connection) {
                    return false;
                }
            }
            true
        });
    }

    fn position(&self, handle: ConnectionHandle) -> usize {
        let found = self.connections.iter().rposition(|(h, _)| *h == handle);
        found.expect("the endpoint knows its connections")
    }

    fn find(&mut self, handle: ConnectionHandle) -> &mut Connection {
        let at = self.position(handle);
        &mut self.connections[at].1
    }
}

/// Begins a connection to the server from an endpoint of its own.
fn begin(
    seed: u64,
    crypto: &Arc<dyn ClientCrypto>,
    now: Instant,
) -> (Endpoint, ConnectionHandle, Box<Connection>) {
    let mut client = endpoint(None, RetryPolicy::Never, seed);
    let connect = Connect {
        config: transport(),
        crypto: Arc::clone(crypto),
        server_name: "server.test".into(),
        remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 4433)),
        local: None,
        token: Vec::new(),
    };
    let (handle, connection) = client.connect(now, connect).expect("a client");
    (client, handle, connection)
}

/// Opens a connection to the server. Returns true if it is established on both sides.
fn serves(server: &mut Server, crypto: &Arc<dyn ClientCrypto>, now: Instant, n: u32) -> bool {
    let (mut client, handle, mut connection) = begin(u64::from(n) + 1000, crypto, now);
    let back = plain(SocketAddr::from((Ipv4Addr::LOCALHOST, 4433)));
    for _ in 0..10 {
        for mut datagram in transmits(now, &mut connection) {
            for mut answer in server.take(now, from(n), &mut datagram) {
                connection.handle_datagram(now, back, &mut answer);
                client.update(now, handle, &mut connection);
            }
        }
        if connection.handshake().is_confirmed() {
            return true;
        }
    }
    false
}

/// Floods a server, and returns by how many bytes memory has grown.
fn flood(
    server_crypto: &Arc<dyn ServerCrypto>,
    client_crypto: &Arc<dyn ClientCrypto>,
    retry: RetryPolicy,
) -> isize {
    let mut server = Server {
        endpoint: endpoint(Some(Arc::clone(server_crypto)), retry, 1),
        connections: Vec::new(),
    };
    let mut now = Instant::from_millis(1);
    let serving = serves(&mut server, client_crypto, now, 1);
    assert!(serving, "before the flood");
    forget(0);

    let mut random = Random::from_u64(9);
    let mut garbage = [0; 1200];
    for n in 0..60_000u32 {
        now += Duration::from_micros(20);
        // A client's first packet from a new address, without any further packets.
        if n.is_multiple_of(4) {
            let (.., mut connection) = begin(u64::from(n) + 5_000_000, client_crypto, now);
            for mut datagram in transmits(now, &mut connection) {
                server.take(now, from(100 + n), &mut datagram);
            }
        }
        // Garbage: long headers of version 1, of other versions, and short headers.
        random.fill(&mut garbage);
        match n % 3 {
            0 => garbage[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]),
            1 => garbage[0] = 0xc0,
            _ => garbage[0] = 0x41,
        }
        server.take(now, from(n), &mut garbage);
    }
    let grown = most(0);
    let stats = server.endpoint.stats();
    if retry == RetryPolicy::Never {
        assert_eq!(server.endpoint.half_open(), 512, "{stats:?}");
        // Incomplete handshakes time out, so that there is room again.
        server.run_timers(now + Duration::from_secs(120));
        now += Duration::from_secs(120);
        assert_eq!(server.endpoint.half_open(), 0);
    } else {
        // During the flood, clients that prove their address are served.
        assert!(stats.retries_sent > 10_000, "{stats:?}");
    }
    let serving = serves(&mut server, client_crypto, now, 2);
    assert!(serving, "after the flood");
    grown
}

fn check(name: &str, server: &Arc<dyn ServerCrypto>, client: &Arc<dyn ClientCrypto>) {
    let automatic = RetryPolicy::Automatic { half_open: 128 };
    for retry in [automatic, RetryPolicy::Never] {
        let grown = flood(server, client, retry);
        println!("{name}, {retry:?}: {} KiB above rest", grown / 1024);
        assert!(grown <= 32 * MIB, "{grown} bytes");
    }
}

#[test]
fn flood_costs_bounded_memory_and_the_server_goes_on_serving() {
    let null = Arc::new(NullCrypto::new(&[b"test"]));
    let server: Arc<dyn ServerCrypto> = null.clone();
    let client: Arc<dyn ClientCrypto> = null;
    check("null cipher", &server, &client);

    #[cfg(feature = "rustls")]
    {
        use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
        let server = TlsServerConfig::from_pem(
            include_bytes!("../../src/crypto/tls/testdata/server.pem"),
            include_bytes!("../../src/crypto/tls/testdata/server.key"),
            &[b"test"],
        );
        let client = TlsClientConfig::new(Trust::Anyone, &[b"test"]);
        let server: Arc<dyn ServerCrypto> = Arc::new(server.expect("usable"));
        let client: Arc<dyn ClientCrypto> = Arc::new(client.expect("usable"));
        check("TLS", &server, &client);
    }
}
