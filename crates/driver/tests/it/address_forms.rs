//! IPv6 sockets, sockets for both IP versions, and moves between versions; and clients that arrive
//! while a server's socket is being replaced.
#![cfg(target_os = "linux")]

use std::future::Future;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use pathmark_cc::Algorithm;
use pathmark_driver::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::tls::{TlsClientConfig, TlsServerConfig, Trust};
use vcp_proto::VcpSignal;

const ALPN: &[u8] = b"test";
/// Time limit for every test. On an idle machine, no test needs a tenth of this time.
const PATIENCE: Duration = Duration::from_secs(60);
const LENGTH: usize = 1 << 20;

async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, test).await.expect("in time")
}

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Returns an IPv4 server and its clients' configuration. Both ends send shims.
fn server() -> (Endpoint, ClientConfig) {
    let algorithm = Algorithm::parse("vcp+bise+wlte").unwrap();
    let factory = move |now, mtu| algorithm.controller(now, mtu);
    let mut transport = TransportConfig::new(Arc::new(factory));
    transport.signals = vec![Arc::new(VcpSignal::default())];
    let transport = Arc::new(transport);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let trust = Trust::Pin(tls.pin().unwrap());
    let config = ServerConfig::new(Arc::new(tls), Arc::clone(&transport));
    let server = Endpoint::server(config, at("127.0.0.1:0")).unwrap();
    let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
    (server, ClientConfig::new(Arc::new(tls), transport))
}

/// Returns both ends of a connection after its handshake is confirmed.
async fn connect(
    client: &Endpoint,
    config: ClientConfig,
    server: &Endpoint,
) -> (Connection, Connection) {
    let connecting = client.connect_with(config, server.local_address(), "localhost");
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let ends = tokio::try_join!(connecting.unwrap(), accepting).unwrap();
    ends.0.confirmed().await.unwrap();
    ends
}

async fn transfer(from: &Connection, to: &Connection) {
    let sending = async {
        let mut stream = from.open_uni().await.unwrap();
        stream.write_all(&vec![7; LENGTH]).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receiving = async {
        let mut stream = to.accept_uni().await.unwrap();
        stream.read_to_end(LENGTH).await.unwrap().len()
    };
    let ((), received) = tokio::join!(sending, receiving);
    assert_eq!(received, LENGTH);
}

/// Polls a condition that has no event. The test's time limit applies.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A socket for both IP versions reports IPv4 addresses as IPv4-mapped. An IPv6-only socket accepts
/// this form, but can't send to such addresses.
#[tokio::test]
async fn a_socket_for_ipv6_alone_takes_no_ipv4_connection_along() {
    bounded(async {
        let (server, config) = server();
        let client = Endpoint::client(at("[::]:0")).unwrap();
        let (ours, theirs) = connect(&client, config, &server).await;
        let before = theirs.remote_address();
        client.rebind(UdpSocket::bind("[::1]:0").unwrap()).unwrap();
        transfer(&ours, &theirs).await;
        transfer(&theirs, &ours).await;
        assert_eq!(theirs.remote_address(), before);
        assert_eq!(ours.stats().migrations, 0);
        // A socket for both versions can.
        client.rebind(UdpSocket::bind("[::]:0").unwrap()).unwrap();
        let port = client.local_address().port();
        until(|| theirs.remote_address().port() == port).await;
        transfer(&ours, &theirs).await;
    })
    .await;
}

/// An IPv4 address can be given in either form. An address from which packets can't reach the
/// server is refused.
#[tokio::test]
async fn an_address_to_move_to_is_taken_in_the_form_of_the_socket() {
    bounded(async {
        let (server, config) = server();
        let client = Endpoint::client(at("[::]:0")).unwrap();
        let (ours, theirs) = connect(&client, config, &server).await;
        let port = client.local_address().port();
        let named = |address: &str| Some(address.parse::<IpAddr>().unwrap());
        for (count, address, expected) in [
            (1, "127.0.0.2", [127, 0, 0, 2]),
            (2, "::ffff:127.0.0.3", [127, 0, 0, 3]),
            // The unspecified address: the system chooses.
            (3, "::", [127, 0, 0, 1]),
            (4, "0.0.0.0", [127, 0, 0, 1]),
        ] {
            assert!(ours.migrate(named(address)), "{address}");
            until(|| ours.stats().migrations == count).await;
            until(|| theirs.remote_address() == (expected, port).into()).await;
            // Shims are only counted at the connection's current address.
            let before = ours.stats().shims_received;
            transfer(&theirs, &ours).await;
            assert!(ours.stats().shims_received > before, "{address}");
        }
        assert!(!ours.migrate(named("::1")));
        assert_eq!(ours.stats().migrations, 4);
        transfer(&ours, &theirs).await;
    })
    .await;
}

/// An IPv4 socket can't send from an IPv6 address.
#[tokio::test]
async fn an_address_of_the_other_version_is_refused() {
    bounded(async {
        let (server, config) = server();
        let client = Endpoint::client(at("0.0.0.0:0")).unwrap();
        let (ours, theirs) = connect(&client, config, &server).await;
        assert!(!ours.migrate(Some("::1".parse().unwrap())));
        assert!(ours.migrate(Some("::ffff:127.0.0.2".parse().unwrap())));
        until(|| ours.stats().migrations == 1).await;
        let before = ours.stats().shims_received;
        transfer(&theirs, &ours).await;
        assert!(ours.stats().shims_received > before);
    })
    .await;
}

/// Clients whose first packets arrived at a former socket get their answer from there, because they
/// know the server by that address.
#[tokio::test]
async fn clients_that_ask_while_the_socket_changes_are_answered_where_they_asked() {
    bounded(async {
        let (server, config) = server();
        let client = Endpoint::client(at("127.0.0.1:0")).unwrap();
        let address = server.local_address();
        let connect = || {
            client
                .connect_with(config.clone(), address, "localhost")
                .unwrap()
        };
        let connecting = async { tokio::join!(connect(), connect(), connect()) };
        let serving = async {
            let accept = || async { server.accept().await.unwrap() };
            // One client was taken but not decided upon, one is unwanted, and one waits to be
            // taken.
            let (taken, unwanted) = (accept().await, accept().await);
            until(|| server.stats().incoming == 3).await;
            let new = UdpSocket::bind("127.0.0.1:0").unwrap();
            server.rebind(new).unwrap();
            unwanted.refuse();
            let (taken, waiting) = (taken.accept(), accept().await.accept());
            tokio::try_join!(taken.unwrap(), waiting.unwrap())
        };
        let (ours, theirs) = tokio::join!(connecting, serving);
        let theirs = theirs.unwrap();
        let ours = [ours.0, ours.1, ours.2];
        let is_refused =
            |end: &&Result<_, _>| matches!(end, Err(ConnectionError::PeerTransport(_)));
        assert_eq!(ours.iter().filter(is_refused).count(), 1, "{ours:?}");
        let ours: Vec<_> = ours.into_iter().filter_map(Result::ok).collect();
        assert_eq!(ours.len(), 2);
        for end in &ours {
            assert_eq!(end.remote_address(), address);
        }
        drop(theirs);
    })
    .await;
}
