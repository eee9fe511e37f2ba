//! Only sealed packets are sent.

use super::*;
use crate::path::{AmplificationLimit, PathValidation};

/// The first packets that the peer acknowledges would renew the keys, but its packets are lost.
#[test]
fn a_key_at_its_limit_seals_no_more_and_nothing_leaves_in_clear() {
    // [9001 6.6 worn-connection] [9001 6.6 confidentiality]
    let crypto = NullCrypto::new(&[b"test"]).with_limits(40, 1 << 20);
    let mut pair = Pair::at_rest(Setup::with_crypto(crypto));
    pair.down.faults.loss = 1_000_000;
    pair.client.write(&pattern(100_000, 1));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.client.closed_with(), Code::AEAD_LIMIT_REACHED);
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
        let mut pair = Pair::at_rest(Setup::both(|config| config.signals = signals.clone()));
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
