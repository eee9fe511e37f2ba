//! Path MTU discovery.

use super::*;
use crate::path::Mtud;

#[test]
fn the_largest_datagram_is_found() {
    for (path, max, at_least) in [
        (9000, 1472, 1472),
        (1300, 1472, 1280),
        (1200, 1472, 1200),
        (4000, 9000, 3980),
    ] {
        let mut pair = Pair::connected(Setup::new(|setup| setup.client.max_mtu = Some(max)));
        pair.up.faults.mtu = Some(path);
        for _ in 0..6 {
            pair.upload_and_run(40_000, 20, Duration::from_secs(2));
        }
        let mtu = pair.client.get().mtu();
        let within = mtu >= at_least && usize::from(mtu) <= path;
        assert!(within, "{mtu} of {path}");
        assert_eq!(pair.client.log().mtu, mtu);
        let stats = pair.client.get().stats();
        assert_eq!(stats.packets_lost, 0, "probes are no losses: {stats:?}");
        assert_eq!(stats.mtu_black_holes, 0);
    }
}

#[test]
fn the_peers_limit_holds() {
    let mut setup = Setup::default();
    setup.client.max_mtu = Some(9000);
    setup.server.max_udp_payload_size = 1350;
    let mut pair = Pair::connected(setup);
    pair.record = true;
    pair.upload_and_run(100_000, 20, Duration::from_secs(2));
    assert_eq!(pair.client.get().mtu(), 1350);
    assert_eq!(pair.client.sent.iter().map(Vec::len).max(), Some(1350));
}

/// The interface limits the search unless a smaller limit applies, and a path as wide as most is
/// found quickly.
#[test]
fn the_interface_bounds_the_search() {
    for (path, interface, limit, expected) in [
        (9000, 8972, 65_527, 8972..=8972),
        (9000, 65_508, 65_527, 8972..=8972),
        (9000, 1280, 65_527, 1280..=1280),
        (9000, 8972, 4000, 4000..=4000),
        (1472, 8972, 65_527, 1472..=1472),
        (1452, 8972, 65_527, 1441..=1452),
        (5000, 8972, 65_527, 4989..=5000),
    ] {
        let mut pair = Pair::with(Setup::new(|setup| {
            setup.server.max_udp_payload_size = limit;
        }));
        pair.client.get().set_interface_mtu(interface);
        pair.connect();
        pair.up.faults.mtu = Some(path);
        for _ in 0..8 {
            pair.upload_and_run(100_000, 20, Duration::from_secs(2));
        }
        let mtu = pair.client.get().mtu();
        assert!(expected.contains(&mtu), "{mtu} of {path}, {interface}");
        assert_eq!(pair.client.get().stats().packets_lost, 0);
    }
}

/// RFC 9000 §14.4: probes are also limited by the congestion window.
#[test]
fn probes_keep_to_the_window() {
    for (bytes, probes) in [(100, true), (2300, false)] {
        let mut setup = Setup::with_window(3000);
        setup.client.max_mtu = Some(1200);
        let mut pair = Pair::at_rest(setup);
        pair.client.write(&vec![1; bytes]);
        pair.flush();
        // A search begins while this packet is in flight.
        *pair.client.get().paths.mtud() = Mtud::new(1472);
        let sent = pair.client.batches.len();
        pair.flush();
        let sizes = pair.client.batches[sent..].iter().map(|b| b.len);
        assert_eq!(sizes.collect::<Vec<_>>(), vec![1472; usize::from(probes)]);
    }
}

#[test]
fn a_path_that_becomes_narrower_is_noticed() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(100_000, 20, Duration::from_millis(100));
    assert_eq!(pair.client.get().mtu(), 1472);
    pair.up.faults.mtu = Some(1400);
    pair.upload(200_000, Duration::from_secs(60));
    assert!(pair.client.get().mtu() <= 1400);
    assert_eq!(pair.client.get().stats().mtu_black_holes, 1);
}

#[test]
fn random_loss_is_no_black_hole() {
    let mut pair = Pair::connected(Setup::default());
    pair.up.faults.loss = 200_000;
    pair.down.faults.loss = 50_000;
    pair.upload(500_000, Duration::from_secs(120));
    assert_eq!(pair.client.get().stats().mtu_black_holes, 0);
}

/// If all paths are known to carry large datagrams, a handshake takes no longer than usual.
#[test]
fn a_handshake_of_large_datagrams_takes_two_round_trips() {
    let mut took = Vec::new();
    for mtu in [1200, 3600, 3601, 8972, 16_000, 32_000, 65_000] {
        let mut pair = Pair::with(Setup::new(|setup| setup.server.initial_mtu = mtu));
        let begun = pair.now;
        let done = pair.run_until(Duration::from_secs(100), |pair| {
            pair.client.get().handshake().is_confirmed() || pair.client.error().is_some()
        });
        let took_it = pair.now.saturating_since(begun).as_millis();
        took.push((mtu, took_it, done && pair.client.error().is_none()));
    }
    let quick = took.iter().all(|(_, ms, done)| *ms <= 100 && *done);
    assert!(quick, "{took:?}");
}

/// A client on a path that dropped shims, just before one is tried again. A search for a larger
/// datagram then begins, on a path that carries 1200 bytes.
fn before_a_trial_of_shims() -> Pair {
    let mut setup = Setup::with_shims();
    setup.client.max_mtu = Some(1200);
    let mut pair = Pair::connected(setup);
    pair.up.faults.eats_shims = true;
    pair.upload(100_000, Duration::from_secs(10));
    assert!(!pair.client.get().paths.plain().passes_shims());
    for _ in 0..3 {
        pair.run(Duration::from_secs(9));
        pair.client.get().ping();
        pair.flush();
    }
    pair.run(Duration::from_secs(4));
    assert!(!pair.client.get().paths.plain().is_tried());
    pair.record = true;
    pair.up.faults.mtu = Some(1200);
    *pair.client.get().paths.mtud() = Mtud::new(1472);
    pair
}

/// Returns the number of datagrams with shims that are probes of the size, and of others.
fn shims(pair: &Pair) -> (usize, usize) {
    let sent = pair.client.sent.iter();
    let shimmed = sent.filter(|datagram| datagram[0] & 0xf8 == 8);
    let (probes, others): (Vec<_>, Vec<_>) = shimmed.partition(|datagram| datagram.len() > 1200);
    (probes.len(), others.len())
}

/// A probe that is lost because of its size proves nothing about shims, so three other packets are
/// tried.
#[test]
fn probes_that_are_lost_are_no_trial_of_shims() {
    let mut pair = before_a_trial_of_shims();
    pair.upload(100_000, Duration::from_secs(10));
    let (probes, others) = shims(&pair);
    assert!(probes > 0 && others == 3, "{probes} {others}");
    assert!(!pair.client.get().paths.plain().passes_shims());
}

/// A probe doesn't delay the trial, either.
#[test]
fn a_trial_of_shims_does_not_wait_for_a_probe() {
    let mut pair = before_a_trial_of_shims();
    pair.up.faults.eats_shims = false;
    pair.upload_and_run(100_000, 10, Duration::from_millis(100));
    assert!(shims(&pair).0 > 0);
    assert!(pair.client.get().paths.plain().passes_shims());
}
