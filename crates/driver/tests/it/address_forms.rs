//! IPv6 sockets, sockets for both IP versions, and moves between versions; and clients that arrive
//! while a server's socket is being replaced.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_driver::{Connection, Endpoint};
use pathmark_transport::TransportConfig;
use pathmark_transport::connection::ConnectionError;
use pathmark_transport::wire::TransportErrorCode;
use vcp_proto::VcpSignal;

use super::common::{NAME, Server, in_time, loopback, until};

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Returns an IPv4 server. Both ends send shims.
fn server() -> Server {
    let algorithm = Algorithm::parse("vcp+bise+wlte").unwrap();
    let factory = move |now, mtu| algorithm.controller(now, mtu);
    let mut transport = TransportConfig::new(Arc::new(factory));
    transport.signals = vec![Arc::new(VcpSignal::default())];
    Server::new(transport)
}

async fn transfer(from: &Connection, to: &Connection) {
    super::common::transfer(from, to, 1 << 20, || ()).await;
}

/// Shims are only counted at the connection's current address.
async fn counts_shims((ours, theirs): &(Connection, Connection), address: &str) {
    let before = ours.stats().shims_received;
    transfer(theirs, ours).await;
    assert!(ours.stats().shims_received > before, "{address}");
}

/// A socket for both IP versions reports IPv4 addresses as IPv4-mapped. An IPv6-only socket accepts
/// this form, but can't send to such addresses.
#[test]
fn a_socket_for_ipv6_alone_takes_no_ipv4_connection_along() {
    in_time(async {
        let client = Endpoint::client(at("[::]:0")).unwrap();
        let server = server();
        let (ours, theirs) = server.connect(&client).await;
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
    });
}

/// An IPv4 address can be given in either form. An address from which packets can't reach the
/// server is refused.
#[test]
fn an_address_to_move_to_is_taken_in_the_form_of_the_socket() {
    in_time(async {
        let client = Endpoint::client(at("[::]:0")).unwrap();
        let server = server();
        let ends = server.connect(&client).await;
        let (ours, theirs) = &ends;
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
            counts_shims(&ends, address).await;
        }
        assert!(!ours.migrate(named("::1")));
        assert_eq!(ours.stats().migrations, 4);
        transfer(ours, theirs).await;
    });
}

/// An IPv4 socket can't send from an IPv6 address.
#[test]
fn an_address_of_the_other_version_is_refused() {
    in_time(async {
        let client = Endpoint::client(at("0.0.0.0:0")).unwrap();
        let server = server();
        let ends = server.connect(&client).await;
        let ours = &ends.0;
        assert!(!ours.migrate(Some("::1".parse().unwrap())));
        assert!(ours.migrate(Some("::ffff:127.0.0.2".parse().unwrap())));
        until(|| ours.stats().migrations == 1).await;
        counts_shims(&ends, "127.0.0.2").await;
    });
}

/// Clients whose first packets arrived at a former socket get their answer from there, because they
/// know the server by that address.
#[test]
fn clients_that_ask_while_the_socket_changes_are_answered_where_they_asked() {
    in_time(async {
        let server = server();
        let client = Endpoint::client(loopback()).unwrap();
        let address = server.endpoint.local_address();
        let connect = || {
            let connecting = client.connect_with(server.client.clone(), address, NAME);
            connecting.unwrap()
        };
        let connecting = async { tokio::join!(connect(), connect(), connect()) };
        let serving = async {
            let accept = || async { server.endpoint.accept().await.unwrap() };
            // One client was taken but not decided upon, one is unwanted, and one waits to be
            // taken.
            let (taken, unwanted) = (accept().await, accept().await);
            until(|| server.endpoint.stats().incoming == 3).await;
            let new = UdpSocket::bind(loopback()).unwrap();
            server.endpoint.rebind(new).unwrap();
            unwanted.refuse();
            let (taken, waiting) = (taken.accept(), accept().await.accept());
            tokio::try_join!(taken.unwrap(), waiting.unwrap())
        };
        let (ours, theirs) = tokio::join!(connecting, serving);
        let theirs = theirs.unwrap();
        let ours = [ours.0, ours.1, ours.2];
        let is_refused = |end: &&Result<_, _>| match end {
            Err(ConnectionError::ConnectionClosed(error)) => {
                error.code == TransportErrorCode::CONNECTION_REFUSED
            }
            _ => false,
        };
        assert_eq!(ours.iter().filter(is_refused).count(), 1, "{ours:?}");
        let ours: Vec<_> = ours.into_iter().filter_map(Result::ok).collect();
        assert_eq!(ours.len(), 2);
        for end in &ours {
            assert_eq!(end.remote_address(), address);
        }
        drop(theirs);
    });
}
