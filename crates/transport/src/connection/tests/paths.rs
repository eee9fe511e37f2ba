//! Changes of path.

use std::net::IpAddr;

use super::*;

#[test]
fn a_connection_outlives_a_nat_that_rebinds() {
    // [9000 9 validate-changes] [9000 9.3 follow] [9000 9.4 reset-on-migration]
    let mut pair = Pair::connected(Setup::default());
    pair.upload(50_000, Duration::from_secs(5));
    let built = pair.server.log().built;
    pair.rebind("10.0.0.9:2000");
    pair.upload_and_run(50_000, 5, Duration::from_millis(100));
    assert_eq!(pair.server.get().remote_address(), pair.client.address);
    assert!(pair.server.has(|e| *e == Event::PathChanged));
    assert_eq!(pair.server.get().stats().migrations, 1);
    // A controller of its own.
    assert_eq!(pair.server.log().built, built + 1);
    assert!(pair.server.get().path_report(pair.now).validated);
}

/// Returns the IDs that the client and the server use for each other.
fn current_ids(pair: &mut Pair) -> [ConnectionId; 2] {
    [true, false].map(|client| {
        let control = &pair.host(client).get().sources.control;
        control.remote_ids.current().id
    })
}

#[test]
fn a_client_migrates_with_an_id_of_its_own() {
    // [9000 9.5 id-per-local-address]
    let mut pair = Pair::at_rest(Setup::default());
    pair.upload(20_000, Duration::from_secs(5));
    let before = current_ids(&mut pair);
    pair.migrate("10.1.0.1:3000");
    pair.upload_and_run(20_000, 5, Duration::from_secs(2));
    let after = current_ids(&mut pair);
    assert!(after[0] != before[0] && after[1] != before[1]);
    assert_eq!(pair.server.get().remote_address(), pair.client.address);
    assert_eq!(pair.client.get().stats().migrations, 1);
    assert_eq!(pair.server.get().stats().migrations, 1);
}

/// A client is followed even if it has nothing to send or probe, and also on its return.
#[test]
fn an_idle_client_is_followed() {
    let mut pair = Pair::at_rest(Setup::new(|setup| setup.client.max_mtu = Some(1200)));
    for address in ["10.1.0.1", "10.2.0.1", "10.1.0.1"] {
        pair.rebind(&format!("{address}:3000"));
        let local = address.parse().unwrap();
        assert!(pair.client.get().try_address(pair.now, Some(local)));
        pair.run(Duration::from_millis(500));
        let followed = pair.server.get().remote_address();
        assert_eq!(followed, (local, 3000).into());
    }
}

/// The system chooses the address to which the client moves. A late packet to the former address
/// doesn't reveal this choice, because the client would otherwise return there.
#[test]
fn a_late_packet_does_not_say_where_a_new_path_begins() {
    let mut pair = Pair::at_rest(Setup::default());
    let now = pair.now;
    let from_server = |pair: &mut Pair, local: &str| {
        let mut bytes = packet_from(pair, From::Server, SpaceId::Data, &[Frame::Ping]);
        let mut received = Received::plain(pair.server.address);
        received.local = Some(local.parse().unwrap());
        let client = pair.client.get();
        client.handle_datagram(now, received, &mut bytes);
        client.local_address()
    };
    assert!(pair.client.get().try_address(now, None));
    assert_eq!(from_server(&mut pair, "10.0.0.1"), None);
    pair.run(Duration::from_millis(500));
    let new = "10.1.0.1";
    assert_eq!(from_server(&mut pair, new), Some(new.parse().unwrap()));
}

/// The client tries another address.
fn try_another(pair: &mut Pair) -> Option<IpAddr> {
    let new = Some("10.1.0.1".parse().unwrap());
    assert!(pair.client.get().try_address(pair.now, new));
    new
}

/// If the client's new address doesn't get an answer, the client returns to the previous one, with
/// the controller that it had there. After an answer, it doesn't return.
#[test]
fn a_client_returns_from_an_address_that_does_not_work() {
    for works in [false, true] {
        let mut pair = Pair::at_rest(Setup::default());
        pair.upload(20_000, Duration::from_secs(5));
        let built = pair.client.log().built;
        let before = pair.client.get().local_address();
        let new = try_another(&mut pair);
        if !works {
            pair.up.faults.loss = 1_000_000;
        }
        pair.run(Duration::from_secs(2));
        assert_eq!(pair.client.get().local_address(), new);
        pair.run(Duration::from_millis(1500));
        pair.up.faults.loss = 0;
        pair.run(Duration::from_secs(5));
        let expected = if works { new } else { before };
        assert_eq!(pair.client.get().local_address(), expected);
        assert_eq!(pair.client.get().stats().migrations, 1);
        assert!(!pair.client.get().paths.has_fallback());
        assert_eq!(pair.client.log().built, built + 1);
        pair.upload(50_000, Duration::from_secs(30));
    }
}

/// A client is suspended for nine seconds, so that its last round trip took as long, and tries an
/// address that doesn't work. It returns before the server's idle timeout.
#[test]
fn a_client_that_stood_still_returns_within_the_idle_timeout() {
    let mut pair = Pair::at_rest(Setup::default());
    let before = pair.client.get().local_address();
    for _ in 0..5 {
        pair.client.get().ping();
        pair.flush();
        pair.down.latency = Duration::from_secs(9);
        pair.run(Duration::from_secs(10));
    }
    pair.down.latency = Duration::from_millis(10);
    pair.ping_and_run(Duration::from_millis(100));
    try_another(&mut pair);
    pair.up.faults.loss = 1_000_000;
    let back = pair.run_until(Duration::from_secs(12), |pair| {
        pair.client.get().local_address() == before
    });
    assert!(back);
    pair.up.faults.loss = 0;
    pair.upload(50_000, Duration::from_secs(30));
}

/// RFC 9000 §8.2.4: a path isn't given up before three times the probe timeout. A round trip takes
/// four seconds, which is more than three timeouts of an unknown path.
#[test]
fn a_slow_path_is_given_the_time_that_it_takes() {
    // [9000 9.4 challenge-timer]
    let mut pair = Pair::connected(Setup::new(|setup| setup.latency = Duration::from_secs(2)));
    pair.run(Duration::from_secs(20));
    let new = try_another(&mut pair);
    for _ in 0..9 {
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.client.get().local_address(), new);
    }
    assert_eq!(pair.client.get().stats().migrations, 1);
}

/// For a while, no address gets an answer. Then, only the one to which the client has moved does.
#[test]
fn a_client_tries_both_addresses_until_one_works() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.upload(20_000, Duration::from_secs(5));
    let new = try_another(&mut pair);
    pair.up.faults.loss = 1_000_000;
    // Each turn takes three probe timeouts of an unknown path, or of this one.
    let mut tried = Vec::new();
    for _ in 0..200 {
        pair.run(Duration::from_millis(100));
        let local = pair.client.get().local_address();
        if tried.last() != Some(&local) {
            tried.push(local);
        }
        let dark = tried.len() < 3 || local != new;
        pair.up.faults.loss = if dark { 1_000_000 } else { 0 };
    }
    assert_eq!(tried.len(), 3, "{tried:?}");
    assert_eq!(pair.client.get().local_address(), new);
    assert!(!pair.client.get().paths.has_fallback());
    pair.upload(50_000, Duration::from_secs(30));
}

#[test]
fn a_forged_address_gets_little_and_the_connection_comes_back() {
    // [9000 9.3.2 revert] [9000 8 amplification]
    let mut pair = Pair::at_rest(Setup::default());
    forge_next(&mut pair);
    pair.ping_and_run(Duration::from_secs(10));
    assert_eq!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    let to_forged = sent_to_forged(&pair);
    assert!(to_forged > 0 && to_forged <= 3 * 1200, "{to_forged}");
    pair.upload(20_000, Duration::from_secs(5));
}

/// Makes the client's next datagram arrive from an address without a host.
fn forge_next(pair: &mut Pair) {
    let mut forged = false;
    pair.tap = Some(Box::new(move |_, datagram| {
        if !forged && datagram.from.port() == 1000 {
            forged = true;
            datagram.from = "192.0.2.1:9".parse().unwrap();
        }
    }));
}

/// Returns the number of bytes sent there.
fn sent_to_forged(pair: &Pair) -> usize {
    let batches = pair.server.batches.iter();
    let there = batches.filter(|batch| batch.remote.port() == 9);
    there.map(|batch| batch.len).sum()
}

/// RFC 9000 §9.3.3: the server challenges the path that it left. The client's response makes it
/// return, to the same controller, in a round trip, before the client's probe timeout.
#[test]
fn the_old_path_is_challenged_and_the_return_is_warm() {
    // [9000 9.3.3 old-path]
    let mut pair = Pair::connected(Setup::with_latency(50));
    pair.upload_and_run(50_000, 5, Duration::from_secs(1));
    let built = pair.server.log().built;
    forge_next(&mut pair);
    pair.ping_and_run(Duration::from_millis(60));
    assert_ne!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    let timeouts = pair.client.get().stats().probe_timeouts;
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    assert_eq!(pair.client.get().stats().probe_timeouts, timeouts);
    // For the forged path alone.
    assert_eq!(pair.server.log().built, built + 1);
    let report = pair.server.get().path_report(pair.now);
    assert!(report.validated && pair.server.get().paths.validation().is_none());
    pair.upload(50_000, Duration::from_secs(5));
}

/// A forged packet of a few bytes leaves no room for a challenge, and the client's packets are
/// lost. Validation nevertheless ends.
#[test]
fn validation_ends_although_no_challenge_could_be_sent() {
    let mut pair = Pair::at_rest(Setup::default());
    forge_next(&mut pair);
    // An acknowledgement by itself has fewer than 48 bytes, and the client doesn't check whether it
    // arrived.
    pair.server.get().ping();
    pair.run(Duration::from_millis(40));
    assert_ne!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    assert!(pair.server.get().paths.limit().available() < 3 * 48);
    pair.up.faults.loss = 1_000_000;
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    assert!(pair.server.get().path_report(pair.now).validated);
    let to_forged = sent_to_forged(&pair);
    assert!(to_forged <= 3 * 48, "{to_forged}");
    // The limit of the forged address doesn't delay anything here.
    pair.up.faults.loss = 0;
    pair.upload(50_000, Duration::from_secs(20));
}

/// The amplification limit of a forged address stops the server's probe timeout. Back on the known
/// path, the server has nothing new to send and receives nothing, so only the probe timeout repeats
/// lost data.
#[test]
fn a_limit_of_a_forged_address_does_not_stop_the_probe_timeout_of_the_old_path() {
    let mut pair = Pair::at_rest(Setup::default());
    let data = pattern(2000, 1);
    pair.down.faults.loss = 1_000_000;
    let id = pair.server.write(&data);
    pair.server.get().streams().finish(id).unwrap();
    forge_next(&mut pair);
    pair.ping_and_run(Duration::from_millis(15));
    assert_ne!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
    assert!(pair.server.get().paths.limit().available() < 3 * 48);
    pair.up.faults.loss = 1_000_000;
    let back = pair.run_until(Duration::from_secs(4), |pair| {
        pair.server.get().remote_address() == CLIENT.parse().unwrap()
    });
    assert!(back && !pair.server.get().streams().wants_to_send());
    pair.down.faults.loss = 0;
    assert!(pair.read(true, id, Duration::from_secs(5)) == data);
}

#[test]
fn mtu_probes_keep_to_the_amplification_limit() {
    for validated in [true, false] {
        let mut pair = Pair::connected(Setup::default());
        let sent = pair.server.batches.len();
        let server = pair.server.get();
        assert_eq!(server.mtu(), 1200);
        // Without data to send, larger datagrams aren't probed.
        assert!(server.paths.path.route.carries_data(|| true));
        if !validated {
            *server.paths.limit() = crate::path::AmplificationLimit::new();
            server.paths.limit().on_received(400);
        }
        pair.flush();
        let out: usize = pair.server.batches[sent..].iter().map(|b| b.len).sum();
        assert_eq!(out <= 1200, !validated, "{out}");
    }
}

/// IDs that the peer retires aren't used on other paths, either (RFC 9000 §5.1.2).
#[test]
fn a_probed_path_gets_another_id_when_its_own_is_asked_back() {
    let mut pair = Pair::at_rest(Setup::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&seen);
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.to.port() == 77 {
            tapped.lock().unwrap().push(datagram.bytes[1..9].to_vec());
        }
    }));
    let probe = |pair: &mut Pair, data| {
        pair.rebind("10.0.0.1:77");
        send_frames(pair, From::Client, &[Frame::PathChallenge(data)]);
        pair.rebind("10.0.0.1:1000");
        pair.run(Duration::from_millis(100));
    };
    probe(&mut pair, [1; 8]);
    // The client retires all IDs that it issued, and issues others.
    inject::replace_ids(pair.client.get());
    pair.run(Duration::from_millis(100));
    probe(&mut pair, [2; 8]);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "{:?}", pair.server.error());
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn a_server_that_forbids_migration_is_obeyed() {
    // [9000 9 disabled]
    let mut pair = Pair::connected(Setup::new(|setup| setup.server.migration = false));
    assert!(!pair.client.get().migrate(pair.now, None));
}

/// An address at which the peer proved nothing for a minute is like any other.
#[test]
fn a_path_is_known_for_a_minute() {
    for (away, known) in [(1, true), (55, true), (65, false)] {
        let mut pair = Pair::connected(Setup::both(|config| config.max_idle_timeout = None));
        pair.upload_and_run(50_000, 5, Duration::from_secs(1));
        pair.rebind("10.0.0.9:2000");
        pair.ping_and_run(Duration::from_secs(away));
        let built = pair.server.log().built;
        pair.rebind("10.0.0.1:1000");
        pair.ping_and_run(Duration::from_millis(11));
        assert_eq!(pair.server.get().remote_address(), CLIENT.parse().unwrap());
        assert_eq!(pair.server.get().paths.limit().is_validated(), known);
        assert_eq!(pair.server.log().built, built + u32::from(!known));
    }
}
