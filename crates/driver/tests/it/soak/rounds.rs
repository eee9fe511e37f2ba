//! Rounds of connections that are opened, used and ended in every possible way, over a proxy that
//! drops and delays. All rounds use the same server, but each has its own client endpoint and
//! proxy.

#[expect(dead_code, reason = "the proxy can do more than is asked of it here")]
#[path = "../interop/support/proxy.rs"]
#[allow(
    clippy::duplicate_mod,
    reason = "the long run of xtask includes this file by itself"
)]
mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use tokio::time::{Instant, timeout};

use super::process::{datagrams_dropped, descriptors};
use proxy::{Proxy, Weather};

/// Tasks that open connections at the same time.
pub(crate) const TASKS: u64 = 64;
/// No future may take longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest number of bytes per stream.
const MOST: u64 = 20_000;
/// Requests to the server in the first byte of a stream: send everything back, read nothing, close
/// the connection.
const ECHO: u8 = 0;
const LEAVE: u8 = 1;
const CLOSE: u8 = 2;

/// How the connections ended.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Ended by the client's close, by dropping its handles, by the server, or before the handshake
    /// was complete.
    pub(crate) closed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) closed_by_server: AtomicU64,
    pub(crate) given_up: AtomicU64,
    /// Handshakes that were complete before they could be abandoned; these connections were then
    /// dropped.
    pub(crate) before_given_up: AtomicU64,
    /// The server's close was lost, so a reset or the client's idle timeout ended the connection.
    pub(crate) unheard: AtomicU64,
    /// Ended by themselves.
    pub(crate) failed: AtomicU64,
    /// Streams whose bytes were all sent back, and those that were abandoned.
    pub(crate) echoed: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    /// Futures that were dropped before they were ready.
    pub(crate) cancelled: AtomicU64,
}

/// Records that a connection failed at `stage`, `since` it was started.
fn failed(counts: &Counts, stage: &str, since: Instant, error: &ConnectionError) {
    eprintln!("failed while {stage}, after {:?}: {error}", since.elapsed());
    count(&counts.failed);
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A server for all rounds, and the configuration with which clients reach it.
pub(crate) struct Soak {
    server: Endpoint,
    client: ClientConfig,
    pub(crate) counts: Arc<Counts>,
}

fn transport() -> Arc<TransportConfig> {
    let law = Algorithm::parse("cubic").expect("known");
    let mut config = TransportConfig::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
    // If a close is lost, the peer shouldn't wait for long. Within 3 s a handshake sends its first
    // packet and the probes of one timeout, and on a busy machine sockets may be full all this
    // time.
    config.max_idle_timeout = Some(Duration::from_secs(10));
    config.handshake_timeout = Duration::from_secs(10);
    Arc::new(config)
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

/// Waits for `future`, and makes the run fail after [`PATIENCE`].
async fn resolved<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, future).await {
        Ok(result) => result,
        Err(_) => panic!("{what} did not resolve within {PATIENCE:?}"),
    }
}

/// Serves one connection until it ends.
async fn serve(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        let connection = connection.clone();
        tokio::spawn(async move {
            let mut asked = [0];
            if recv.read_exact(&mut asked).await.is_err() {
                return;
            }
            match asked[0] {
                LEAVE => return,
                CLOSE => return connection.close(9_u32.into(), b"asked"),
                _ => {}
            }
            drop(connection);
            while let Ok(Some(chunk)) = recv.read_chunk().await {
                if send.write_chunk(chunk).await.is_err() {
                    return;
                }
            }
        });
    }
}

impl Soak {
    pub(crate) fn begin() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[b"soak"]);
        let tls = tls.expect("usable");
        let trust = Trust::Pin(tls.pin().expect("a pin"));
        let client = TlsClientConfig::new(trust, &[b"soak"]).expect("usable");
        let mut config = ServerConfig::with_transport(Arc::new(tls), transport());
        // As many as the first round uses, so that later rounds don't add any.
        config.remembered_tokens(1000);
        let server = Endpoint::server(config, loopback()).expect("a socket");
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Some(incoming) = accepting.accept().await {
                if let Ok(connecting) = incoming.accept() {
                    tokio::spawn(async move {
                        if let Ok(connection) = connecting.await {
                            serve(connection).await;
                        }
                    });
                }
            }
        });
        Self {
            server,
            client: ClientConfig::with_transport(Arc::new(client), transport()),
            counts: Arc::default(),
        }
    }

    /// Runs one round. This returns when neither end has a connection left and the process has as
    /// many descriptors as at the beginning.
    pub(crate) async fn round(&self, seed: u64, connections: u64) {
        let before = descriptors();
        let weather = Weather {
            drop: 5,
            reorder: 20,
            delay: Duration::from_millis(2),
            ..Weather::FAIR
        };
        let proxy = Proxy::start(self.server.local_address(), weather, seed).await;
        let endpoint = Endpoint::client(loopback()).expect("a socket");
        let next = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (endpoint, next) = (endpoint.clone(), Arc::clone(&next));
                let (config, counts) = (self.client.clone(), Arc::clone(&self.counts));
                let address = proxy.address();
                tokio::spawn(async move {
                    while let n = next.fetch_add(1, Ordering::Relaxed)
                        && n < connections
                    {
                        let random = Random::from_u64((seed << 32) + n);
                        live(&endpoint, &config, address, random, &counts).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("every future resolves");
        }
        resolved("the client's wait_idle", endpoint.wait_idle()).await;
        resolved("the server's wait_idle", self.server.wait_idle()).await;
        let full = datagrams_dropped();
        let toll = proxy.end().await;
        println!("round {seed}: {toll:?}, {full} dropped by full sockets");
        assert!(toll.dropped > 0 && toll.reordered > 0, "{toll:?}");
        drop(endpoint);
        // No event reports that the endpoint's own tasks have ended, so this is polled.
        let back = async {
            while descriptors() != before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        resolved("having descriptors back", back).await;
    }
}

/// Runs one connection from beginning to end.
async fn live(
    endpoint: &Endpoint,
    config: &ClientConfig,
    address: SocketAddr,
    mut random: Random,
    counts: &Arc<Counts>,
) {
    let begun = Instant::now();
    let connecting = endpoint.connect_with(config.clone(), address, "localhost");
    let connecting = connecting.expect("begun");
    if random.below(16) == 0 {
        let pause = Duration::from_micros(random.below(20_000));
        return match timeout(pause, connecting).await {
            Err(_) => count(&counts.given_up),
            Ok(Ok(_)) => count(&counts.before_given_up),
            Ok(Err(error)) => failed(counts, "it was to be given up", begun, &error),
        };
    }
    let connection = match resolved("connecting", connecting).await {
        Ok(connection) => connection,
        Err(error) => return failed(counts, "connecting", begun, &error),
    };
    let streams: Vec<_> = (0..random.below(4))
        .map(|_| {
            let (connection, counts) = (connection.clone(), Arc::clone(counts));
            let random = random.fork();
            tokio::spawn(async move { talk(&connection, random, &counts).await })
        })
        .collect();
    // Futures that are dropped before they complete.
    if random.below(4) == 0 {
        let pause = Duration::from_micros(random.below(5_000));
        let all = async {
            tokio::select! {
                _ = connection.closed() => {}
                _ = connection.accept_uni() => {}
                _ = connection.accept_bi() => {}
                _ = endpoint.wait_idle() => {}
            }
        };
        if timeout(pause, all).await.is_err() {
            count(&counts.cancelled);
        }
    }
    match random.below(4) {
        // While streams are in use.
        0 => {
            connection.close(1_u32.into(), b"enough");
            resolved("closed", connection.closed()).await;
            count(&counts.closed);
        }
        1 => {
            let ending = async {
                let (mut send, _recv) = connection.open_bi().await?;
                let _ = send.write_all(&[CLOSE]).await;
                Err::<(), _>(connection.closed().await)
            };
            match resolved("closed by the server", ending).await {
                Err(ConnectionError::ApplicationClosed(close))
                    if close.error_code == 9_u32.into() =>
                {
                    count(&counts.closed_by_server);
                }
                // The peer's close was lost, and is only repeated if this side sends something
                // soon.
                Err(ConnectionError::TimedOut | ConnectionError::Reset) => {
                    count(&counts.unheard);
                }
                Err(error) => failed(counts, "the server was to close", begun, &error),
                Ok(()) => {}
            }
        }
        _ => {
            drop(connection);
            count(&counts.dropped);
        }
    }
    for stream in streams {
        stream.await.expect("a stream's futures resolve");
    }
}

/// Runs one stream from beginning to end. Errors are due to connections that end in the meantime.
async fn talk(connection: &Connection, mut random: Random, counts: &Counts) {
    let Ok((mut send, mut recv)) = resolved("open_bi", connection.open_bi()).await else {
        return count(&counts.abandoned);
    };
    let asked = if random.below(8) == 0 { LEAVE } else { ECHO };
    let length = random.below(MOST) as usize;
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    let gives_up = random.below(8) == 0;
    let write = async {
        send.write_all(&[asked]).await.ok()?;
        if gives_up {
            send.write_all(&bytes[..length / 2]).await.ok()?;
            return send.reset(3_u32.into()).ok();
        }
        send.write_all(&bytes).await.ok()?;
        send.finish().ok()?;
        send.stopped().await.ok().map(drop)
    };
    let read = async {
        if random.below(8) == 0 {
            recv.stop(4_u32.into()).ok()?;
            return None;
        }
        recv.read_to_end(MOST as usize).await.ok()
    };
    let (_, back) = resolved("a stream", async { tokio::join!(write, read) }).await;
    match back {
        Some(back) if asked == ECHO && !gives_up => {
            assert!(back == bytes, "other bytes came back");
            count(&counts.echoed);
        }
        _ => count(&counts.abandoned),
    }
}
