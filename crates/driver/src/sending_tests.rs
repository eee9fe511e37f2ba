//! The packets that a socket sends, and the errors that an application gets.

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use pathmark_cc::{Controller, NewReno};
use tokio::io::{AsyncRead as _, ReadBuf};

use super::*;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::crypto::ServerCrypto;
use pathmark_transport::{Duration, Instant, TransportConfig};

pub(super) fn transport() -> TransportConfig {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    TransportConfig::new(Arc::new(factory))
}

pub(super) fn client(transport: TransportConfig) -> ClientConfig {
    let crypto = Arc::new(testing::client(&[b"test"]));
    ClientConfig::new(crypto, Arc::new(transport))
}

/// Returns both ends of a connection over `loopback`.
async fn connected(loopback: &str, transport: TransportConfig) -> (Connection, Connection) {
    let endpoint = Endpoint::client(loopback.parse().unwrap()).unwrap();
    connected_from(&endpoint, transport).await
}

/// The same from `endpoint`.
pub(super) async fn connected_from(
    endpoint: &Endpoint,
    transport: TransportConfig,
) -> (Connection, Connection) {
    let crypto = Arc::new(testing::server(&[b"test"]));
    connected_with(endpoint, transport, crypto).await
}

/// The same with `crypto` at the server.
pub(super) async fn connected_with(
    endpoint: &Endpoint,
    transport: TransportConfig,
    crypto: Arc<dyn ServerCrypto>,
) -> (Connection, Connection) {
    let config = ServerConfig::new(crypto, Arc::new(transport.clone()));
    let any = SocketAddr::new(endpoint.local_address().ip(), 0);
    let server = Endpoint::server(config, any).unwrap();
    let connecting = endpoint
        .connect_with(client(transport), server.local_address(), "server.test")
        .unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    tokio::try_join!(connecting, accepting).unwrap()
}

pub(super) async fn upload((from, to): &(Connection, Connection), bytes: usize) {
    let mut stream = from.open_uni().await.unwrap();
    let sending = async {
        stream.write_all(&vec![7; bytes]).await.unwrap();
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receiving = async {
        let mut stream = to.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(bytes).await.unwrap().len(), bytes);
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn what_the_kernel_refuses_to_send_is_the_reason_that_is_reported() {
    let mut transport = transport();
    transport.handshake_timeout = Duration::from_millis(200);
    let endpoint = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
    // Broadcasts require an option (socket(7)).
    let broadcast = "255.255.255.255:9".parse().unwrap();
    let connecting = endpoint.connect_with(client(transport), broadcast, "server.test");
    let error = connecting.unwrap().await.unwrap_err();
    let refused = ConnectionError::Socket(std::io::ErrorKind::PermissionDenied);
    assert_eq!(error, refused);
}

/// Loopback interfaces carry 64 KiB.
#[tokio::test]
async fn datagrams_grow_to_what_the_interface_carries() {
    for (loopback, max, expected) in [
        ("127.0.0.1:0", None, 8972),
        ("[::1]:0", None, 8972),
        ("127.0.0.1:0", Some(1472), 1472),
    ] {
        let mut transport = transport();
        transport.max_mtu = max;
        let ends = connected(loopback, transport).await;
        upload(&ends, 4_000_000).await;
        assert_eq!(ends.0.path_report().mtu, expected, "{loopback}");
        assert_eq!(ends.0.stats().mtu_probes_lost, 0);
    }
}

/// Old studies used packets of less than 1200 bytes: two endpoints can connect if they are
/// configured for such a path.
#[tokio::test]
async fn ends_that_know_of_a_narrow_path_connect_over_it() {
    let mut transport = transport();
    (transport.initial_mtu, transport.max_mtu) = (972, Some(972));
    transport.handshake_timeout = Duration::from_secs(5);
    let ends = connected("127.0.0.1:0", transport).await;
    upload(&ends, 100_000).await;
    for end in [&ends.0, &ends.1] {
        assert_eq!(end.path_report().mtu, 972);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_socket_for_both_versions_connects_to_either() {
    for (from, to, reached) in [
        ("[::]:0", "127.0.0.1:0", true),
        ("[::]:0", "[::1]:0", true),
        ("[::1]:0", "127.0.0.1:0", false),
        ("127.0.0.1:0", "[::1]:0", false),
    ] {
        let crypto = Arc::new(testing::server(&[b"test"]));
        let config = ServerConfig::new(crypto, Arc::new(transport()));
        let server = Endpoint::server(config, to.parse().unwrap()).unwrap();
        let address = server.local_address();
        let endpoint = Endpoint::client(from.parse().unwrap()).unwrap();
        let connecting = endpoint.connect_with(client(transport()), address, "server.test");
        if !reached {
            assert_eq!(connecting.unwrap_err(), ConnectError::Address(address));
            continue;
        }
        let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
        let ends = tokio::try_join!(connecting.unwrap(), accepting).unwrap();
        assert_eq!(ends.0.remote_address(), address);
        upload(&ends, 1_000_000).await;
        assert_eq!(
            ends.0.path_report().ecn,
            pathmark_transport::path::EcnState::Capable
        );
        assert_eq!(ends.0.path_report().mtu, 8972);
    }
}

#[tokio::test]
async fn keying_material_agrees_at_both_ends() {
    let (ours, theirs) = connected("127.0.0.1:0", transport()).await;
    let export = |connection: &Connection, label: &[u8]| {
        let mut out = [0; 32];
        let exported = connection.export_keying_material(&mut out, label, b"context");
        exported.map(|()| out).unwrap()
    };
    assert_eq!(export(&ours, b"label"), export(&theirs, b"label"));
    assert_ne!(export(&ours, b"label"), export(&ours, b"another"));
    let mut long = vec![0; 1 << 16];
    assert!(
        ours.export_keying_material(&mut long, b"label", b"")
            .is_err()
    );
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::AsFd as _;

    use super::super::sys::{CONTROL, Messages, prepare};
    use super::*;

    /// Returns the traffic class of the first datagram of a connection to a socket bound to `at`.
    async fn traffic_class(at: &str, dscp: u8) -> u8 {
        let at: SocketAddr = at.parse().unwrap();
        let receiver = UdpSocket::bind(at).unwrap();
        prepare(&receiver).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let receiver = tokio::net::UdpSocket::from_std(receiver).unwrap();
        let mut transport = transport();
        transport.dscp = dscp;
        let endpoint = Endpoint::client(SocketAddr::new(at.ip(), 0)).unwrap();
        let to = receiver.local_addr().unwrap();
        let connecting = endpoint.connect_with(client(transport), to, "server.test");
        let mut messages = Messages::new(2048, CONTROL);
        receiver.readable().await.unwrap();
        messages.receive(receiver.as_fd()).unwrap();
        let class = messages.iter().next().unwrap().control.tos.unwrap();
        drop(connecting);
        class
    }

    #[tokio::test]
    async fn dscp_leaves_in_the_upper_six_bits() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            for dscp in [0, 10, 46, 63] {
                // Initial packets have no ECN mark.
                assert_eq!(traffic_class(at, dscp).await, dscp << 2, "{at}");
            }
        }
        assert_eq!(traffic_class("127.0.0.1:0", 64 + 46).await, 46 << 2);
    }

    /// ECN marks are sent together with a DSCP, also in trains of segments.
    #[tokio::test]
    async fn ecn_is_sent_together_with_dscp() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let mut transport = transport();
            transport.dscp = 46;
            let ends = connected(loopback, transport).await;
            upload(&ends, 2_000_000).await;
            let report = ends.0.path_report();
            assert_eq!(
                report.ecn,
                pathmark_transport::path::EcnState::Capable,
                "{loopback}"
            );
        }
    }
}

/// A byte reader can read the end of a complete stream repeatedly, even after the connection is
/// over. If data is missing, each read returns the error.
#[tokio::test]
async fn the_end_of_a_stream_stays_its_end() {
    async fn read(stream: &mut RecvStream) -> Result<usize, std::io::ErrorKind> {
        let mut room = [0; 10];
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut room);
            let polled = Pin::new(&mut *stream).poll_read(cx, &mut buffer);
            polled.map_ok(|()| buffer.filled().len())
        })
        .await
        .map_err(|error| error.kind())
    }
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let (near, far) = connected_from(&endpoint, transport()).await;
    let (mut whole, mut cut) = (
        near.open_uni().await.unwrap(),
        near.open_uni().await.unwrap(),
    );
    whole.write_all(b"hello").await.unwrap();
    whole.finish().unwrap();
    cut.write_all(b"hello").await.unwrap();
    let (mut first, mut second) = (
        far.accept_uni().await.unwrap(),
        far.accept_uni().await.unwrap(),
    );
    assert_eq!(
        (read(&mut first).await, read(&mut second).await),
        (Ok(5), Ok(5))
    );
    assert_eq!(
        (read(&mut first).await, read(&mut first).await),
        (Ok(0), Ok(0))
    );
    near.close(0, b"");
    far.closed().await;
    for _ in 0..2 {
        assert_eq!(read(&mut first).await, Ok(0));
        let lost = Err(std::io::ErrorKind::NotConnected);
        assert_eq!(read(&mut second).await, lost);
    }
}
