use super::*;

/// The first flight of a client that sends `length` bytes early.
fn first_flight(known: &Acquainted, length: usize) -> Vec<Vec<u8>> {
    let mut pair = Pair::with(known.setup());
    pair.record = true;
    upload(&mut pair, Dir::Uni, &[length]);
    pair.flush();
    pair.client.sent
}

/// A server for the client whose first packet this is.
fn server_for(known: &Acquainted, first: &[u8]) -> Box<Connection> {
    let found = first_packet(first);
    let start = ServerStart {
        config: Arc::new(Setup::default().server),
        crypto: Arc::clone(&known.server) as _,
        remote: CLIENT.parse().unwrap(),
        local: None,
        destination: found.dcid,
        source: found.scid,
        original_destination: found.dcid,
        retry_source: None,
        validated: false,
        endpoint_key: Arc::new(NullEndpointKey::new(8)),
        random: Random::from_u64(9),
    };
    Connection::server(START, start).unwrap()
}

fn hand<'a>(server: &mut Connection, datagrams: impl IntoIterator<Item = &'a Vec<u8>>) {
    let received = Received::plain(CLIENT.parse().unwrap());
    for datagram in datagrams {
        server.handle_datagram(START, received, &mut datagram.clone());
    }
}

/// The first flight of a client that sends 5000 bytes early, and a server for it.
fn begun() -> (Vec<Vec<u8>>, Box<Connection>) {
    let known = Acquainted::new();
    let flight = first_flight(&known, 5000);
    let server = server_for(&known, &flight[0]);
    (flight, server)
}

/// Returns a damaged copy of a 0-RTT packet of the flight that has a separate datagram.
fn forged(flight: &[Vec<u8>]) -> Vec<u8> {
    let alone = flight.iter().find(|d| types(d) == [PacketType::ZeroRtt]);
    let mut forged = alone.unwrap().clone();
    *forged.last_mut().unwrap() ^= 1;
    forged
}

#[test]
fn a_replayed_first_flight_is_taken_once() {
    // [9001 9.2 replay]
    let known = Acquainted::new();
    let flight = first_flight(&known, 5000);
    let mut servers: Vec<_> = (0..3).map(|_| server_for(&known, &flight[0])).collect();
    for server in &mut servers {
        hand(server, &flight);
        assert_eq!(server.error(), None);
    }
    let taken = servers.iter().map(|server| server.handshake().early_data());
    let [accepted, none] = [EarlyData::Accepted, EarlyData::None];
    assert_eq!(taken.collect::<Vec<_>>(), [accepted, none, none]);
    let accepted = |server: &mut Connection| server.streams().accept(Dir::Uni).is_some();
    assert!(accepted(&mut servers[0]));
    for replayed in &mut servers[1..] {
        assert!(!accepted(replayed));
        let stats = replayed.stats();
        assert_eq!(stats.early_packets_received, 0);
        assert_eq!(stats.early_packets_dropped, flight.len() as u64);
    }
}

/// Tickets are sent in the clear. An observer can therefore offer one, but can't prove to have its
/// secret, nor change anything else that its owner sends.
#[test]
fn a_ticket_that_a_stranger_offers_serves_its_owner_all_the_same() {
    let known = Acquainted::new();
    let parameters = generous_parameters();
    let start = || known.server.start(parameters.clone(), 0).unwrap();
    let client = known.client.start("server.test", Vec::new(), 0);
    let mut client = client.unwrap();
    let mut hello = Vec::new();
    client.write_handshake(&mut hello);
    for _ in 0..3 {
        let mut stranger = hello.clone();
        // The binder is the last part of a ClientHello.
        *stranger.last_mut().unwrap() ^= 1;
        let error = start().read_handshake(&stranger).unwrap_err();
        // decrypt_error
        assert_eq!(error.code(), 0x100 + 51, "{error}");
    }
    // First the owner's, then a copy.
    for resumed in [true, false] {
        let mut server = start();
        server.read_handshake(&hello).unwrap();
        assert_eq!(server.handshake_data().resumed, resumed);
        assert_eq!(server.zero_rtt_keys().is_some(), resumed);
    }
}

#[test]
fn a_repeated_datagram_is_read_once() {
    // [9000 12.3 duplicates]
    let (flight, mut server) = begun();
    hand(&mut server, flight.iter().chain(&flight));
    let early = flight.len() as u64;
    assert_eq!(server.stats().early_packets_received, early);
    assert_eq!(server.stats().packets_duplicate, early + 1);
}

#[test]
fn what_comes_before_the_first_packet_is_kept_within_bounds() {
    let (flight, mut server) = begun();
    hand(&mut server, &flight[1..]);
    assert_eq!(server.stats().early_packets_received, 0);
    hand(&mut server, &flight[..1]);
    assert_eq!(server.stats().early_packets_received, flight.len() as u64);
    assert_eq!(server.stats().packets_dropped, 0);

    let (flight, mut server) = begun();
    let forged = forged(&flight);
    hand(&mut server, std::iter::repeat_n(&forged, 1000));
    let most = 1000 - server.stats().early_packets_dropped;
    assert!((1..=10).contains(&most) && most as usize * forged.len() <= 15_000);
    // An honest client continues.
    hand(&mut server, &flight);
    assert_eq!(server.stats().early_packets_received, flight.len() as u64);
    assert_eq!(server.stats().early_packets_dropped, 1000);
    assert_eq!(server.error(), None);
}

#[test]
fn packets_of_other_keys_are_counted_and_do_no_harm() {
    let (flight, mut server) = begun();
    hand(&mut server, &flight[..1]);
    let forged = forged(&flight);
    hand(&mut server, std::iter::repeat_n(&forged, 1000));
    assert_eq!(server.stats().early_packets_dropped, 1000);
    hand(&mut server, &flight);
    assert_eq!(server.stats().early_packets_received, flight.len() as u64);
    assert_eq!(server.error(), None);
}

#[test]
fn an_answer_to_an_unproved_address_is_no_more_than_three_times_the_question() {
    let mut pair = Pair::with(Acquainted::new().setup());
    pair.record = true;
    let id = write(&mut pair, Dir::Bi, b"everything, please");
    pair.read(false, id, Duration::from_secs(1));
    let data = pattern(100_000, 3);
    assert_eq!(pair.server.get().streams().write(id, &data), Ok(100_000));
    pair.server.get().streams().finish(id).unwrap();
    pair.flush();
    let bytes = |sent: &[Vec<u8>]| sent.iter().map(Vec::len).sum::<usize>();
    let (asked, answered) = (bytes(&pair.client.sent), bytes(&pair.server.sent));
    let proportion = asked + 1..=3 * asked;
    assert!(proportion.contains(&answered), "{answered} {asked}");
    assert!(pair.read(true, id, Duration::from_secs(5)) == data);
}

#[test]
fn frames_that_early_data_must_not_have_end_the_connection() {
    // [9001 8.3 early-crypto]
    let frequency = AckFrequency {
        sequence: 0,
        ack_eliciting_threshold: 1,
        max_ack_delay: Duration::from_millis(25),
        reordering_threshold: 1,
    };
    let (offset, data) = (0, b"hello");
    // RFC 9000 §12.5, and all extension frames permitted by a parameter that isn't remembered.
    let forbidden = [
        vec![0x02, 0, 0, 0, 0],
        frames(&[Frame::Crypto(Crypto { offset, data })]),
        frames(&[Frame::NewToken(b"token")]),
        frames(&[Frame::RetireConnectionId(0)]),
        frames(&[Frame::PathResponse([1; 8])]),
        frames(&[Frame::HandshakeDone]),
        frames(&[Frame::AckFrequency(frequency)]),
        frames(&[Frame::ImmediateAck]),
    ];
    for payload in forbidden {
        let mut pair = Pair::with(Acquainted::new().setup());
        pair.flush();
        let padded = [&payload[..], &[0; 8]].concat();
        send(&mut pair, From::Client, SpaceId::Data, &padded);
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.server.closed_with(), Code::PROTOCOL_VIOLATION);
    }
}

#[test]
fn a_challenge_in_early_data_causes_no_migration() {
    let mut pair = Pair::with(Acquainted::new().setup());
    pair.flush();
    let list = [Frame::PathChallenge([5; 8]), Frame::Padding(20)];
    let packet = packet_from(&mut pair, From::Client, SpaceId::Data, &list);
    pair.run(Duration::from_millis(10));
    let received = Received::plain("10.9.9.9:9".parse().unwrap());
    let server = pair.server.get();
    server.handle_datagram(pair.now, received, &mut packet.clone());
    assert_eq!(server.stats().early_packets_received, 1);
    assert!(server.paths.off_path_id().is_none() && !server.paths.has_fallback());
    assert_eq!(server.remote_address(), CLIENT.parse().unwrap());
    pair.connect();
    assert_eq!(pair.server.get().stats().path_challenges, 0);
    pair.upload(10_000, Duration::from_secs(5));
}

/// Both ends have the same keys for early data, but only the client sends with them. It doesn't
/// read its own early data if this is sent back to it (RFC 9001 §5.6).
#[test]
fn a_client_reads_no_early_data() {
    // [9001 5.6 client-opens-none]
    let mut pair = Pair::with(Acquainted::new().setup());
    pair.record = true;
    write(&mut pair, Dir::Uni, &[7; 1500]);
    pair.flush();
    let early = pair.client.sent[1].clone();
    assert_eq!(types(&early), [PacketType::ZeroRtt]);
    let before = pair.client.get().stats();
    pair.send_to_client(early);
    let after = pair.client.get().stats();
    assert_eq!(after.packets_received, before.packets_received);
    assert_eq!(after.packets_dropped, before.packets_dropped + 1);
    pair.connect();
}
