//! Connections that use VCP or XCP over paths without support for it: a middlebox that drops
//! datagrams with a shim, no router at all, a peer that only speaks plain QUIC, and bit errors in
//! shims.

#[path = "../../crates/driver/tests/it/interop/support/proxy.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pathmark::cc::Feedback;
use pathmark::tls::{Pin, TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use proxy::{Proxy, Weather};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::Builder;

const ALPN: &[u8] = b"shim-path";
const NAME: &str = "server.test";
const LENGTH: usize = 2 << 20;
const DELAY: Duration = Duration::from_millis(5);

const WEATHER: Weather = Weather {
    delay: DELAY,
    ..Weather::FAIR
};
const EATS_SHIMS: Weather = Weather {
    eats_shims: true,
    ..WEATHER
};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn transport(algorithm: &str) -> Arc<TransportConfig> {
    let mut config = pathmark::transport_config(&algorithm.parse().unwrap());
    // The proxy applies its faults per datagram, so the number of datagrams should be that of an
    // Ethernet, not the lower one that loopback's MTU would give.
    config.max_mtu = Some(1472);
    Arc::new(config)
}

fn certificate() -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    (made.cert.der().clone(), key)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Returns a server that uses `algorithm`, and the pin by which clients can trust it.
fn server(algorithm: &str) -> (Endpoint, Pin) {
    let (certificate, key) = certificate();
    server_with(algorithm, certificate, key)
}

fn server_with(
    algorithm: &str,
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> (Endpoint, Pin) {
    let tls = TlsServerConfig::new(vec![certificate], key.into(), &[ALPN]).unwrap();
    let pin = tls.pin().unwrap();
    let config = ServerConfig::with_transport(Arc::new(tls), transport(algorithm));
    (Endpoint::server(config, loopback()).unwrap(), pin)
}

fn client(algorithm: &str, pin: Pin) -> (Endpoint, ClientConfig) {
    let tls = TlsClientConfig::new(Trust::Pin(pin), &[ALPN]).unwrap();
    let config = ClientConfig::with_transport(Arc::new(tls), transport(algorithm));
    (Endpoint::client(loopback()).unwrap(), config)
}

/// Our client and server, with a path in between.
struct Pair {
    client: Connection,
    server: Connection,
    proxy: Proxy,
    _endpoints: (Endpoint, Endpoint),
}

async fn pair(algorithm: &str, weather: Weather) -> Pair {
    pair_of(algorithm, algorithm, weather).await
}

async fn pair_of(of_client: &str, of_server: &str, weather: Weather) -> Pair {
    let (server, pin) = server(of_server);
    let proxy = Proxy::start(server.local_address(), weather, 1).await;
    let (client, config) = client(of_client, pin);
    let connecting = client.connect_with(config, proxy.address(), NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (ours, theirs) = tokio::try_join!(connecting, accepting).unwrap();
    Pair {
        client: ours,
        server: theirs,
        proxy,
        _endpoints: (client, server),
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    (0..LENGTH as u64 / 8)
        .flat_map(|n| proxy::mix(seed ^ n << 8).to_be_bytes())
        .collect()
}

/// Sends a pattern through `send`, and expects it from the stream that `accepted` resolves to.
async fn carry<R: AsyncRead + Unpin>(
    mut send: impl AsyncWrite + Unpin,
    accepted: impl Future<Output = R>,
    seed: u64,
) {
    let sent = pattern(seed);
    let sending = async {
        send.write_all(&sent).await.unwrap();
        send.shutdown().await.unwrap();
    };
    let receiving = async {
        let mut received = Vec::new();
        accepted.await.read_to_end(&mut received).await.unwrap();
        received
    };
    let ((), received) = tokio::join!(sending, receiving);
    assert!(received == sent, "other bytes arrived");
}

async fn one_way(from: &Connection, to: &Connection, seed: u64) {
    let send = from.open_uni().await.unwrap();
    carry(send, async { to.accept_uni().await.unwrap() }, seed).await;
}

impl Pair {
    /// Sends data in both directions at once.
    async fn exchange(&self) {
        tokio::join!(
            one_way(&self.client, &self.server, 1),
            one_way(&self.server, &self.client, 2)
        );
    }

    fn sides(&self) -> [&Connection; 2] {
        [&self.client, &self.server]
    }
}

/// Runs a test within a time limit.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let limit = Duration::from_secs(60);
    let bounded = async { tokio::time::timeout(limit, test).await };
    runtime.unwrap().block_on(bounded).expect("in time");
}

#[test]
fn a_path_that_eats_shims_becomes_plain_quic_within_a_few_round_trips() {
    run(async {
        for law in ["vcp+bise+wlte", "xcp", "xcp[every=4]"] {
            let pair = pair(law, EATS_SHIMS).await;
            pair.exchange().await;
            for side in pair.sides() {
                let (report, stats) = (side.path_report(), side.stats());
                assert!(!report.passes_shims, "{law}: {report:?}");
                assert_eq!(stats.shims_received, 0, "{law}: {stats:?}");
                assert_eq!(report.controller.ruling, "cubic", "{law}: {report:?}");
                assert!(!report.controller.explicit, "{law}: {report:?}");
                // Three pairs of probes and the packets already in flight: less than a hundredth of
                // the transfer.
                assert!((1..100).contains(&stats.shims_sent), "{law}: {stats:?}");
            }
            let eaten = pair.proxy.toll().shims_eaten;
            let sent: u64 = pair.sides().map(|s| s.stats().shims_sent).iter().sum();
            assert_eq!(eaten, sent, "{law}");
        }
    });
}

/// At the end, in the middle of a connection, the path begins to drop datagrams with shims.
#[test]
fn a_path_without_routers_runs_on_cubic() {
    run(async {
        for (law, kind) in [("vcp+bise+wlte", 0), ("xcp", 1), ("xcp[form=compact]", 1)] {
            let pair = pair(law, WEATHER).await;
            pair.exchange().await;
            for side in pair.sides() {
                let (report, stats) = (side.path_report(), side.stats());
                assert_eq!(report.signal, Some(kind), "negotiated: {report:?}");
                assert!(report.passes_shims, "{law}: {report:?}");
                assert_eq!(report.controller.ruling, "cubic", "{law}: {report:?}");
                assert_eq!(report.router, None, "{law}: {report:?}");
                let both = stats.shims_sent > 0 && stats.shims_received > 0;
                assert!(both, "{law}: {stats:?}");
                let bad = (stats.shims_bad, stats.feedback_bad);
                assert_eq!(bad, (0, 0), "{law}: {stats:?}");
            }
            pair.proxy.set_weather(EATS_SHIMS);
            pair.exchange().await;
            for side in pair.sides() {
                let report = side.path_report();
                assert!(!report.passes_shims, "{law}: {report:?}");
            }
        }
    });
}

/// Since both signals are offered, each side uses the one of its own law, and switches to another
/// when its law is changed.
#[test]
fn each_side_sends_by_its_own_law() {
    run(async {
        let pair = pair_of("xcp", "vcp+bise+wlte", WEATHER).await;
        let (ours, theirs) = (&pair.client, &pair.server);
        one_way(ours, theirs, 1).await;
        one_way(theirs, ours, 2).await;
        assert_eq!(ours.path_report().signal, Some(1));
        assert_eq!(theirs.path_report().signal, Some(0));
        let feedback = |side: &Connection| side.path_report().feedback;
        assert!(matches!(feedback(ours), Some(Feedback::Xcp(_))));
        assert!(matches!(feedback(theirs), Some(Feedback::Vcp(_))));

        let law = "xcp".parse().unwrap();
        theirs.set_controller(pathmark::controller(&law));
        assert!(theirs.set_signal(pathmark::signal(&law).unwrap()));
        one_way(theirs, ours, 3).await;
        assert_eq!(theirs.path_report().signal, Some(1));
        let Some(Feedback::Xcp(xcp)) = feedback(theirs) else {
            panic!("{:?}", theirs.path_report())
        };
        assert_eq!(xcp.stamped, 0, "there is no router");
        for side in [ours, theirs] {
            let stats = side.stats();
            assert_eq!((stats.shims_bad, stats.feedback_bad), (0, 0), "{stats:?}");
        }
    });
}

/// The shim's checksum detects a bit error in the shim, and the packet's authentication one in the
/// packet. Neither stops the transfer.
#[test]
fn damaged_shims_are_not_believed() {
    run(async {
        let mut weather = WEATHER;
        (weather.drop, weather.corrupt) = (10, 50);
        (weather.reorder, weather.duplicate) = (20, 20);
        let pair = pair("vcp+bise+wlte", weather).await;
        pair.exchange().await;
        let stats = pair.sides().map(|side| side.stats());
        let bad: u64 = stats.iter().map(|s| s.shims_bad).sum();
        assert!(bad > 0, "{stats:?}");
        for (side, stats) in pair.sides().iter().zip(&stats) {
            assert_eq!(stats.feedback_bad, 0, "{stats:?}");
            assert_eq!(side.path_report().controller.ruling, "cubic");
            assert!(side.path_report().passes_shims);
        }
    });
}

#[test]
fn shims_survive_a_nat_that_rebinds() {
    run(async {
        let pair = pair("vcp+bise+wlte", WEATHER).await;
        pair.exchange().await;
        let before = pair.server.remote_address();
        pair.proxy.rebind();
        pair.exchange().await;
        assert_ne!(before, pair.server.remote_address());
        for side in pair.sides() {
            assert_eq!(side.stats().feedback_bad, 0, "{:?}", side.stats());
            assert!(side.path_report().passes_shims, "{:?}", side.path_report());
        }
    });
}

/// Asserts that no shims are used if the peer is plain QUIC.
fn assert_plain(ours: &Connection) {
    let (report, stats) = (ours.path_report(), ours.stats());
    assert_eq!(report.signal, None, "{report:?}");
    assert_eq!(report.controller.ruling, "cubic", "{report:?}");
    assert_eq!((stats.shims_sent, stats.feedback_received), (0, 0));
}

#[test]
fn a_server_that_is_plain_quic_gets_plain_quic() {
    run(async {
        let (certificate, key) = certificate();
        let pin = Pin::of(&certificate);
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .unwrap();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        let server = quinn::Endpoint::server(config, loopback()).unwrap();
        let (client, config) = client("vcp+bise+wlte", pin);
        let connecting = client.connect_with(config, server.local_addr().unwrap(), NAME);
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (ours, theirs) = tokio::join!(connecting.unwrap(), accepting);
        let ours = ours.unwrap();
        let send = ours.open_uni().await.unwrap();
        carry(send, async { theirs.accept_uni().await.unwrap() }, 3).await;
        assert_plain(&ours);
    });
}

#[test]
fn a_client_that_is_plain_quic_gets_plain_quic() {
    run(async {
        let (certificate, key) = certificate();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let (server, _) = server_with("vcp+bise+wlte", certificate, key);
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let client = quinn::Endpoint::client(loopback()).unwrap();
        let connecting = client.connect_with(config, server.local_address(), NAME);
        let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
        let (theirs, ours) = tokio::join!(connecting.unwrap(), accepting);
        let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
        let send = ours.open_uni().await.unwrap();
        carry(send, async { theirs.accept_uni().await.unwrap() }, 4).await;
        assert_plain(&ours);
    });
}
