use super::super::handshake::sealed_retry;
use super::*;

#[test]
fn a_question_leaves_with_the_first_packet_and_is_answered_after_one_round_trip() {
    // [9001 4.6.1 ticket-size] [9001 4.9 newest-keys] [9001 4.9.3 early-keys]
    // [9001 5.6 server-seals-none] [9000 13.2.6 early-data-acked] [9001 5.6 no-more-early-packets]
    let mut pair = Pair::with(Acquainted::new().setup());
    pair.record = true;
    assert_eq!(early_data(&mut pair)[0], EarlyData::Offered);
    let id = write(&mut pair, Dir::Bi, b"a question");
    assert_eq!(pair.read(false, id, Duration::from_secs(1)), b"a question");
    assert_eq!(pair.now - START, Duration::from_millis(10));
    let server = pair.server.get();
    assert!(!server.is_established());
    assert_eq!(server.handshake().early_data(), EarlyData::Accepted);
    assert_eq!(server.streams().write(id, b"an answer"), Ok(9));
    server.streams().finish(id).unwrap();
    assert_eq!(pair.read(true, id, Duration::from_secs(1)), b"an answer");
    assert_eq!(pair.now - START, Duration::from_millis(20));
    assert_eq!(early_data(&mut pair)[0], EarlyData::Accepted);
    let first = &pair.client.sent[0];
    assert_eq!(types(first), [PacketType::Initial, PacketType::ZeroRtt]);
    assert_eq!(first.len(), 1200);
    pair.connect();
    pair.upload_and_run(100_000, 5, Duration::from_secs(1));
    let (client, server) = (pair.client.get().stats(), pair.server.get().stats());
    assert_eq!(client.early_packets_sent, 1);
    assert_eq!(server.early_packets_received, 1);
    assert_eq!(server.early_packets_dropped + server.packets_dropped, 0);
    assert_eq!(client.packets_lost + server.packets_lost, 0);
    assert!(pair.client.get().handshake().data().resumed);
    // By now, its keys are discarded on both sides.
    assert!(!pair.client.get().spaces.keys.has_early());
    assert!(!pair.server.get().spaces.keys.has_early());
}

#[test]
fn nothing_differs_where_one_side_does_not_want_it() {
    // [9001 5.6 early-data-on-request]
    let known = Acquainted::new();
    let plain = Setup::default();
    let mut pair = Pair::with(Setup {
        client_crypto: Arc::new(testing::client(testing::trust_ca(), &[b"test"])),
        server_crypto: Arc::clone(&known.server) as _,
        ..plain
    });
    assert!(pair.client.get().streams().open(Dir::Bi).is_err());
    pair.connect();
    assert_eq!(early_data(&mut pair), [EarlyData::None; 2]);

    // A server that issues tickets but doesn't accept early data.
    let plain = known.at(testing::server("server", &[b"test"]));
    for _ in 0..2 {
        Pair::at_rest(plain.setup());
    }
    let mut pair = Pair::with(plain.setup());
    assert_eq!(early_data(&mut pair)[0], EarlyData::None);
    assert!(pair.client.get().streams().open(Dir::Bi).is_err());
    pair.connect();
    assert!(pair.client.get().handshake().data().resumed);
}

#[test]
fn as_much_leaves_early_as_the_window_and_the_remembered_limits_allow() {
    // [9000 7.4.1 remembered-only]
    let limited = || {
        let mut setup = Setup::default();
        setup.server.streams.max_uni_streams = 3;
        setup.server.streams.initial_connection_window = 5000;
        setup.server.streams.initial_stream_window = 2000;
        setup
    };
    let known = Acquainted::by(limited());
    let mut pair = Pair::with(known.setup_from(limited()));
    let written = upload(&mut pair, Dir::Uni, &[3000, 3000, 3000]);
    assert!(pair.client.get().streams().open(Dir::Uni).is_err());
    pair.flush();
    let stats = pair.client.get().stats();
    assert!(stats.bytes_sent > 5000 && stats.bytes_sent < 7000);
    assert!(stats.early_packets_sent >= 5);
    read_all(&mut pair, &written, Duration::from_secs(5));
    assert_eq!(early_data(&mut pair)[0], EarlyData::Accepted);
    pair.run(Duration::from_secs(1));
    pair.upload(100_000, Duration::from_secs(5));
}

#[test]
fn early_datagrams_arrive_where_the_server_took_some_before() {
    let known = Acquainted::by(datagrams_accepted());
    let mut pair = Pair::with(known.setup_from(datagrams_accepted()));
    pair.record = true;
    // The longest datagram doesn't fit after the ClientHello, whose datagram must nevertheless be
    // full.
    let longest = pair.client.get().datagrams().max_size().unwrap();
    let data = pattern(longest, 1);
    let send = |pair: &mut Pair| pair.client.get().datagrams().send(data.clone().into());
    send(&mut pair).unwrap();
    pair.flush();
    let sizes: Vec<_> = pair.client.sent.iter().map(Vec::len).collect();
    assert!(sizes[0] == 1200 && sizes[1] > 1190 && sizes.len() == 2);
    pair.run(Duration::from_millis(11));
    assert!(!pair.server.get().is_established());
    assert_eq!(pair.server.get().datagrams().read().unwrap(), data);

    // Another server doesn't accept any, so waiting datagrams are dropped, and none are sent to it.
    let other = known.at(testing::server("server", &[b"test"]));
    let mut setup = other.setup();
    setup.server.datagrams.receive_bytes = 0;
    let mut pair = Pair::with(setup);
    for _ in 0..2000 {
        send(&mut pair).unwrap();
    }
    pair.connect();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.client.error(), None);
    assert_eq!(pair.client.get().datagrams().max_size(), None);
    assert!(pair.client.get().stats().datagram_frames_unsent > 0);
}

#[test]
fn explicit_feedback_is_never_remembered() {
    let known = Acquainted::by(Setup::with_shims());
    let mut pair = Pair::with(known.setup_from(Setup::with_shims()));
    pair.record = true;
    let written = upload(&mut pair, Dir::Uni, &[5000]);
    assert_eq!(pair.client.get().path_report(pair.now).signal, None);
    read_all(&mut pair, &written, Duration::from_millis(10));
    let server = pair.server.get();
    let id = server.streams().open(Dir::Uni).unwrap();
    server.streams().write(id, &[1; 5000]).unwrap();
    pair.flush();
    for host in [&pair.client, &pair.server] {
        assert!(host.sent.len() > 4);
        assert!(host.sent.iter().all(|datagram| datagram[0] & 0x40 != 0));
    }
    assert_eq!(pair.server.get().stats().shims_received, 0);
    pair.connect();
    pair.upload_and_run(100_000, 5, Duration::from_secs(1));
    // It is used from the first 1-RTT packet on, and the counts are equal.
    let sent = pair.client.get().stats().shims_sent;
    assert!(sent > 50);
    assert_eq!(pair.server.get().stats().shims_received, sent);
    assert_eq!(pair.client.get().stats().feedback_bad, 0);

    // A server that no longer supports it.
    let mut plain = known.setup_from(Setup::with_shims());
    plain.server.signals.clear();
    let mut pair = Pair::with(plain);
    let written = upload(&mut pair, Dir::Uni, &[5000]);
    read_all(&mut pair, &written, Duration::from_millis(10));
    pair.connect_and_upload(100_000, 5);
    assert_eq!(pair.client.get().stats().shims_sent, 0);
}

#[test]
fn what_a_lost_first_packet_leaves_behind_is_sent_again() {
    for lost in [0..1, 0..2, 1..3, 0..6] {
        let mut pair = Pair::with(Acquainted::new().setup());
        let mut count = 0;
        pair.tap = Some(Box::new(move |_, datagram| {
            if datagram.from.port() != 443 {
                if lost.contains(&count) {
                    datagram.bytes.clear();
                }
                count += 1;
            }
        }));
        let written = upload(&mut pair, Dir::Uni, &[2000, 1, 2000]);
        read_all(&mut pair, &written, Duration::from_secs(5));
        pair.connect();
        assert_eq!(early_data(&mut pair)[0], EarlyData::Accepted);
    }
}

#[test]
fn a_retry_sends_early_data_once_more_under_new_numbers() {
    // [9000 17.2.5.3 numbers-go-on]
    let known = Acquainted::new();
    let mut pair = Pair::with(known.setup());
    pair.record = true;
    let written = upload(&mut pair, Dir::Uni, &[3000]);
    pair.flush();
    pair.up.cut();
    let first = first_packet(&pair.client.sent[0]);
    let before = pair.client.get().stats().early_packets_sent;
    let retry_id = ConnectionId::new(b"retried!").unwrap();
    let crypto = &*known.client;
    let answer = sealed_retry(crypto, &first.scid, &retry_id, &first.dcid, b"a token");
    pair.client.sent.clear();
    pair.send_to_client(answer);
    pair.flush();
    for datagram in &pair.client.sent {
        assert_eq!(first_packet(datagram).dcid, retry_id);
    }
    let first_types = types(&pair.client.sent[0]);
    assert_eq!(first_types, [PacketType::Initial, PacketType::ZeroRtt]);
    pair.retried = Some((first.dcid, retry_id));
    read_all(&mut pair, &written, Duration::from_millis(10));
    let stats = pair.client.get().stats();
    assert_eq!(stats.early_packets_sent, 2 * before);
    pair.connect();
    let next = |pair: &mut Pair| {
        let client = pair.client.get();
        let data = client.spaces.recovery.space(SpaceId::Data);
        data.sent().next_number()
    };
    assert!(next(&mut pair) > 2 * before);
    assert_eq!(early_data(&mut pair)[0], EarlyData::Accepted);
}

#[test]
fn transfers_that_begin_early_get_through_a_bad_path() {
    let (mut accepted, mut early) = (0, 0);
    for seed in 0..24 {
        let mut setup = Acquainted::new().setup();
        setup.seed = seed;
        let mut pair = Pair::with(setup);
        pair.set_faults(Faults::bad());
        pair.upload(100_000, Duration::from_secs(120));
        pair.connect();
        accepted += u32::from(early_data(&mut pair)[0] == EarlyData::Accepted);
        early += pair.server.get().stats().early_packets_received;
    }
    // Early data is only refused if the only first packet that arrives is a copy without it.
    assert!(accepted == 24 && early > 24, "{accepted} {early}");
}

/// RFC 9002 §6.2.4: early data that was lost with the first flight is sent again with the first
/// probe, without waiting for the handshake.
#[test]
fn early_data_is_repeated_with_the_first_probe() {
    let mut pair = Pair::with(Acquainted::new().setup());
    let data = pattern(1500, 1);
    let id = write(&mut pair, Dir::Uni, &data);
    pair.flush();
    assert_eq!(pair.client.get().stats().early_packets_sent, 2);
    pair.up.cut();
    read_all(&mut pair, &[(id, data)], Duration::from_secs(5));
    // 999 ms, plus the latency.
    assert_eq!(pair.now - START, Duration::from_millis(1009));
}

/// Packets of early data that arrive after the end of the handshake are still read (RFC 9001
/// §4.9.3), for as long as they may take.
#[test]
fn early_data_that_comes_behind_the_handshake_is_read() {
    let mut pair = Pair::with(Acquainted::new().setup());
    let data = pattern(1500, 1);
    let id = write(&mut pair, Dir::Uni, &data);
    pair.record = true;
    pair.flush();
    let late = pair.client.sent[1].clone();
    assert_eq!(types(&late), [PacketType::ZeroRtt]);
    pair.up.cut();
    // The first datagram arrives, and the second much later.
    let first = pair.client.sent[0].clone();
    pair.send_to_server(first);
    let exists = |pair: &mut Pair| {
        let server = pair.server.connection.as_ref();
        server.is_some_and(|server| server.is_established())
    };
    assert!(pair.run_until(Duration::from_secs(1), exists));
    let before = pair.server.get().stats().early_packets_received;
    pair.up.latency = Duration::ZERO;
    pair.send_to_server(late);
    pair.run(Duration::from_micros(1));
    let after = pair.server.get().stats().early_packets_received;
    assert_eq!(after, before + 1);
    read_all(&mut pair, &[(id, data)], Duration::from_secs(5));
}

/// A client's second flight is only its Finished, because QUIC has no EndOfEarlyData.
#[test]
fn early_data_ends_without_a_message() {
    // [9001 8.3 no-end-of-early-data]
    let known = Acquainted::new();
    let client = ClientCrypto::start(&*known.client, "server.test", Vec::new(), 0);
    let server = ServerCrypto::start(&*known.server, generous_parameters(), 0);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let write = |session: &mut dyn crate::crypto::Session| {
        let mut messages = Vec::new();
        loop {
            let mut out = Vec::new();
            let change = session.write_handshake(&mut out);
            if change.is_none() && out.is_empty() {
                return messages;
            }
            messages.push(out);
        }
    };
    for hello in write(&mut *client) {
        server.read_handshake(&hello).unwrap();
    }
    assert!(server.zero_rtt_keys().is_some());
    let mut second = Vec::new();
    for message in write(&mut *server) {
        client.read_handshake(&message).unwrap();
        second.extend(write(&mut *client));
    }
    let second = second.concat();
    let length = usize::from(second[3]) + 4;
    assert_eq!((second[0], length), (20, second.len()));
    assert!(client.early_data_accepted() && !client.is_handshaking());
}
