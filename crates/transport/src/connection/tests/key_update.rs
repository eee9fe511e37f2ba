//! Key updates: requested, required by limits, and answered.

use super::*;

#[test]
fn either_side_updates_and_the_other_follows() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(20_000, Duration::from_secs(5));
    assert!(pair.client.get().update_keys(pair.now));
    let again = pair.client.get().update_keys(pair.now);
    assert!(!again, "not twice at once");
    pair.upload(20_000, Duration::from_secs(5));
    assert_eq!(pair.client.get().stats().key_updates, 1);
    assert_eq!(pair.server.get().stats().key_updates, 1);
    pair.run(Duration::from_secs(2));
    pair.server.get().ping();
    pair.run(Duration::from_millis(100));
    assert!(pair.server.get().update_keys(pair.now));
    pair.upload_and_run(20_000, 5, Duration::from_millis(100));
    assert_eq!(pair.client.get().stats().key_updates, 2);
    assert_eq!(pair.server.get().stats().key_updates, 2);
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}

#[test]
fn keys_are_renewed_before_they_wear_out() {
    // [9001 5.3 update-before-limit]
    let crypto = NullCrypto::new(&[b"test"]).with_limits(400, 1 << 20);
    let mut setup = Setup::with_crypto(crypto);
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
    let mut setup = Setup::with_window(20_000);
    setup.client.key_update_after = 50;
    let mut pair = Pair::connected(setup);
    pair.upload(1_000_000, Duration::from_secs(100));
    assert!(pair.client.get().stats().key_updates >= 3);
}

/// Packets of the handshake that can't be decrypted count towards the same limit.
#[test]
fn too_many_forgeries_end_the_connection() {
    // [9001 6.6 count-forged] [9001 6.6 integrity]
    for space in [SpaceId::Handshake, SpaceId::Data] {
        let crypto = NullCrypto::new(&[b"test"]).with_limits(1 << 20, 20);
        let mut pair = Pair::with(Setup::with_crypto(crypto));
        let known = |p: &mut Pair| p.client.get().spaces.keys.has(space);
        assert!(pair.run_until(Duration::from_secs(1), known));
        for sent in 0..=20 {
            assert_eq!(pair.client.error(), None, "{sent}");
            let mut bytes = packet(pair.server.get(), pair.now, space, &[1, 1, 1, 1, 1]);
            *bytes.last_mut().unwrap() ^= 1;
            pair.send_to_client(bytes);
        }
        assert_eq!(pair.client.closed_with(), Code::AEAD_LIMIT_REACHED);
    }
}
