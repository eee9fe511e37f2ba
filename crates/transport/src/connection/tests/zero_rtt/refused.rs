use super::super::handshake::version_negotiation;
use super::*;
use crate::wire::transport_parameters::PeerLimits;

/// Checks that early data that the server refuses arrives once, after the handshake.
fn arrives_once(pair: &mut Pair, lengths: &[usize]) {
    let mut written = upload(pair, Dir::Uni, lengths);
    written.extend(upload(pair, Dir::Bi, &[10]));
    pair.flush();
    let early = pair.client.get().stats().early_packets_sent;
    assert!(early > 0);
    pair.run(Duration::from_millis(11));
    let server = pair.server.get();
    assert_eq!(server.handshake().early_data(), EarlyData::None);
    assert_eq!(server.stats().early_packets_received, 0);
    assert_eq!(server.streams().open_streams(), 0);
    read_all(pair, &written, Duration::from_secs(10));
    pair.connect();
    assert_eq!(early_data(pair)[0], EarlyData::Refused);
    assert!(!pair.client.get().spaces.keys.has_early());
    assert!(pair.server.get().stats().early_packets_dropped > 0);
    pair.upload_and_run(100_000, 10, Duration::from_secs(1));
    assert_eq!(pair.client.get().stats().packets_lost, 0);
    assert_eq!(pair.client.get().streams().account.unacked(), 0);
}

#[test]
fn another_servers_early_data_arrives_once() {
    // [9001 4.6.2 refused] [9001 4.6.2 start-over]
    let known = Acquainted::new();
    for other in [
        testing::server("server", &[b"test"]),
        testing::server("server", &[b"test"]).with_early_data(10),
        testing::server("server", &[b"test"]).without_resumption(),
    ] {
        // Each connection here leaves tickets of a different server.
        let known = Acquainted {
            client: Acquainted::new().client,
            server: Arc::clone(&known.server),
        };
        let mut pair = Pair::with(known.at(other).setup());
        arrives_once(&mut pair, &[5000, 1, 0]);
        assert!(!pair.client.get().handshake().data().resumed);
    }
}

#[test]
fn a_hello_retry_request_refuses_it() {
    let known = Acquainted::new();
    let other = testing::server_of_group(rustls::NamedGroup::secp384r1, &[b"test"]);
    let known = known.at(other.with_sessions_of(&known.server));
    let mut pair = Pair::with(known.setup());
    let written = upload(&mut pair, Dir::Uni, &[5000, 1, 0]);
    read_all(&mut pair, &written, Duration::from_secs(10));
    pair.connect();
    assert_eq!(early_data(&mut pair)[0], EarlyData::Refused);
    assert_eq!(pair.server.get().handshake().early_data(), EarlyData::None);
    assert!(pair.client.get().handshake().data().resumed);
    assert_eq!(pair.server.get().stats().early_packets_received, 0);
    pair.upload(100_000, Duration::from_secs(10));
}

#[test]
fn lower_limits_refuse_it_and_hold_for_what_is_sent_again() {
    // [9001 4.6.2 start-over] [9000 7.4.1 reject]
    let known = Acquainted::new();
    let mut setup = known.setup();
    setup.server.streams.max_uni_streams = 2;
    setup.server.streams.max_bidi_streams = 1;
    setup.server.streams.initial_connection_window = 4000;
    setup.server.streams.initial_stream_window = 1000;
    let mut pair = Pair::with(setup);
    // Beyond all new limits: streams, bytes of each, and total bytes. One stream is reset in time,
    // and one is opened and left unused.
    let lengths = [5000, 0, 3000, 1, 2000, 2000];
    let reset = pair.client.get().streams().open(Dir::Bi).unwrap();
    pair.client.get().streams().write(reset, &[9; 900]).unwrap();
    let idle = pair.client.get().streams().open(Dir::Bi).unwrap();
    pair.flush();
    pair.client.get().streams().reset(reset, 7).unwrap();
    let mut written = upload(&mut pair, Dir::Uni, &lengths);
    written.extend(upload(&mut pair, Dir::Bi, &[3000]));
    pair.flush();
    // The server must see streams end before it permits others, so it reads every stream as it
    // arrives.
    let mut got = vec![(Vec::new(), false); written.len()];
    let mut code = None;
    let done = pair.run_until(Duration::from_secs(20), |pair| {
        let Some(server) = &mut pair.server.connection else {
            return false;
        };
        while server.streams().accept(Dir::Uni).is_some() {}
        while let Some(id) = server.streams().accept(Dir::Bi) {
            server.streams().finish(id).unwrap();
        }
        if let Err(ReadError::Reset(with)) = server.streams().read(reset, &mut [0; 10]) {
            code = Some(with);
        }
        drain(server, idle, &mut Vec::new());
        for ((id, _), (bytes, ended)) in written.iter().zip(&mut got) {
            *ended = *ended || drain(server, *id, bytes);
        }
        if pair.client.get().is_established() {
            // While it is open, no other stream is.
            let _ = pair.client.get().streams().finish(idle);
            let _ = pair.client.get().streams().read(idle, &mut [0; 10]);
        }
        got.iter().all(|(_, ended)| *ended)
    });
    let (client, server) = (pair.client.error(), pair.server.error());
    assert!(done, "{client:?} {server:?}");
    for ((_, written), (read, _)) in written.iter().zip(&got) {
        assert!(written == read);
    }
    assert_eq!(code, Some(7));
    assert_eq!(early_data(&mut pair)[0], EarlyData::Refused);
    assert!(!pair.client.get().handshake().data().resumed);
}

#[test]
fn a_server_that_takes_it_and_has_lowered_its_limits_breaks_the_rules() {
    let mut pair = Pair::with(Acquainted::new().setup());
    // As if more had been remembered.
    let more = PeerLimits {
        max_data: u64::MAX,
        ..PeerLimits::default()
    };
    pair.client.get().sources.handshake.set_remembered(more);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.client.closed_with(), Code::PROTOCOL_VIOLATION);
}

#[test]
fn version_negotiation_ends_it() {
    let mut pair = Pair::with(Acquainted::new().setup());
    pair.record = true;
    write(&mut pair, Dir::Uni, b"early");
    pair.flush();
    let first = first_packet(&pair.client.sent[0]);
    pair.up.cut();
    let (dcid, scid) = (first.scid, first.dcid);
    pair.send_to_client(version_negotiation(&dcid, &scid, &[0x0a0a_0a0a]));
    assert_eq!(pair.client.error(), Some(ConnectionError::VersionMismatch));
    pair.run(Duration::from_secs(1));
    assert!(pair.server.connection.is_none());
}

#[test]
fn without_a_server_nothing_is_sent_for_ever() {
    let mut pair = Pair::with(Acquainted::new().setup());
    upload(&mut pair, Dir::Uni, &[100_000]);
    pair.up.faults.loss = 1_000_000;
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.client.error(), Some(ConnectionError::TimedOut));
    // A window, and two datagrams for each probe timeout.
    assert!(pair.client.get().stats().datagrams_sent < 300);
}

/// Unreliable datagrams that are waiting when the server refuses early data are sent after the
/// handshake if it accepts any, and are dropped otherwise.
#[test]
fn waiting_datagrams_go_to_a_server_that_takes_any() {
    for takes in [true, false] {
        let known = Acquainted::by(datagrams_accepted());
        let other = known.at(testing::server("server", &[b"test"]));
        let mut setup = other.setup_from(datagrams_accepted());
        if !takes {
            setup.server.datagrams.receive_bytes = 0;
        }
        setup.client.controller = fixed_window(2400).0;
        let mut pair = Pair::with(setup);
        // A stream fills the window.
        let written = upload(&mut pair, Dir::Uni, &[5000]);
        pair.flush();
        let client = pair.client.get();
        client.datagrams().send(b"waits".to_vec().into()).unwrap();
        pair.flush();
        assert!(pair.client.get().sources.datagrams.wants_to_send());
        read_all(&mut pair, &written, Duration::from_secs(5));
        pair.connect();
        assert_eq!(early_data(&mut pair)[0], EarlyData::Refused);
        assert!(!pair.client.get().sources.datagrams.wants_to_send());
        assert_eq!(pair.client.error(), None);
        let got = pair.server.get().datagrams().read();
        assert_eq!(got.is_some(), takes);
    }
}
