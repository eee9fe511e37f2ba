//! The same connections with TLS 1.3.

use super::*;
use crate::crypto::tls::{TlsServerConfig, testing};

fn setup(certificate: &str) -> Setup {
    Setup {
        client_crypto: Arc::new(testing::client(testing::trust_ca(), &[b"test"])),
        server_crypto: Arc::new(testing::server(certificate, &[b"test"])),
        ..Setup::default()
    }
}

#[test]
fn a_megabyte_arrives_and_the_certificate_is_there() {
    let mut pair = Pair::connected(setup("server"));
    assert_eq!(pair.client.get().handshake().peer_certificates().len(), 1);
    pair.upload(1 << 20, Duration::from_secs(30));
    assert_eq!(pair.client.get().stats().packets_lost, 0);
    assert_eq!(pair.server.get().stats().packets_dropped, 0);
}

#[test]
fn keys_are_updated() {
    let mut pair = Pair::connected(setup("server"));
    for _ in 0..3 {
        pair.upload_and_run(50_000, 5, Duration::from_secs(1));
        pair.ping_and_run(Duration::from_millis(200));
        assert!(pair.client.get().update_keys(pair.now));
    }
    pair.upload(50_000, Duration::from_secs(5));
    assert_eq!(pair.server.get().stats().key_updates, 3);
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}

#[test]
fn a_certificate_that_is_no_good_ends_the_handshake_on_both_sides() {
    // [9001 4.8 alerts-are-fatal]
    let mut pair = Pair::with(setup("expired"));
    pair.run(Duration::from_secs(5));
    // certificate_expired (45) as CRYPTO_ERROR.
    assert_eq!(pair.client.closed_with().0, 0x12d);
    assert_eq!(pair.server.peer_closed_with().0, 0x12d);
}

/// Returns when the client completes the handshake with a server that has a chain of
/// `certificates`, 500 bytes each, over a path without losses.
fn over_a_long_path(certificates: usize, one_way: Duration) -> Duration {
    let chain = testing::SERVER_PEM.repeat(certificates);
    let key = include_bytes!("../../crypto/tls/testdata/server.key");
    let server = TlsServerConfig::from_pem(&chain, key, &[b"test"]).unwrap();
    let mut pair = Pair::with(Setup {
        latency: one_way,
        server_crypto: Arc::new(server),
        ..setup("server")
    });
    let begin = pair.now;
    assert!(pair.is_established_within(Duration::from_secs(60)));
    pair.now.saturating_since(begin)
}

/// If a round trip takes longer than a client's first probe timeout, it sends probes although
/// nothing is lost. They permit the server to send the packets that the amplification limit has
/// delayed, instead of repeating others. A long chain of certificates therefore arrives a round
/// trip after the probes.
#[test]
fn what_was_held_back_leaves_before_anything_is_repeated() {
    let millis = Duration::from_millis;
    assert_eq!(over_a_long_path(1, millis(1250)), millis(2500));
    assert_eq!(over_a_long_path(8, millis(400)), millis(1600));
    // The client's first probe is sent after 999 ms.
    assert_eq!(over_a_long_path(8, millis(1250)), millis(999 + 2500));
}
