//! Early data (0-RTT, RFC 9001 §4.6), with clients and servers of either stack.

use std::net::SocketAddr;
use std::time::Duration;

use pathmark_transport::wire::{PacketType, PartialDecode};

use super::resumption::visit;
use super::support::data;
use super::support::peers::{Options, Returning, Server, Stack};
use super::support::proxy::{Proxy, Weather};

/// Files that a client requests, and their length in bytes.
const FILES: u64 = 40;
const LENGTH: u64 = 10_000;

pub(crate) fn options() -> Options {
    Options::with(|options| options.early_data = true)
}

/// The client requests files before the handshake is complete, and must get them completely.
/// Returns true if the server accepted these requests as early data.
pub(crate) async fn fetch(client: &Returning, server: &Server, address: SocketAddr) -> bool {
    let serving = async {
        let accepted = server.accept().await.unwrap();
        data::answer(&accepted, FILES as usize).await
    };
    let asking = async {
        let (connection, accepted) = client.connect_early(address);
        let mut receivers = Vec::new();
        for seed in 0..FILES {
            let (mut sender, receiver) = connection.open_bi().await.unwrap();
            sender.write_all(&data::asking(seed, LENGTH)).await.unwrap();
            sender.finish().unwrap();
            receivers.push((seed, receiver));
        }
        let mut received = Vec::new();
        for (seed, mut receiver) in receivers {
            received.push((seed, data::receive(&mut receiver).await.unwrap()));
        }
        (received, accepted.await)
    };
    let (sent, (received, accepted)) = tokio::join!(serving, asking);
    assert!(sent == received, "files differ");
    accepted
}

/// Returns how many bytes of a datagram are 0-RTT packets.
fn early_bytes(mut datagram: &[u8]) -> usize {
    let mut bytes = 0;
    while let Ok(PartialDecode::Protected(found)) = PartialDecode::new(datagram, 8) {
        if found.ty == PacketType::ZeroRtt {
            bytes += found.len;
        }
        datagram = datagram.get(found.len..).unwrap_or(&[]);
    }
    bytes
}

/// The runner's case: all requests of the second connection are early data.
pub(crate) async fn asks_early(stacks: (Stack, Stack)) {
    let server = Server::start(stacks.1, &options());
    // Long enough to send requests before the server's first answer, even on a busy machine.
    let weather = Weather::with(|weather| weather.delay = Duration::from_millis(100));
    let client = Returning::new(stacks.0, &options());
    assert!(!visit(&client, &server).await);
    for seed in 0..3 {
        // A proxy serves a single client, but some clients use a new socket for each connection.
        let proxy = Proxy::start(server.address(), weather, seed).await;
        proxy.record();
        assert!(fetch(&client, &server, proxy.address()).await, "refused");
        let record = proxy.take_record();
        let passed = record.iter().filter(|passed| passed.from_client);
        let early: usize = passed.map(|passed| early_bytes(&passed.bytes)).sum();
        assert!(early >= FILES as usize * 16, "{early} bytes");
    }
}
