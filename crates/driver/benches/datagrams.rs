//! Unreliable datagrams from one end to the other over loopback, compared with quinn in the same
//! run.
//!
//! ```text
//!   cargo bench -p pathmark-driver --bench datagrams                 3 rounds of 2 s each
//!   cargo bench -p pathmark-driver --bench datagrams -- 5 1000       5 rounds of 1 s each
//! ```
//!
//! The sender sends as fast as its window allows, and the receiver only reads. The bench prints how
//! many datagrams are read per second, their share of those sent, and the processor time of both
//! ends for each datagram read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use pathmark_cc::{Controller, NewReno};
use pathmark_driver::{ClientConfig, Endpoint, ServerConfig};
use pathmark_transport::TransportConfig;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};

const ALPN: &[u8] = b"datagrams";

/// During this time, the MTU search ends and the datagrams sent in the meantime arrive.
const WARM_UP: Duration = Duration::from_millis(300);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A run of one stack.
#[derive(Clone, Copy, Debug)]
struct Run {
    per_second: f64,
    read: f64,
    cpu_us: f64,
}

/// Certificate and key of the server.
struct Identity {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["receiver".to_owned()])?;
        Ok(Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
        })
    }

    fn key(&self) -> rustls::pki_types::PrivateKeyDer<'static> {
        rustls::pki_types::PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    fn roots(&self) -> Result<Arc<rustls::RootCertStore>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }
}

fn main() -> Result<()> {
    // Skip the arguments that cargo adds.
    let args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let numbers: Vec<u64> = args.map_while(|arg| arg.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(3);
    let time = Duration::from_millis(numbers.get(1).copied().unwrap_or(2000));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for (mtu, len) in [(1452, 1100), (1452, 100), (8952, 1100), (8952, 100)] {
        let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            runs[0].push(runtime.block_on(pathmark(mtu, len, time))?);
            runs[1].push(runtime.block_on(quinn(mtu, len, time))?);
        }
        let median = |stack: usize, figure: fn(&Run) -> f64| {
            let mut values: Vec<f64> = runs[stack].iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!("{len} bytes, MTU {mtu}: pathmark, quinn, ratio");
        type Figure = (&'static str, fn(&Run) -> f64);
        let figures: [Figure; 3] = [
            ("read per second", |run| run.per_second),
            ("part of those sent", |run| run.read),
            ("CPU us each", |run| run.cpu_us),
        ];
        for (name, figure) in figures {
            let (ours, theirs) = (median(0, figure), median(1, figure));
            let ratio = ours / theirs;
            println!("  {name:18} {ours:10.3} {theirs:10.3} {ratio:6.2}");
        }
    }
    Ok(())
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Returns the processor time of this process so far in seconds.
fn cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark owns its clock")]
fn now() -> Instant {
    Instant::now()
}

/// Returns how many datagrams were read during the measurement, how many were sent, and their cost.
async fn measure(
    time: Duration,
    read: Arc<AtomicU64>,
    sending: impl Future<Output = Result<u64>>,
) -> Result<Run> {
    let (begun, before) = (now(), cpu()?);
    let sent = sending.await?;
    // Packets in flight can arrive.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let used = cpu()? - before;
    let read = read.load(Ordering::Relaxed) as f64;
    assert!(begun.elapsed() >= time);
    Ok(Run {
        per_second: read / time.as_secs_f64(),
        read: read / sent as f64,
        cpu_us: used / read * 1e6,
    })
}

async fn pathmark(mtu: u16, len: usize, time: Duration) -> Result<Run> {
    let identity = Identity::new()?;
    let factory = |_: pathmark_transport::Instant, mtu: u16| -> Box<dyn Controller> {
        Box::new(NewReno::newreno(mtu, None))
    };
    let mut transport = TransportConfig::new(Arc::new(factory));
    transport.max_mtu = Some(mtu);
    let transport = Arc::new(transport);
    let tls = TlsServerConfig::new(vec![identity.certificate.clone()], identity.key(), &[ALPN])?;
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let server = Endpoint::server(config, anywhere())?;
    let tls = TlsClientConfig::new(Trust::Roots(identity.roots()?), &[ALPN])?;
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let client = Endpoint::client(anywhere())?;
    let connecting = client.connect_with(config, server.local_address(), "receiver")?;
    let accepting = async {
        let incoming = server.accept().await.ok_or("closed")?;
        Ok::<_, Box<dyn std::error::Error>>(incoming.accept()?.await?)
    };
    let (from, to) = tokio::try_join!(async { Ok(connecting.await?) }, accepting)?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    tokio::spawn(async move {
        while to.read_datagram().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let data = Bytes::from(vec![7; len]);
    let send = async |time: Duration| -> Result<u64> {
        let (end, mut sent) = (now() + time, 0);
        while now() < end {
            from.send_datagram_wait(data.clone()).await?;
            sent += 1;
        }
        Ok(sent)
    };
    send(WARM_UP).await?;
    tokio::time::sleep(WARM_UP).await;
    read.store(0, Ordering::Relaxed);
    measure(time, read, send(time)).await
}

async fn quinn(mtu: u16, len: usize, time: Duration) -> Result<Run> {
    let identity = Identity::new()?;
    let mut transport = quinn::TransportConfig::default();
    let mut search = quinn::MtuDiscoveryConfig::default();
    search.upper_bound(mtu);
    transport.mtu_discovery_config(Some(search));
    transport.datagram_send_buffer_size(1 << 20);
    let transport = Arc::new(transport);
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], identity.key())?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::clone(&transport));
    let server = quinn::Endpoint::server(config, anywhere())?;
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(identity.roots()?)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(tls)?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    let client = quinn::Endpoint::client(anywhere())?;
    let connecting = client.connect_with(config, server.local_addr()?, "receiver")?;
    let accepting = async {
        let incoming = server.accept().await.ok_or("closed")?;
        Ok::<_, Box<dyn std::error::Error>>(incoming.await?)
    };
    let (from, to) = tokio::try_join!(async { Ok(connecting.await?) }, accepting)?;
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    tokio::spawn(async move {
        while to.read_datagram().await.is_ok() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let data = Bytes::from(vec![7; len]);
    let send = async |time: Duration| -> Result<u64> {
        let (end, mut sent) = (now() + time, 0);
        while now() < end {
            from.send_datagram_wait(data.clone()).await?;
            sent += 1;
        }
        Ok(sent)
    };
    send(WARM_UP).await?;
    tokio::time::sleep(WARM_UP).await;
    read.store(0, Ordering::Relaxed);
    measure(time, read, send(time)).await
}
