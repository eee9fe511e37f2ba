//! Connections need no descriptors, as shown with a lowered limit of the process.
#![cfg(unix)]

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use pathmark_driver::Endpoint;
use pathmark_testbed::own_process;
use tokio::runtime::Runtime;

use super::common::{NAME, Server, bounded, echoed, loopback, transport};

/// Number of connections, both of whose ends are in this process.
const CONNECTIONS: usize = 300;
/// Number of descriptors that the process may have.
const DESCRIPTORS: u64 = 64;

#[test]
fn connections_take_no_descriptors() {
    own_process("descriptors::connections_take_no_descriptors", || {
        Runtime::new()
            .unwrap()
            .block_on(bounded(many_connections()));
    });
}

async fn many_connections() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, most).unwrap();
    let server = Server::new(transport());
    server.echo();
    let client = Endpoint::client(loopback()).unwrap();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let address = server.endpoint.local_address();
        let connecting = client.connect_with(server.client.clone(), address, NAME);
        connections.push(connecting.unwrap().await.unwrap());
    }
    // Enough data for its packets to be paced, so that each connection waits for its timer
    // repeatedly.
    let using = connections.iter().cloned();
    let using: Vec<_> = using
        .map(|connection| tokio::spawn(async move { echoed(&connection, 50_000).await }))
        .collect();
    for task in using {
        task.await.unwrap();
    }
    // With all connections open, the process can still open other files.
    let open = |_| std::net::UdpSocket::bind(loopback()).unwrap();
    let files: Vec<_> = (0..DESCRIPTORS / 2).map(open).collect();
    assert_eq!((client.open_connections(), files.len()), (CONNECTIONS, 32));
}
