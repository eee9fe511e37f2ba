//! Servers that have lost their state: stateless reset (RFC 9000 §10.3).

use std::sync::Arc;

use aws_lc_rs::hmac;
use pathmark_transport::crypto::tls::EndpointSecret;

use super::support::for_each;
use super::support::peers::options::EndpointKeys;
use super::support::peers::{End, Options, PAIRINGS, Pair, Server};
use super::support::proxy::Weather;

fn keyed() -> Options {
    let secret = [0x42; 32];
    Options {
        key: Some(EndpointKeys {
            ours: Arc::new(EndpointSecret::new(&secret).unwrap()),
            quinn: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)),
        }),
        ..Options::default()
    }
}

/// The path leads to another server with the same key, as after a restart. With its next packet,
/// the client learns that its connection is gone.
#[test]
fn a_server_that_forgot_resets_the_connection() {
    for_each(PAIRINGS, async |stacks| {
        let options = keyed();
        let (proxy, pair) = Pair::over(stacks, &options, Weather::FAIR, 1).await;
        let mut sender = pair.client.open_uni().await.unwrap();
        sender.write_all(&[1; 5000]).await.unwrap();
        let mut receiver = pair.server.accept_uni().await.unwrap();
        assert!(receiver.read_chunk().await.unwrap().is_some());

        let second = Server::start(stacks.1, &options);
        proxy.set_server(second.address());
        // The result doesn't matter, because the reset may arrive earlier.
        let _ = sender.write_all(&[2; 5000]).await;
        assert_eq!(pair.client.closed().await, End::Reset, "{stacks:?}");
        if let Server::Ours(endpoint) = &second {
            assert!(endpoint.stats().resets_sent >= 1);
        }
    });
}
