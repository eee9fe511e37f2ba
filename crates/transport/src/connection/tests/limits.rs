//! Limits that a peer reaches, and deadlines that follow from its parameters.

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

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

/// The queue of a client that doesn't read events holds a bounded number of tokens.
#[test]
fn unread_tokens_are_bounded() {
    let mut pair = Pair::at_rest(Setup::default());
    let token = frames(&[Frame::NewToken(&[7; 32])]);
    let (now, remote) = (pair.now, pair.server.address);
    for _ in 0..1000 {
        let mut bytes = packet(pair.server.get(), now, SpaceId::Data, &token);
        let client = pair.client.get();
        client.handle_datagram(now, Received::plain(remote), &mut bytes);
    }
    let client = pair.client.get();
    assert!((60..70).contains(&client.outbox.waiting()[0]));
    assert_eq!(client.error(), None);
}

/// The delay follows the peer's parameter, and ACK_FREQUENCY as soon as the peer may have received
/// it.
#[test]
fn probes_wait_as_long_as_the_peer_may_delay_its_acknowledgements() {
    let delay = |pair: &mut Pair| {
        let recovery = &pair.client.get().spaces.recovery;
        recovery.pto() - recovery.rtt().pto_base()
    };
    // For a round trip of 1 s, the client requests 100 ms, its maximum. Until this is acknowledged,
    // the longer of the two applies.
    for (said, asked) in [(400, 400), (25, 100)].map(|(a, b)| (ms(a), ms(b))) {
        let mut setup = Setup::with_latency(500);
        setup.server.max_ack_delay = said;
        let mut pair = Pair::with(setup);
        let limit = Duration::from_secs(10);
        assert!(pair.run_until(limit, |pair| pair.client.get().is_established()));
        assert_eq!(delay(&mut pair), said);
        pair.flush();
        assert_eq!(delay(&mut pair), asked);
        pair.run(Duration::from_secs(5));
        assert_eq!(delay(&mut pair), ms(100));
    }
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
    pair.upload_and_run(500_000, 10, Duration::from_millis(500));
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

/// Even a window smaller than a datagram permits one in flight.
#[test]
fn a_window_of_less_than_a_datagram_lets_one_through_in_a_round_trip() {
    let setup = Setup::new(|setup| setup.client = TransportConfig::new(fixed_window(500).0));
    // 17 packets, each with a round trip of 20 ms and a delayed acknowledgement.
    Pair::at_rest(setup).upload(20_000, Duration::from_secs(2));
}

/// A controller is notified once that its flow was idle, but not while packets are in flight.
#[test]
fn a_flow_restarts_after_a_pause_alone() {
    let mut pair = Pair::at_rest(Setup::default());
    for _ in 0..3 {
        let before = pair.client.log().restarts;
        pair.upload(500_000, Duration::from_secs(10));
        assert_eq!(pair.client.log().restarts, before + 1);
        pair.run(Duration::from_secs(2));
    }
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
