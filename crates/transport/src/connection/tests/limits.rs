//! Limits that a peer reaches, and deadlines that follow from its parameters.

use super::*;

/// RFC 9000 §8.2.1: a probe from an address that isn't validated requests four responses of full
/// size, but gets only three times its own size.
#[test]
fn answers_to_a_probe_keep_to_the_amplification_limit() {
    // [9000 8.2.2 at-once] [9000 8.2.2 response-limited] [9000 8.2.2 same-path]
    let mut pair = Pair::at_rest(Setup::default());
    let challenges = [1, 2, 3, 4].map(|n| Frame::PathChallenge([n; 8]));
    let mut payload = frames(&challenges);
    payload.resize(1225, 0);
    let mut probe = packet(pair.client.get(), pair.now, SpaceId::Data, &payload);
    let may = 3 * probe.len();
    assert!((3 * 1200 + 64..4 * 1200).contains(&may), "{may}");
    let stranger = "192.0.2.1:9".parse().unwrap();
    let server = pair.server.get();
    server.handle_datagram(pair.now, Received::plain(stranger), &mut probe);
    pair.flush();
    let answers = pair.server.batches.iter();
    let answers = answers.filter(|batch| batch.remote == stranger);
    let sent: Vec<_> = answers.map(|batch| batch.len).collect();
    assert_eq!(sent, [1200, 1200, 1200, may - 3600]);
}

/// Probe timeouts back off to a quarter of the shorter idle timeout of both sides.
#[test]
fn probes_are_as_close_as_the_peers_idle_timeout_needs() {
    let mut setup = Setup::default();
    setup.client.max_idle_timeout = Some(Duration::from_secs(60));
    setup.server.max_idle_timeout = Some(Duration::from_secs(8));
    let mut pair = Pair::at_rest(setup);
    for host in [&mut pair.client, &mut pair.server] {
        let longest = host.get().spaces.recovery.longest_pto();
        assert_eq!(longest, Duration::from_secs(2));
    }
}

/// RFC 9000 §21.4: numbers are skipped, so a peer that acknowledges all numbers can't have received
/// them.
#[test]
fn who_acknowledges_what_was_never_sent_is_caught() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.upload(500_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(500));
    let detector = pair.client.get().spaces.recovery.space(SpaceId::Data);
    let largest = detector.sent().next_number() - 1;
    let mut room = [0; 40];
    let mut w = Writer::new(&mut room);
    // ACK of all numbers up to the largest, without delay and further ranges.
    for field in [0x02, largest, 0, 0, largest] {
        w.put_varint(field).unwrap();
    }
    send(&mut pair, From::Server, SpaceId::Data, w.written());
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.client.closed_with(), Code::PROTOCOL_VIOLATION);
}

/// Connection IDs that a peer may issue take memory.
#[test]
fn a_peer_is_asked_for_no_more_than_64_ids() {
    let mut setup = Setup::default();
    setup.client.active_connection_id_limit = u64::MAX;
    let mut pair = Pair::at_rest(setup);
    let parameters = pair.server.get().sources.handshake.parameters_mut();
    let peer = parameters.peer.as_ref().unwrap();
    assert_eq!(peer.active_connection_id_limit, 64);
}
