//! Key updates: requested, required by limits, and answered.

use std::sync::Arc;

use super::fixed_window::fixed_window;
use super::pair::{Pair, Setup};
use crate::Duration;
use crate::connection::ConnectionError;
use crate::crypto::null::NullCrypto;
use crate::wire::SpaceId;

#[test]
fn either_side_updates_and_the_other_follows() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(20_000, Duration::from_secs(5));
    let now = pair.now;
    assert!(pair.client.get().update_keys(now));
    assert!(!pair.client.get().update_keys(now), "not twice at once");
    pair.upload(20_000, Duration::from_secs(5));
    assert_eq!(pair.client.get().stats().key_updates, 1);
    assert_eq!(pair.server.get().stats().key_updates, 1);
    pair.run(Duration::from_secs(2));
    let now = pair.now;
    pair.server.get().ping();
    pair.run(Duration::from_millis(100));
    assert!(
        pair.server
            .get()
            .update_keys(now + Duration::from_millis(100))
    );
    pair.upload(20_000, Duration::from_secs(5));
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.client.get().stats().key_updates, 2);
    assert_eq!(pair.server.get().stats().key_updates, 2);
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}

#[test]
fn keys_are_renewed_before_they_wear_out() {
    // [9001 5.3 update-before-limit]
    let crypto = Arc::new(NullCrypto::new(&[b"test"]).with_limits(400, 1 << 20));
    let mut setup = Setup {
        client_crypto: crypto.clone(),
        server_crypto: crypto,
        ..Setup::default()
    };
    // Slow enough that updates happen within the limit.
    setup.client.controller = fixed_window(20_000).0;
    let mut pair = Pair::connected(setup);
    for loss in [0, 30_000] {
        pair.up.faults.loss = loss;
        pair.down.faults.loss = loss;
        pair.up.faults.reorder = loss;
        pair.upload(2_000_000, Duration::from_secs(100));
    }
    assert!(pair.client.error().is_none());
    let updates = pair.client.get().stats().key_updates;
    assert!(updates >= 5, "{updates}");
}

#[test]
fn updates_are_configurable() {
    let mut setup = Setup::default();
    setup.client.key_update_after = 50;
    setup.client.controller = fixed_window(20_000).0;
    let mut pair = Pair::connected(setup);
    pair.upload(1_000_000, Duration::from_secs(100));
    assert!(pair.client.get().stats().key_updates >= 3);
}

#[test]
fn too_many_forgeries_end_the_connection() {
    // [9001 6.6 integrity]
    let crypto = Arc::new(NullCrypto::new(&[b"test"]).with_limits(1 << 20, 20));
    let mut pair = Pair::connected(Setup {
        client_crypto: crypto.clone(),
        server_crypto: crypto,
        ..Setup::default()
    });
    let now = pair.now;
    for _ in 0..30 {
        let mut bytes =
            super::inject::packet(pair.server.get(), now, SpaceId::Data, &[1, 1, 1, 1, 1]);
        *bytes.last_mut().unwrap() ^= 1;
        pair.send_to_client(bytes);
    }
    match pair.client.error() {
        Some(ConnectionError::Transport(e)) => assert_eq!(e.code.0, 0x0f),
        other => panic!("{other:?}"),
    }
}

/// Packets of the handshake that can't be decrypted count towards the same limit.
#[test]
fn too_many_forgeries_end_a_handshake() {
    // [9001 6.6 count-forged] [9001 6.6 integrity]
    let crypto = Arc::new(NullCrypto::new(&[b"test"]).with_limits(1 << 20, 20));
    let mut pair = Pair::with(Setup {
        client_crypto: crypto.clone(),
        server_crypto: crypto,
        ..Setup::default()
    });
    let known = |p: &mut Pair| p.client.get().spaces.keys().has(SpaceId::Handshake);
    assert!(pair.run_until(Duration::from_secs(1), known));
    let now = pair.now;
    for sent in 0..=20 {
        assert_eq!(pair.client.error(), None, "{sent}");
        let server = pair.server.get();
        let mut bytes = super::inject::packet(server, now, SpaceId::Handshake, &[1, 1, 1, 1, 1]);
        *bytes.last_mut().unwrap() ^= 1;
        pair.send_to_client(bytes);
    }
    match pair.client.error() {
        Some(ConnectionError::Transport(e)) => assert_eq!(e.code.0, 0x0f),
        other => panic!("{other:?}"),
    }
}
