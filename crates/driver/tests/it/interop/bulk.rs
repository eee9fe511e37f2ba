//! Large transfers in both directions at once.

use super::support::bounded;
use super::support::data;
use super::support::peers::{Connection, Options, Pair, STRANGERS, Stack};

const LENGTH: u64 = 64 << 20;

/// Sends on one stream and receives on another. Returns the fingerprints of both streams.
async fn exchange(connection: Connection, own: u64) -> (data::Fingerprint, data::Fingerprint) {
    let sending = async {
        let mut sender = connection.open_uni().await.unwrap();
        let sent = data::send(&mut sender, own, LENGTH).await.unwrap();
        assert_eq!(sender.stopped().await, Ok(None));
        sent
    };
    let receiving = async {
        let mut receiver = connection.accept_uni().await.unwrap();
        data::receive(&mut receiver).await.unwrap()
    };
    tokio::join!(sending, receiving)
}

async fn both_ways(stacks: (Stack, Stack)) {
    let pair = Pair::new(stacks, &Options::default()).await;
    let client = tokio::spawn(exchange(pair.client.clone(), 1));
    let server = tokio::spawn(exchange(pair.server.clone(), 2));
    let (client, server) = (client.await.unwrap(), server.await.unwrap());
    assert_eq!(client.0, server.1, "client to server, {stacks:?}");
    assert_eq!(server.0, client.1, "server to client, {stacks:?}");
    // Loopback carries every probed size, so the MTU search has reached its end.
    for side in [&pair.client, &pair.server] {
        let highest = if side.ours().is_some() { 1472 } else { 1452 };
        assert!(side.mtu() >= highest - 20, "{} {stacks:?}", side.mtu());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_mebibytes_both_ways_with_our_client() {
    bounded(both_ways(STRANGERS[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_mebibytes_both_ways_with_our_server() {
    bounded(both_ways(STRANGERS[1])).await;
}
