//! Paths that change.

use super::pair::{Pair, Setup};
use crate::Duration;
use crate::connection::Event;

fn rebind(pair: &mut Pair, address: &str) {
    pair.client.address = address.parse().unwrap();
}

#[test]
fn a_connection_outlives_a_nat_that_rebinds() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(50_000, Duration::from_secs(5));
    let built = pair.server.told().built;
    rebind(&mut pair, "10.0.0.9:2000");
    pair.upload(50_000, Duration::from_secs(5));
    pair.run(Duration::from_millis(100));
    assert_eq!(
        pair.server.get().remote_address(),
        "10.0.0.9:2000".parse().unwrap()
    );
    assert!(pair.server.has(|e| *e == Event::PathChanged));
    assert_eq!(pair.server.get().stats().migrations, 1);
    assert_eq!(
        pair.server.told().built,
        built + 1,
        "a controller of its own"
    );
    let now = pair.now;
    assert!(pair.server.get().path_report(now).validated);
}

#[test]
fn rebinding_under_loss() {
    for seed in 0..10 {
        let mut pair = Pair::connected(Setup {
            seed,
            ..Setup::default()
        });
        pair.up.faults.loss = 100_000;
        pair.down.faults.loss = 100_000;
        for port in 2000..2005 {
            rebind(&mut pair, &format!("10.0.0.9:{port}"));
            pair.upload(30_000, Duration::from_secs(60));
        }
        pair.run(Duration::from_secs(10));
        assert_eq!(
            pair.server.get().remote_address(),
            "10.0.0.9:2004".parse().unwrap()
        );
    }
}

#[test]
fn a_client_migrates_with_an_id_of_its_own() {
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_millis(200));
    pair.upload(20_000, Duration::from_secs(5));
    let before = pair.client.get().control.remote_ids.current().id;
    let server_before = pair.server.get().control.remote_ids.current().id;
    rebind(&mut pair, "10.1.0.1:3000");
    let now = pair.now;
    assert!(
        pair.client
            .get()
            .migrate(now, Some("10.1.0.1".parse().unwrap()))
    );
    pair.upload(20_000, Duration::from_secs(5));
    pair.run(Duration::from_secs(2));
    assert_ne!(pair.client.get().control.remote_ids.current().id, before);
    assert_ne!(
        pair.server.get().control.remote_ids.current().id,
        server_before
    );
    assert_eq!(
        pair.server.get().remote_address(),
        "10.1.0.1:3000".parse().unwrap()
    );
    assert_eq!(pair.client.get().stats().migrations, 1);
    assert_eq!(pair.server.get().stats().migrations, 1);
}

#[test]
fn a_forged_address_gets_little_and_the_connection_comes_back() {
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_millis(200));
    // One datagram of the client's arrives from an address where nobody answers.
    let mut forged = false;
    pair.tap = Some(Box::new(move |_, datagram| {
        if !forged && datagram.from.port() == 1000 {
            forged = true;
            datagram.from = "192.0.2.1:9".parse().unwrap();
        }
    }));
    pair.record = true;
    pair.server.sent.clear();
    pair.client.get().ping();
    pair.run(Duration::from_secs(10));
    assert_eq!(
        pair.server.get().remote_address(),
        "10.0.0.1:1000".parse().unwrap()
    );
    let to_forged: usize = pair
        .server
        .batches
        .iter()
        .filter(|b| b.remote.port() == 9)
        .map(|b| b.len)
        .sum();
    assert!(to_forged > 0 && to_forged <= 3 * 1200, "{to_forged}");
    pair.upload(20_000, Duration::from_secs(5));
}

#[test]
fn a_server_that_forbids_migration_is_obeyed() {
    let mut setup = Setup::default();
    setup.server.migration = false;
    let mut pair = Pair::connected(setup);
    let now = pair.now;
    assert!(!pair.client.get().migrate(now, None));
}
