//! Only sealed packets are sent.

use std::sync::Arc;

use super::pair::{Pair, Setup, pattern};
use super::signal::TestSignal;
use crate::connection::ConnectionError;
use crate::crypto::null::NullCrypto;
use crate::path::{AmplificationLimit, PathValidation};
use crate::streams::Dir;
use crate::wire::TransportErrorCode;
use crate::{Duration, Signal};

/// The first packets that the peer acknowledges would renew the keys, but its packets are lost.
#[test]
fn a_key_at_its_limit_seals_no_more_and_nothing_leaves_in_clear() {
    // [9001 6.6 worn-connection] [9001 6.6 confidentiality]
    let crypto = Arc::new(NullCrypto::new(&[b"test"]).with_limits(40, 1 << 20));
    let mut pair = Pair::connected(Setup {
        client_crypto: crypto.clone(),
        server_crypto: crypto,
        ..Setup::default()
    });
    pair.run(Duration::from_millis(500));
    pair.down.faults.loss = 1_000_000;
    let id = pair.client.get().streams().open(Dir::Uni).unwrap();
    let data = pattern(100_000, 1);
    assert!(pair.client.get().streams().write(id, &data).is_ok());
    pair.run(Duration::from_secs(2));
    match pair.client.error() {
        Some(ConnectionError::Transport(error)) => {
            assert_eq!(error.code, TransportErrorCode::AEAD_LIMIT_REACHED);
        }
        other => panic!("{other:?}"),
    }
    // Each datagram that was sent can be decrypted.
    let stats = pair.server.get().stats();
    assert_eq!(stats.packets_dropped, 0);
    let received = stats.datagrams_received;
    let sent = pair.client.get().stats().datagrams_sent;
    assert_eq!(received, sent);
}

/// An address that isn't validated gets datagrams of any size. With a shim in front, there may be
/// room for a frame but not for its seal.
#[test]
fn no_datagram_is_too_short_for_its_seal() {
    let signals: Vec<Arc<dyn Signal>> = vec![Arc::new(TestSignal::long_shim(0))];
    for received in 1..120 {
        let mut setup = Setup::default();
        setup.client.signals = signals.clone();
        setup.server.signals = signals.clone();
        let mut pair = Pair::connected(setup);
        pair.run(Duration::from_millis(500));
        let (now, dropped) = (pair.now, pair.client.get().stats().packets_dropped);
        let server = pair.server.get();
        let mut validation = PathValidation::new(now, Duration::from_secs(1));
        validation.on_challenge_sent(now, [1; 8], false);
        *server.paths.limit() = AmplificationLimit::new();
        server.paths.limit().on_received(received);
        *server.paths.validation() = Some(validation);
        server.ping();
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.server.error(), None);
        let client = pair.client.get().stats();
        assert_eq!(client.packets_dropped, dropped, "{received} bytes received");
    }
}
