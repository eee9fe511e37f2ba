//! Two connections in memory, without sockets or waiting, with the null cipher and with TLS 1.3:
//! the cost of sending, receiving and acknowledging a packet of a bulk transfer, the cost of a
//! handshake, and that of everything up to the first byte of an answer.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_cc::{Acked, Controller, Lost, Metrics, Phase};
use pathmark_transport::connection::{ClientStart, Connection, Received, ServerStart, Transmit};
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::crypto::{ClientCrypto, Random, ServerCrypto};
use pathmark_transport::streams::{Dir, StreamId, WriteError};
use pathmark_transport::wire::PartialDecode;
use pathmark_transport::{Duration, Instant, TransportConfig};

/// Bytes per measured transfer.
const CHUNK: usize = 8 << 20;
/// Datagrams per batch, as sent by one system call with segmentation offload.
const SEGMENTS: usize = 40;

/// A window and a pace that never limit anything.
#[derive(Debug)]
struct Open;

impl Controller for Open {
    fn on_ack(&mut self, _: Instant, _: &Acked) {}
    fn on_loss(&mut self, _: Instant, _: &Lost) {}
    fn on_persistent_congestion(&mut self, _: Instant) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        8 << 20
    }
    fn pacing_rate(&self) -> Option<u64> {
        Some(1 << 40)
    }
    fn metrics(&self) -> Metrics {
        Metrics::new("open", Phase::Avoidance, self.window())
    }
}

struct Two {
    client: Box<Connection>,
    server: Box<Connection>,
    stream: StreamId,
    now: Instant,
    buffer: Vec<u8>,
    data: Vec<u8>,
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 443))
}

/// Delivers a batch, datagram by datagram, in place.
fn deliver(now: Instant, from: u8, to: &mut Connection, transmit: &Transmit, bytes: &mut [u8]) {
    let received = Received {
        remote: address(from),
        local: None,
        ecn: transmit.ecn,
        ttl: None,
    };
    for datagram in bytes[..transmit.len].chunks_mut(transmit.segment_size) {
        to.handle_datagram(now, received, datagram);
    }
}

/// Returns a client and a server after their handshake.
fn connected(
    client: Arc<dyn ClientCrypto>,
    server: Arc<dyn ServerCrypto>,
) -> (Box<Connection>, Box<Connection>, Instant) {
    let config = || {
        let mut config =
            TransportConfig::new(Arc::new(|_, _| Box::new(Open) as Box<dyn Controller>));
        config.streams.initial_connection_window = 64 << 20;
        config.streams.initial_stream_window = 64 << 20;
        Arc::new(config)
    };
    let mut now = Instant::from_millis(1);
    let mut client = Connection::client(
        now,
        ClientStart {
            config: config(),
            crypto: client,
            server_name: "localhost".into(),
            remote: address(2),
            local: None,
            token: Vec::new(),
            endpoint_key: Arc::new(NullEndpointKey::new(1)),
            random: Random::from_u64(1),
        },
    )
    .expect("a client");
    let mut buffer = vec![0; 64 << 10];
    let first = client
        .poll_transmit(now, &mut buffer, 1)
        .expect("a first flight");
    let Ok(PartialDecode::Protected(found)) = PartialDecode::new(&buffer[..first.len], 8) else {
        panic!("not an Initial packet");
    };
    let mut server = Connection::server(
        now,
        ServerStart {
            config: config(),
            crypto: server,
            remote: address(1),
            local: None,
            destination: found.dcid,
            source: found.scid,
            original_destination: found.dcid,
            retry_source: None,
            validated: true,
            endpoint_key: Arc::new(NullEndpointKey::new(2)),
            random: Random::from_u64(2),
        },
    )
    .expect("a server");
    deliver(now, 1, &mut server, &first, &mut buffer);
    let mut rounds = 0;
    while !(client.handshake().is_confirmed() && server.handshake().is_confirmed()) {
        now += Duration::from_millis(1);
        exchange(now, &mut client, &mut server, &mut buffer);
        rounds += 1;
        assert!(
            rounds < 1000,
            "no handshake: {:?} {:?}",
            client.error(),
            server.error()
        );
    }
    (client, server, now)
}

impl Two {
    fn new(client: Arc<dyn ClientCrypto>, server: Arc<dyn ServerCrypto>) -> Self {
        let (mut client, server, now) = connected(client, server);
        let stream = client.streams().open(Dir::Uni).expect("a stream");
        let mut two = Self {
            client,
            server,
            stream,
            now,
            buffer: vec![0; 64 << 10],
            data: (0..CHUNK).map(|i| i as u8).collect(),
        };
        two.transfer();
        two
    }

    /// Transfers one chunk, and returns the number of datagrams.
    fn transfer(&mut self) -> u64 {
        let before = self.client.stats().datagrams_sent;
        let (mut written, mut read) = (0, 0);
        while read < CHUNK {
            while written < CHUNK {
                match self
                    .client
                    .streams()
                    .write(self.stream, &self.data[written..])
                {
                    Ok(n) => written += n,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            self.now += Duration::from_micros(50);
            if self.client.deadline().is_some_and(|at| at <= self.now) {
                self.client.handle_timeout(self.now);
            }
            if self.server.deadline().is_some_and(|at| at <= self.now) {
                self.server.handle_timeout(self.now);
            }
            exchange(
                self.now,
                &mut self.client,
                &mut self.server,
                &mut self.buffer,
            );
            while self.server.streams().accept(Dir::Uni).is_some() {}
            while let Ok(Some(chunk)) = self.server.streams().read_chunk(self.stream, usize::MAX) {
                read += black_box(chunk).len();
            }
        }
        self.client.stats().datagrams_sent - before
    }
}

/// Sends everything that both ends have, and delivers it immediately.
fn exchange(now: Instant, client: &mut Connection, server: &mut Connection, buffer: &mut [u8]) {
    loop {
        let up = client.poll_transmit(now, buffer, SEGMENTS);
        if let Some(up) = &up {
            deliver(now, 1, server, up, buffer);
        }
        let down = server.poll_transmit(now, buffer, SEGMENTS);
        if let Some(down) = &down {
            deliver(now, 2, client, down, buffer);
        }
        if up.is_none() && down.is_none() {
            break;
        }
    }
    while client.poll_event().is_some() {}
    while server.poll_event().is_some() {}
}

struct Cipher {
    name: &'static str,
    client: Arc<dyn ClientCrypto>,
    server: Arc<dyn ServerCrypto>,
}

/// Returns the null cipher and, if available, TLS 1.3.
fn ciphers() -> Vec<Cipher> {
    let null = Arc::new(NullCrypto::new(&[b"bench"]));
    #[allow(unused_mut, reason = "without rustls there is one")]
    let mut all = vec![Cipher {
        name: "null cipher",
        client: null.clone(),
        server: null,
    }];
    #[cfg(feature = "rustls")]
    {
        use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
        let made =
            rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let chain = made.cert.pem();
        let key = made.signing_key.serialize_pem();
        let server = TlsServerConfig::from_pem(chain.as_bytes(), key.as_bytes(), &[b"bench"])
            .expect("a server configuration");
        let trust = Trust::from_ca_pem(chain.as_bytes()).expect("trust");
        let client = TlsClientConfig::new(trust, &[b"bench"]).expect("a client configuration");
        all.push(Cipher {
            name: "TLS 1.3",
            client: Arc::new(client),
            server: Arc::new(server),
        });
    }
    all
}

fn bulk(c: &mut Criterion) {
    let mut group = c.benchmark_group("connection");
    group.sample_size(20);
    for Cipher {
        name,
        client,
        server,
    } in ciphers()
    {
        let mut two = Two::new(client, server);
        let packets = two.transfer();
        group.throughput(Throughput::Elements(packets));
        group.bench_function(format!("{name}, per datagram of 1472 bytes"), |b| {
            b.iter(|| two.transfer());
        });
    }
    group.finish();
}

fn handshakes(c: &mut Criterion) {
    let mut group = c.benchmark_group("handshake");
    for cipher in ciphers() {
        group.bench_function(cipher.name, |b| {
            b.iter_with_large_drop(|| connected(cipher.client.clone(), cipher.server.clone()));
        });
    }
    group.finish();
}

/// A handshake, a request and the first byte of its answer.
fn first_bytes(c: &mut Criterion) {
    let mut group = c.benchmark_group("first byte");
    for cipher in ciphers() {
        let mut buffer = vec![0; 64 << 10];
        group.bench_function(cipher.name, |b| {
            b.iter_with_large_drop(|| {
                let (mut client, mut server, now) =
                    connected(cipher.client.clone(), cipher.server.clone());
                let stream = client.streams().open(Dir::Bi).expect("a stream");
                client.streams().write(stream, b"?").expect("a request");
                exchange(now, &mut client, &mut server, &mut buffer);
                let asked = server.streams().accept(Dir::Bi).expect("a stream");
                let chunk = server.streams().read_chunk(asked, 1);
                assert!(chunk.is_ok_and(|chunk| chunk.is_some()));
                server.streams().write(asked, b"!").expect("an answer");
                exchange(now, &mut client, &mut server, &mut buffer);
                let chunk = client.streams().read_chunk(stream, 1);
                assert!(chunk.is_ok_and(|chunk| chunk.is_some()));
                (client, server)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bulk, handshakes, first_bytes);
criterion_main!(benches);
