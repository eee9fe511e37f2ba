//! The packets that a socket sends, and the errors that an application gets.

use std::future::poll_fn;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;

use tokio::io::{AsyncRead as _, ReadBuf};

use super::testing::*;
use super::*;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::path::EcnState;
use pathmark_transport::{Duration, TransportConfig};

/// Returns both ends of a connection over `loopback`.
async fn connected(loopback: &str, transport: TransportConfig) -> (Connection, Connection) {
    let endpoint = Endpoint::client(loopback.parse().unwrap()).unwrap();
    connected_from(&endpoint, transport).await
}

#[tokio::test]
async fn what_the_kernel_refuses_to_send_is_the_reason_that_is_reported() {
    let mut transport = transport();
    transport.handshake_timeout = Duration::from_millis(200);
    let endpoint = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
    // Broadcasts require an option (socket(7)).
    let broadcast = "255.255.255.255:9".parse().unwrap();
    let connecting = endpoint.connect_with(client(transport), broadcast, NAME);
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
        let server = Endpoint::server(server_config(), to.parse().unwrap()).unwrap();
        let address = server.local_address();
        let endpoint = Endpoint::client(from.parse().unwrap()).unwrap();
        let connecting = endpoint.connect_with(client(transport()), address, NAME);
        if !reached {
            assert_eq!(connecting.unwrap_err(), ConnectError::Address(address));
            continue;
        }
        let ends = both(connecting.unwrap(), &server).await;
        assert_eq!(ends.0.remote_address(), address);
        upload(&ends, 1_000_000).await;
        assert_eq!(ends.0.path_report().ecn, EcnState::Capable);
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
    let exported = ours.export_keying_material(&mut long, b"label", b"");
    assert!(exported.is_err());
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
        let connecting = endpoint.connect_with(client(transport), to, NAME);
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
            assert_eq!(ends.0.path_report().ecn, EcnState::Capable, "{loopback}");
        }
    }
}

/// A byte reader can read the end of a complete stream repeatedly, even after the connection is
/// over. If data is missing, each read returns the error.
#[tokio::test]
async fn the_end_of_a_stream_stays_its_end() {
    async fn read(stream: &mut RecvStream) -> Result<usize, std::io::ErrorKind> {
        let mut room = [0; 10];
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut room);
            let polled = Pin::new(&mut *stream).poll_read(cx, &mut buffer);
            polled.map_ok(|()| buffer.filled().len())
        });
        read.await.map_err(|error| error.kind())
    }
    let (near, far) = connected("127.0.0.1:0", transport()).await;
    let [mut whole, mut cut] = [near.open_uni().await, near.open_uni().await].map(Result::unwrap);
    whole.write_all(b"hello").await.unwrap();
    whole.finish().unwrap();
    cut.write_all(b"hello").await.unwrap();
    let ends = [far.accept_uni().await, far.accept_uni().await];
    let [mut first, mut second] = ends.map(Result::unwrap);
    assert_eq!(read(&mut first).await, Ok(5));
    assert_eq!(read(&mut second).await, Ok(5));
    for _ in 0..2 {
        assert_eq!(read(&mut first).await, Ok(0));
    }
    near.close(0_u32.into(), b"");
    far.closed().await;
    for _ in 0..2 {
        assert_eq!(read(&mut first).await, Ok(0));
        let lost = Err(std::io::ErrorKind::NotConnected);
        assert_eq!(read(&mut second).await, lost);
    }
}
