//! A driver without a runtime: two threads, each with a blocking socket, transfer a megabyte over
//! loopback: `cargo run -p pathmark-transport --example blocking`. Sockets of `std` neither set nor
//! read IP's ECN field, and connections work without it.

use std::{error::Error, net::UdpSocket, sync::Arc, thread, time};

use bytes::Bytes;
use pathmark_cc::{Controller, NewReno};
use pathmark_transport::connection::{Connection, Event, Received};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::tls::{EndpointSecret, TlsClientConfig, TlsServerConfig, Trust};
use pathmark_transport::endpoint::{self, Connect, DatagramEvent, Endpoint, ServerConfig};
use pathmark_transport::streams::{Dir, StreamEvent};
use pathmark_transport::{Duration, Ecn, Instant, TransportConfig};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A socket, and an endpoint with at most one connection.
struct Driver {
    socket: UdpSocket,
    endpoint: Endpoint,
    connection: Option<(endpoint::ConnectionHandle, Box<Connection>)>,
}

impl Driver {
    #[expect(clippy::disallowed_methods, reason = "drivers own clocks and seeds")]
    fn new(server: Option<ServerConfig>) -> Outcome<Self> {
        let key = Arc::new(EndpointSecret::new(&rand::random())?);
        let epoch = time::SystemTime::now().duration_since(time::UNIX_EPOCH)?;
        let mut config = endpoint::EndpointConfig::new(key, epoch);
        config.server = server;
        Ok(Self {
            socket: UdpSocket::bind("127.0.0.1:0")?,
            endpoint: Endpoint::new(config, Random::from_seed(rand::random())),
            connection: None,
        })
    }

    /// Runs until its connection is over. After every event, the application gets a turn.
    #[expect(clippy::disallowed_methods, reason = "drivers own clocks and seeds")]
    fn run(mut self, mut turn: impl FnMut(Instant, &mut Connection)) -> Outcome<()> {
        let (begun, mut buffer) = (time::Instant::now(), vec![0; 65_536]);
        loop {
            let (now, mut wait) = (Instant::ZERO + begun.elapsed(), None);
            if let Some((handle, connection)) = &mut self.connection {
                connection.handle_timeout(now);
                turn(now, connection);
                while let Some(built) = connection.poll_transmit(now, &mut buffer, 1) {
                    self.socket.send_to(&buffer[..built.len], built.remote)?;
                }
                if !self.endpoint.update(now, *handle, connection) {
                    return Ok(());
                }
                // A timeout of zero is an error.
                let left = |at: Instant| at.saturating_since(now).max(Duration::from_millis(1));
                wait = connection.deadline().map(left);
            }
            self.socket.set_read_timeout(wait)?;
            let Ok((len, remote)) = self.socket.recv_from(&mut buffer) else {
                // Nothing arrived in time. A permanent error ends the connection by its deadline.
                continue;
            };
            let now = Instant::ZERO + begun.elapsed();
            let (datagram, mut answer) = (&mut buffer[..len], Vec::new());
            let received = Received {
                remote,
                local: None,
                ecn: Ecn::NotEct,
                ttl: None,
            };
            let event = self.endpoint.handle(now, &received, datagram, &mut answer);
            match (event, &mut self.connection) {
                (DatagramEvent::Connection(_), Some((_, connection))) => {
                    connection.handle_datagram(now, received, datagram);
                }
                (DatagramEvent::Incoming(incoming), none @ None) => {
                    *none = Some(self.endpoint.accept(now, incoming)?);
                }
                (DatagramEvent::Respond, _) => drop(self.socket.send_to(&answer, remote)?),
                _ => {}
            }
        }
    }
}

/// Receives one stream from a client, until the client closes the connection.
fn serve(driver: Driver) -> Outcome<Vec<u8>> {
    let (mut stream, mut received) = (None, Vec::new());
    driver.run(|_, connection| {
        while connection.poll_event().is_some() {}
        let streams = connection.streams();
        stream = stream.or_else(|| streams.accept(Dir::Uni));
        while let Some(Ok(Some(bytes))) = stream.map(|id| streams.read_chunk(id, usize::MAX)) {
            received.extend(bytes);
        }
    })?;
    Ok(received)
}

/// Sends `data` on a stream, and closes the connection once the server has received it.
fn upload(driver: Driver, mut data: Bytes) -> Outcome<()> {
    let mut stream = None;
    driver.run(|now, connection| {
        while let Some(event) = connection.poll_event() {
            if let Event::Stream(StreamEvent::Finished(_)) = event {
                connection.close(now, 0, Bytes::new());
            }
        }
        let streams = connection.streams();
        stream = stream.or_else(|| streams.open(Dir::Uni).ok());
        let Some(id) = stream else { return };
        while streams.write_bytes(id, &mut data).is_ok_and(|n| n > 0) {}
        // The stream may already be finished.
        let _ = data.is_empty().then(|| streams.finish(id));
    })
}

fn main() -> Outcome<()> {
    let law = |_: Instant, mtu| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    let transport = Arc::new(TransportConfig::new(Arc::new(law)));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = made.signing_key.serialize_der().try_into()?;
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key, &[b"blocking"])?;
    let trust = Trust::Pin(tls.pin().ok_or("the server has no certificate")?);
    let (config, crypto) = (Arc::clone(&transport), Arc::new(tls));
    let server = Driver::new(Some(ServerConfig { transport, crypto }))?;
    let mut client = Driver::new(None)?;
    let connect = Connect {
        config,
        crypto: Arc::new(TlsClientConfig::new(trust, &[b"blocking"])?),
        server_name: "localhost".to_owned(),
        remote: server.socket.local_addr()?,
        local: None,
        token: Vec::new(),
    };
    client.connection = Some(client.endpoint.connect(Instant::ZERO, connect)?);
    let serving = thread::spawn(|| serve(server));
    let sent: Bytes = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    upload(client, sent.clone())?;
    let received = serving.join().expect("the server's thread ends")?;
    assert!(received == sent, "other bytes arrived");
    println!("{} bytes arrived", received.len());
    Ok(())
}

#[test]
fn a_megabyte_arrives_without_a_runtime() {
    main().unwrap();
}
