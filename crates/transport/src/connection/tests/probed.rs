//! Paths that a peer probes, moves to, and leaves again (RFC 9000 §8.2, §9): the packets sent on
//! each, and their IDs.

use std::net::IpAddr;

use super::*;
use crate::connection::Transmit;

const HOME: &str = "10.0.0.1:1000";
const AWAY: &str = "10.0.0.1:77";
const ELSEWHERE: &str = "10.0.0.9:77";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Builds a packet of the client with these frames, padded to `size` bytes of payload.
fn packet(pair: &mut Pair, list: &[Frame<'_>], size: usize) -> Vec<u8> {
    let mut payload = frames(list);
    payload.resize(payload.len().max(size), 0);
    inject::packet(pair.client.get(), pair.now, SpaceId::Data, &payload)
}

/// Delivers it to the server, at its address `local` if that is known.
fn arrive(pair: &mut Pair, from: &str, local: Option<IpAddr>, mut bytes: Vec<u8>) {
    let mut received = Received::plain(address(from));
    received.local = local;
    let server = pair.server.get();
    server.handle_datagram(pair.now, received, &mut bytes);
    pair.flush();
}

/// Payload of a PATH_CHALLENGE in a datagram of full size.
const FULL: usize = 1180;

/// A PATH_CHALLENGE of the client arrives at the server in a datagram of full size.
fn challenge(pair: &mut Pair, from: &str, local: Option<IpAddr>) {
    let challenge = packet(pair, &[Frame::PathChallenge([1; 8])], FULL);
    arrive(pair, from, local, challenge);
}

/// Destinations of datagrams, with the IDs in them.
type Seen = Arc<Mutex<Vec<(SocketAddr, Vec<u8>)>>>;

/// Records the destinations of the server's datagrams from now on.
fn watch(pair: &mut Pair) -> Seen {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&seen);
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.from.port() == 443 {
            let id = datagram.bytes[1..9].to_vec();
            tapped.lock().unwrap().push((datagram.to, id));
        }
    }));
    seen
}

/// Returns the server's batches to this address, from that number on.
fn sent_to(pair: &Pair, from: usize, to: &str) -> Vec<Transmit> {
    let batches = pair.server.batches[from..].iter().copied();
    let there = batches.filter(|batch| batch.remote == address(to));
    there.collect()
}

/// Moves the client on purpose, with another ID.
fn migrate(pair: &mut Pair, to: &str) {
    pair.migrate(to);
    pair.run(Duration::from_millis(200));
    assert_eq!(pair.server.get().remote_address(), address(to));
}

/// Bytes from one address don't permit sending to another one.
#[test]
fn a_probe_feeds_the_amplification_limit_of_its_own_address_only() {
    // [9000 8 amplification]
    let mut pair = Pair::at_rest(Setup::default());
    challenge(&mut pair, AWAY, None);
    let ping = packet(&mut pair, &[Frame::Ping], 60);
    let may = 3 * ping.len();
    let stranger = "192.0.2.1:9";
    pair.up.faults.loss = 1_000_000;
    arrive(&mut pair, stranger, None, ping);
    assert_eq!(pair.server.get().remote_address(), address(stranger));
    pair.run(Duration::from_millis(500));
    let sent: usize = sent_to(&pair, 0, stranger).iter().map(|b| b.len).sum();
    assert!(sent > 0 && sent <= may, "{sent} of {may}");
}

/// RFC 9000 §9.3: the address follows the packet with the highest number. A packet that arrives
/// late from the previous address doesn't change anything.
#[test]
fn a_late_packet_does_not_move_the_connection_back() {
    let mut pair = Pair::at_rest(Setup::default());
    let late = packet(&mut pair, &[Frame::Ping], 0);
    let newest = packet(&mut pair, &[Frame::Ping], 0);
    pair.client.address = address("10.0.0.9:2000");
    for (from, packet) in [("10.0.0.9:2000", newest), (HOME, late)] {
        arrive(&mut pair, from, None, packet);
        let server = pair.server.get();
        assert_eq!(server.remote_address(), address("10.0.0.9:2000"));
        let changes = pair.server.events.iter();
        let changes = changes.filter(|event| **event == Event::PathChanged);
        assert_eq!(changes.count(), 1);
    }
}

/// RFC 9000 §8.2.2: a response has 1200 bytes if its challenge did, on the current path and on
/// others. It is small otherwise, so that a small datagram can't cause a large one.
#[test]
fn responses_are_as_large_as_their_challenges() {
    // [9000 8.2.1 small-challenge-read] [9000 8.2.2 echo] [9000 8.2.2 full-response]
    for from in [HOME, AWAY] {
        for full in [true, false] {
            let mut pair = Pair::at_rest(Setup::default());
            let sent = pair.server.batches.len();
            let size = if full { FULL } else { 0 };
            let challenge = packet(&mut pair, &[Frame::PathChallenge([1; 8])], size);
            arrive(&mut pair, from, None, challenge);
            pair.run(Duration::from_millis(100));
            let sizes = pair.server.batches[sent..].iter();
            let largest = sizes.map(|batch| batch.len).max().unwrap();
            assert_eq!(largest >= 1200, full, "{largest} to {from}");
            assert!(full || largest <= 100, "{largest} to {from}");
        }
    }
}

/// RFC 9000 §8.2.1: a small challenge proves an address, and a large one that datagrams of 1200
/// bytes arrive there.
#[test]
fn after_a_small_challenge_comes_a_large_one() {
    // [9000 8.2.1 full-challenge] [9000 8.2.1 second-challenge] [9000 14 narrow-path]
    for (narrow, padding) in [(false, 60), (true, 60), (false, 300), (true, 300)] {
        let mut pair = Pair::at_rest(Setup::default());
        let sent = pair.server.batches.len();
        pair.client.address = address(ELSEWHERE);
        if narrow {
            pair.down.faults.mtu = Some(1199);
        }
        let list = [Frame::Ping, Frame::Padding(padding)];
        send_frames(&mut pair, From::Client, &list);
        pair.run(Duration::from_millis(15));
        let to_away = |pair: &Pair| {
            let there = sent_to(pair, sent, ELSEWHERE).into_iter();
            there.map(|batch| batch.len).collect::<Vec<_>>()
        };
        let sizes = to_away(&pair);
        assert!(!sizes.is_empty() && sizes.iter().sum::<usize>() <= 3 * (padding + 30));
        pair.run(Duration::from_millis(500));
        let server = pair.server.get();
        assert!(server.paths.limit().is_validated());
        assert!(to_away(&pair).into_iter().max() >= Some(1200));
        let validated = pair.server.get().stats().migrations;
        assert_eq!(validated, u64::from(!narrow));
    }
}

/// The first challenge on the path that was left is lost. The next one is sent a period later and
/// not together with other packets, because nothing more can be sent to the forged address.
#[test]
fn a_challenge_of_the_old_path_is_repeated() {
    let mut pair = Pair::at_rest(Setup::default());
    let (mut forged, mut dropped) = (false, false);
    pair.tap = Some(Box::new(move |_, datagram| {
        if !forged && datagram.from.port() == 1000 {
            forged = true;
            datagram.from = address("192.0.2.1:9");
        } else if forged && !dropped && datagram.to == address(HOME) {
            dropped = true;
            datagram.bytes.clear();
        }
    }));
    // An acknowledgement by itself is too small for a challenge of the forged address.
    pair.server.get().ping();
    pair.run(Duration::from_millis(50));
    assert_ne!(pair.server.get().remote_address(), address(HOME));
    let moved = pair.now;
    let back = |pair: &mut Pair| pair.server.get().remote_address() == address(HOME);
    assert!(pair.run_until(Duration::from_secs(5), back));
    // The period is that of an unknown path, 999 ms. After three periods, validation fails.
    let after = pair.now - moved;
    assert!(after < Duration::from_millis(1100), "{after:?}");
}

/// Three challenges, a period apart, even if the new path has long been known to work and nothing
/// else happens.
#[test]
fn the_old_path_of_a_silent_client_is_challenged_three_times() {
    let mut pair = Pair::at_rest(Setup::default());
    let times = Arc::new(Mutex::new(Vec::new()));
    let tapped = Arc::clone(&times);
    pair.tap = Some(Box::new(move |now, datagram| {
        if datagram.to == address(HOME) {
            tapped.lock().unwrap().push(now);
        }
    }));
    pair.client.address = address(AWAY);
    pair.ping_and_run(Duration::from_secs(8));
    let times = times.lock().unwrap();
    let waits: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
    // The period of an unknown path, plus the client's delay of an acknowledgement.
    let period = Duration::from_millis(999)..=Duration::from_millis(1024);
    assert_eq!(waits.len(), 2);
    assert!(waits.iter().all(|wait| period.contains(wait)), "{waits:?}");
}

/// RFC 9000 §9.5: no ID is used for two addresses, as long as the client moves on purpose. The IDs
/// aren't used up: after more moves than there are IDs, each path that was left is still challenged
/// with a separate one.
#[test]
fn moves_to_and_fro_never_show_one_id_to_two_addresses() {
    // [9000 9.5 id-per-destination]
    let mut pair = Pair::at_rest(Setup::default());
    let seen = watch(&mut pair);
    for _ in 0..12 {
        for (from, to) in [(HOME, AWAY), (AWAY, HOME)] {
            let before = seen.lock().unwrap().len();
            migrate(&mut pair, to);
            let challenged = |(to, _): &(SocketAddr, _)| *to == address(from);
            assert!(seen.lock().unwrap()[before..].iter().any(challenged));
            pair.upload(3000, Duration::from_secs(5));
            // An address is challenged again after a second.
            pair.run(Duration::from_secs(1));
        }
    }
    let mut ids: Vec<(Vec<u8>, SocketAddr)> = Vec::new();
    for (to, id) in seen.lock().unwrap().iter() {
        match ids.iter().find(|(known, _)| known == id) {
            Some((_, where_to)) => assert_eq!(where_to, to),
            None => ids.push((id.clone(), *to)),
        }
    }
    assert!(ids.len() >= 13, "{}", ids.len());
    assert_eq!(pair.server.error(), None);
}

/// RFC 9000 §8.2.2: a response is sent from the address at which its challenge arrived, even if
/// only the address of this side differs. So is a challenge of the path that was left.
#[test]
fn probes_leave_from_the_address_that_they_belong_to() {
    // [9000 8.2.2 same-path]
    let [first, second] = ["10.0.0.2", "10.0.0.3"].map(|ip| Some(ip.parse().unwrap()));
    let sent_to = |pair: &Pair, from: usize, remote: &str| {
        let there = sent_to(pair, from, remote).into_iter();
        there.map(|batch| batch.local).collect::<Vec<_>>()
    };
    let mut pair = Pair::at_rest(Setup::default());
    let ping = packet(&mut pair, &[Frame::Ping], 0);
    arrive(&mut pair, HOME, first, ping);
    assert_eq!(pair.server.get().local_address(), first);
    pair.run(Duration::from_millis(100));
    for (from, local) in [(HOME, first), (HOME, second), (AWAY, second)] {
        let sent = pair.server.batches.len();
        challenge(&mut pair, from, local);
        assert_eq!(sent_to(&pair, sent, from), [local], "{from}");
        assert_eq!(pair.server.get().local_address(), first);
        let probed = pair.server.get().paths.off_path_id();
        assert_eq!(probed.is_some(), local != first);
    }
    // Without a local address, a packet counts as one on the current path.
    let sent = pair.server.batches.len();
    challenge(&mut pair, HOME, None);
    assert_eq!(sent_to(&pair, sent, HOME), [first]);
    // The client moves on purpose, and the path that it left is challenged from the same local
    // address.
    let sent = pair.server.batches.len();
    assert!(pair.client.get().sources.control.remote_ids.switch());
    let ping = packet(&mut pair, &[Frame::Ping], FULL);
    arrive(&mut pair, "10.0.0.9:9", second, ping);
    assert_eq!(sent_to(&pair, sent, "10.0.0.9:9"), [second]);
    assert_eq!(sent_to(&pair, sent, HOME), [first]);
}

/// RFC 9002: packets sent on another path show nothing about this one.
#[test]
fn a_probe_of_another_path_counts_neither_as_in_flight_nor_as_a_round_trip() {
    let mut pair = Pair::at_rest(Setup::default());
    let before = pair.server.get().stats();
    challenge(&mut pair, AWAY, None);
    assert_eq!(pair.server.get().path_report(pair.now).in_flight, 0);
    let stats = pair.server.get().stats();
    assert_eq!(stats.datagrams_sent, before.datagrams_sent + 1);
    assert_eq!(stats.bytes_sent, before.bytes_sent + 1200);
}
