//! Replacing an endpoint's socket or a server's configuration while connections are in use.

use std::net::{SocketAddr, UdpSocket};

use pathmark_driver::{ConnectError, Connection, Endpoint};
use pathmark_transport::TransportConfig;

use super::common::{NAME, Server, bounded, configs, in_time, loopback, transport, until};

const LENGTH: usize = 8 << 20;

/// Sends from `from` to `to`, and calls `at_quarter` once a quarter has arrived.
async fn transfer(from: &Connection, to: &Connection, at_quarter: impl FnOnce()) {
    super::common::transfer(from, to, LENGTH, at_quarter).await;
}

/// Returns a server, an endpoint, and both ends of a connection from there.
async fn connected(transport: TransportConfig) -> (Server, Endpoint, (Connection, Connection)) {
    let server = Server::new(transport);
    let client = Endpoint::client(loopback()).unwrap();
    let ends = server.connect(&client).await;
    (server, client, ends)
}

fn socket() -> UdpSocket {
    UdpSocket::bind(loopback()).unwrap()
}

#[test]
fn a_transfer_goes_on_at_another_socket_in_either_direction() {
    in_time(async {
        let (_server, client, (ours, theirs)) = connected(transport()).await;
        for round in 0..4_u64 {
            let (from, to) = if round % 2 == 0 {
                (&ours, &theirs)
            } else {
                (&theirs, &ours)
            };
            transfer(from, to, || client.rebind(socket()).unwrap()).await;
            let now = client.local_address();
            until(|| theirs.remote_address() == now).await;
            until(|| ours.stats().migrations > round).await;
        }
        assert!(ours.path_report().validated);
        assert_eq!(ours.stats().migrations, 4);
    });
}

/// Three connections to two servers move, and one connection is dropped when the socket changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_of_an_endpoint_move_and_one_may_be_dropped() {
    bounded(async {
        let servers = [Server::new(transport()), Server::new(transport())];
        let client = Endpoint::client(loopback()).unwrap();
        let first = servers[0].connect(&client).await;
        let second = servers[1].connect(&client).await;
        let (given_up, other_end) = servers[1].connect(&client).await;
        let change = || {
            client.rebind(socket()).unwrap();
            drop(given_up);
        };
        tokio::join!(
            transfer(&first.0, &first.1, change),
            transfer(&second.1, &second.0, || ()),
        );
        let now = client.local_address();
        for (_, theirs) in [&first, &second] {
            until(|| theirs.remote_address() == now).await;
        }
        other_end.closed().await;
    })
    .await;
}

/// A handshake that started at the former socket is completed there, and the connection moves
/// afterwards.
#[test]
fn a_handshake_under_way_is_completed_and_moves_afterwards() {
    in_time(async {
        let server = Server::new(transport());
        let client = Endpoint::client(loopback()).unwrap();
        let address = server.endpoint.local_address();
        let connecting = client.connect_with(server.client.clone(), address, NAME);
        // Nothing has been sent yet, because the endpoint's tasks haven't run.
        client.rebind(socket()).unwrap();
        let (ours, theirs) = tokio::try_join!(connecting.unwrap(), server.accept()).unwrap();
        transfer(&ours, &theirs, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
        until(|| ours.stats().migrations == 1).await;
    });
}

/// RFC 9000 §18.2: the client of such a server must not use another address.
#[test]
fn a_server_that_forbids_to_move_is_obeyed() {
    in_time(async {
        let mut config = transport();
        config.migration = false;
        let (server, client, (ours, theirs)) = connected(config).await;
        let before = client.local_address();
        assert!(!ours.migrate(None));
        transfer(&ours, &theirs, || client.rebind(socket()).unwrap()).await;
        transfer(&theirs, &ours, || ()).await;
        assert_eq!(theirs.remote_address(), before);
        assert_eq!(ours.stats().migrations, 0);
        // A connection that starts now uses the new socket.
        let (_second, theirs) = server.connect(&client).await;
        assert_eq!(theirs.remote_address(), client.local_address());
        assert_ne!(client.local_address(), before);
    });
}

#[test]
fn accepted_connections_stay_and_new_ones_come_to_the_new_socket() {
    in_time(async {
        let (server, client, (ours, theirs)) = connected(transport()).await;
        let former = server.endpoint.local_address();
        server.endpoint.rebind(socket()).unwrap();
        assert_ne!(server.endpoint.local_address(), former);
        transfer(&ours, &theirs, || ()).await;
        transfer(&theirs, &ours, || ()).await;
        assert_eq!(ours.remote_address(), former);
        let (ours, theirs) = server.connect(&client).await;
        transfer(&theirs, &ours, || ()).await;
        assert_eq!(ours.remote_address(), server.endpoint.local_address());
    });
}

/// Once no connection uses the socket any more, its port is free for others.
#[test]
fn a_former_socket_is_let_go() {
    in_time(async {
        let (_server, client, (ours, theirs)) = connected(transport()).await;
        let former = client.local_address();
        for _ in 0..20 {
            client.rebind(socket()).unwrap();
        }
        transfer(&ours, &theirs, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
        until(|| UdpSocket::bind(former).is_ok()).await;
        transfer(&theirs, &ours, || ()).await;
        drop((ours, theirs));
        client.wait_idle().await;
    });
}

/// A socket that can't reach the server is only used for other servers.
#[test]
fn a_socket_of_the_other_ip_version_takes_no_connection_along() {
    in_time(async {
        let (_server, client, (ours, theirs)) = connected(transport()).await;
        let before = client.local_address();
        let other = UdpSocket::bind("[::1]:0").unwrap();
        transfer(&ours, &theirs, || client.rebind(other).unwrap()).await;
        assert_eq!(theirs.remote_address(), before);
        client.rebind(socket()).unwrap();
        transfer(&ours, &theirs, || ()).await;
        until(|| theirs.remote_address() == client.local_address()).await;
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_moves_to_another_address_of_this_host() {
    in_time(async {
        let server = Server::new(transport());
        let client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        let port = client.local_address().port();
        let expected: SocketAddr = ([127, 0, 0, 2], port).into();
        transfer(&ours, &theirs, || {
            assert!(ours.migrate(Some(expected.ip())));
        })
        .await;
        until(|| theirs.remote_address() == expected).await;
        // The address doesn't belong to this host, so the transfer continues from one that does.
        transfer(&ours, &theirs, || {
            assert!(ours.migrate(Some([192, 0, 2, 77].into())));
        })
        .await;
        assert!(theirs.remote_address().ip().is_loopback());
        until(|| ours.stats().migrations >= 2).await;
    });
}

/// After a certificate is replaced, existing connections continue. Clients that trust the new one
/// can connect, but those that pin the old one can't.
#[test]
fn a_server_changes_its_certificate_while_it_runs() {
    in_time(async {
        let (mut server, client, (ours, theirs)) = connected(transport()).await;
        let old = server.client.clone();
        // A connection that waits to be accepted also gets the new configuration.
        let address = server.endpoint.local_address();
        let connect = || client.connect_with(old.clone(), address, NAME).unwrap();
        let waiting = tokio::spawn(connect());
        let incoming = server.endpoint.accept().await.unwrap();
        let (config, new) = configs(transport());
        server.endpoint.set_server_config(config).unwrap();
        let accepted = incoming.accept().unwrap();
        let (refused, failed) = tokio::join!(waiting, accepted);
        refused.unwrap().unwrap_err();
        failed.unwrap_err();

        server.client = new;
        let (new_ours, new_theirs) = server.connect(&client).await;
        tokio::join!(
            transfer(&ours, &theirs, || ()),
            transfer(&new_ours, &new_theirs, || ()),
        );
        assert_ne!(ours.peer_certificates(), new_ours.peer_certificates());

        let (refused, _) = tokio::join!(connect(), server.accept());
        refused.unwrap_err();

        server.endpoint.close(0_u32.into(), b"");
        let (config, _) = configs(transport());
        let late = server.endpoint.set_server_config(config);
        assert_eq!(late, Err(ConnectError::Closed));
    });
}

/// An endpoint that could only connect accepts connections once it has a server configuration.
#[test]
fn a_client_becomes_a_server() {
    in_time(async {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let (config, client) = configs(transport());
        endpoint.set_server_config(config).unwrap();
        let server = Server { endpoint, client };
        let client = Endpoint::client(loopback()).unwrap();
        let (ours, theirs) = server.connect(&client).await;
        transfer(&theirs, &ours, || ()).await;
    });
}
