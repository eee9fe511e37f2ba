//! The driver over real sockets on loopback.

use std::net::SocketAddr;

use pathmark_driver::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::common::{NAME, Server, bounded, configs, echoed, loopback, transport};

fn pattern(length: usize) -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    (0..length as u32).map(byte).collect()
}

/// One end uses tokio's traits, and the other whole chunks.
#[tokio::test]
async fn bytes_arrive_whole_in_both_directions() {
    let server = Server::new(transport());
    let client = Endpoint::client(loopback()).unwrap();
    let (ours, theirs) = server.connect(&client).await;
    let sent = pattern(8 << 20);
    let echo = async {
        let (mut send, mut recv) = theirs.accept_bi().await.unwrap();
        while let Some(chunk) = recv.read_chunk().await.unwrap() {
            send.write_chunk(chunk).await.unwrap();
        }
        send.finish().unwrap();
        assert_eq!(send.stopped().await, Ok(None));
    };
    let (mut send, mut recv) = ours.open_bi().await.unwrap();
    let write = async {
        send.write_all(&sent).await.unwrap();
        send.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let read = AsyncReadExt::read_to_end(&mut recv, &mut back);
    let (.., read) = bounded(async { tokio::join!(echo, write, read) }).await;
    read.unwrap();
    assert!(back == sent);
}

/// Connections begin on a new endpoint before any has sent a packet. Every tenth is dropped, and
/// the others are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_begun_at_once_all_come_about() {
    for count in [2, 64] {
        let server = Server::new(transport());
        server.echo();
        let client = Endpoint::client(loopback()).unwrap();
        let address = server.endpoint.local_address();
        let begin = |_| client.connect_with(server.client.clone(), address, NAME);
        let connecting: Vec<_> = (0..count).map(begin).collect();
        let mut using = Vec::new();
        for (n, connecting) in connecting.into_iter().enumerate() {
            if n % 10 != 9 {
                using.push(tokio::spawn(async move {
                    echoed(&connecting.unwrap().await.unwrap(), 30_000).await;
                }));
            }
        }
        for task in using {
            bounded(task).await.unwrap();
        }
    }
}

/// A connected socket reports ICMP errors, which only concern a single datagram.
#[tokio::test]
async fn an_endpoint_outlives_what_icmp_says() {
    let (server_config, client_config) = configs(transport());
    // A port below those that the kernel assigns, so that no other test gets it meanwhile.
    let free = |port: &u16| std::net::UdpSocket::bind((loopback().ip(), *port)).is_ok();
    let address = SocketAddr::new(loopback().ip(), (20_000..30_000).find(free).unwrap());
    let socket = std::net::UdpSocket::bind(loopback()).unwrap();
    socket.connect(address).unwrap();
    // The port is unused, so the next call at this socket returns the error.
    socket.send(b"?").unwrap();
    let client = Endpoint::from_socket(socket, None).unwrap();
    // When the runtime asks the kernel which sockets are ready, the endpoint's was due first.
    let other = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
    let own = other.local_addr().unwrap();
    other.send_to(b"!", own).await.unwrap();
    other.recv(&mut [0]).await.unwrap();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let server = Endpoint::server(server_config, address).unwrap();
    let connecting = client.connect_with(client_config, address, NAME);
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let both = async { tokio::try_join!(connecting.unwrap(), accepting) };
    bounded(both).await.unwrap();
}
