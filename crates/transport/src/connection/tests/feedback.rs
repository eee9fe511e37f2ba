//! Explicit feedback: negotiated, counted once, returned, and robust.

use super::questions::signals;
use super::*;
use crate::wire::packet::LONG_FORM;

fn setup(client: &[u8], server: &[u8]) -> Setup {
    let mut setup = Setup::default();
    setup.client.signals = signals(client);
    setup.server.signals = signals(server);
    setup
}

fn has_shim(datagram: &[u8]) -> bool {
    datagram[0] & 0xf8 == 8
}

/// Adds a router that marks every datagram of the client with a shim.
fn marking(pair: &mut Pair, code: u8) {
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.from.port() != 443 {
            mark(&mut datagram.bytes, code, 77);
        }
    }));
}

#[test]
fn what_routers_mark_reaches_the_controller_exactly() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    pair.record = true;
    marking(&mut pair, 2);
    pair.connect();
    pair.upload_and_run(300_000, 10, Duration::from_millis(200));
    let log = pair.client.log();
    let stats = pair.client.get().stats().clone();
    assert_eq!(log.feedback.packets, [0, 0, stats.shims_sent, 0]);
    let shims = pair.client.sent.iter().filter(|d| has_shim(d));
    let bytes: usize = shims.map(Vec::len).sum();
    assert_eq!(log.feedback.bytes[2], bytes as u64);
    assert!(stats.shims_sent > 200);
    assert_eq!(pair.server.get().stats().shims_received, stats.shims_sent);
    assert_eq!(log.feedback_before_ack, log.feedbacks);
    let report = pair.client.get().path_report(pair.now);
    assert_eq!((report.signal, report.router), (Some(0), Some(77)));
    assert!(report.passes_shims);
    // By now, the server only sends acknowledgements, which have no shim.
    pair.server.sent.clear();
    pair.upload_and_run(30_000, 10, Duration::from_millis(200));
    assert!(!pair.server.sent.is_empty());
    assert!(!pair.server.sent.iter().any(|d| has_shim(d)));
}

#[test]
fn a_shim_stands_in_front_of_short_headers_alone_and_segments_are_equal() {
    let mut pair = Pair::with(setup(&[3], &[3]));
    pair.record = true;
    pair.connect_and_upload(300_000, 10);
    for datagram in pair.client.sent.iter().chain(&pair.server.sent) {
        if has_shim(datagram) {
            assert_eq!(datagram[LEN] & LONG_FORM, 0);
        }
    }
    pair.run(Duration::from_millis(100));
    pair.upload(300_000, Duration::from_secs(10));
    let mtu = pair.client.get().mtu();
    assert_eq!(mtu, 1472);
    let whole = |batch: &&crate::connection::Transmit| batch.len == 10 * usize::from(mtu);
    assert!(pair.client.batches.iter().filter(whole).count() > 10);
    let sent = pair.client.sent.iter();
    let full = sent.filter(|d| d.len() == usize::from(mtu));
    assert!(full.count() > 150);
}

#[test]
fn the_first_shim_tells_the_round_trip_of_the_handshake() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    pair.record = true;
    pair.connect_and_upload(10_000, 10);
    let round_trip = 2 * pair.up.latency.as_millis() as u8;
    for side in [&pair.client, &pair.server] {
        let first = side.sent.iter().find(|d| has_shim(d)).unwrap();
        assert_eq!(first[6], round_trip);
    }
}

#[test]
fn each_nth_packet_bears_a_shim_and_the_others_its_room() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    marking(&mut pair, 1);
    pair.connect();
    pair.upload_and_run(300_000, 10, Duration::from_millis(100));
    pair.record = true;
    pair.client.sent.clear();
    pair.client.batches.clear();
    pair.client.log.lock().unwrap().signal_every = 8;
    let before = pair.client.log();
    pair.upload_and_run(1_000_000, 10, Duration::from_millis(100));
    let log = pair.client.log();
    let mtu = usize::from(pair.client.get().mtu());
    let sent = &pair.client.sent;
    let shims: Vec<_> = (0..sent.len()).filter(|&i| has_shim(&sent[i])).collect();
    assert!((sent.len() / 9..=sent.len() / 7).contains(&shims.len()));
    assert!(shims.iter().zip(&shims[1..]).all(|(a, b)| b - a <= 8));
    assert_eq!(log.signals - before.signals, shims.len() as u64);
    let counted = log.feedback.packets[1] - before.feedback.packets[1];
    assert_eq!(counted, shims.len() as u64);
    // Batches are as long as before, and all full datagrams have the same size, with or without a
    // shim.
    let whole = |batch: &&crate::connection::Transmit| batch.len == 10 * mtu;
    assert!(pair.client.batches.iter().filter(whole).count() > 40);
    let bare_and_full = |d: &&Vec<u8>| d.len() == mtu && !has_shim(d);
    assert!(sent.iter().filter(bare_and_full).count() > 500);
}

#[test]
fn without_a_common_kind_not_one_byte_differs() {
    // [9000 19.21 known-to-peer]
    let run = |client: &[u8], server: &[u8]| {
        let mut pair = Pair::with(setup(client, server));
        pair.record = true;
        pair.connect_and_upload(100_000, 10);
        assert_eq!(pair.client.get().stats().shims_sent, 0);
        assert_eq!(pair.server.get().stats().shims_sent, 0);
        assert_eq!(pair.client.log().feedbacks, 0);
        (pair.client.sent.clone(), pair.server.sent.clone())
    };
    assert_eq!(run(&[], &[]), run(&[], &[]));
    // A side that offers no signal doesn't send a parameter for it, and its datagrams are plain
    // QUIC.
    let (_, plain) = run(&[], &[]);
    let (_, offered) = run(&[0], &[]);
    assert_eq!(plain.len(), offered.len());
    run(&[0], &[1]);
    run(&[], &[0]);
}

#[test]
fn lost_acknowledgements_lose_no_feedback() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    marking(&mut pair, 1);
    pair.connect();
    pair.down.faults = Faults {
        loss: 300_000,
        reorder: 100_000,
        duplicate: 100_000,
        ..Faults::default()
    };
    pair.up.faults.duplicate = 100_000;
    pair.upload(500_000, Duration::from_secs(60));
    pair.down.faults = Faults::default();
    pair.ping_and_run(Duration::from_secs(1));
    let shims = pair.server.get().stats().shims_received;
    let log = pair.client.log();
    assert_eq!(log.feedback.packets, [0, shims, 0, 0]);
    assert_eq!(pair.client.get().stats().feedback_bad, 0);
}

#[test]
fn a_damaged_shim_is_not_believed_and_its_packet_still_read() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    let mut n = 0;
    pair.tap = Some(Box::new(move |_, datagram| {
        if has_shim(&datagram.bytes) && datagram.from.port() != 443 {
            n += 1;
            mark(&mut datagram.bytes, 3, 1);
            if n % 3 == 0 {
                datagram.bytes[5] ^= 0x10;
            }
        }
    }));
    pair.connect();
    pair.upload_and_run(200_000, 10, Duration::from_millis(100));
    let stats = pair.server.get().stats().clone();
    assert!(stats.shims_bad > 30, "{stats:?}");
    let log = pair.client.log();
    let counted = [stats.shims_bad, 0, 0, stats.shims_received];
    assert_eq!(log.feedback.packets, counted);
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}

#[test]
fn a_path_that_eats_shims_becomes_plain_within_a_few_round_trips() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    pair.up.faults.eats_shims = true;
    pair.down.faults.eats_shims = true;
    pair.connect_and_upload(100_000, 10);
    assert!(!pair.client.get().path_report(pair.now).passes_shims);
    // The consequences of lost shims for congestion, ECN and datagram size are void.
    let log = pair.client.log();
    assert_eq!((log.built, log.wrong_states), (2, 0));
    pair.upload(1_000_000, Duration::from_secs(10));
    let report = pair.client.get().path_report(pair.now);
    assert!(!report.passes_shims);
    assert_eq!(report.ecn, EcnState::Capable);
    assert!(report.mtu > 1400, "{}", report.mtu);
    assert_eq!(pair.client.log().lost, log.lost);
    // Later trials cost a retransmission, but not the window.
    let shims = pair.client.get().stats().shims_sent;
    for _ in 0..10 {
        pair.run(Duration::from_secs(5));
        pair.upload(50_000, Duration::from_secs(10));
    }
    let stats = pair.client.get().stats();
    assert!(stats.shims_sent >= shims + 3, "{stats:?}");
    assert_eq!(pair.client.log().lost, log.lost);
}

#[test]
fn the_ecn_field_carries_a_signal_without_a_shim() {
    let setup = Setup::both(|config| config.signals = vec![Arc::new(TestSignal::in_ecn(5))]);
    let mut pair = Pair::connected(setup);
    pair.upload(100_000, Duration::from_secs(10));
    pair.up.faults.ecn = Some(Ecn::Ce);
    pair.upload_and_run(100_000, 10, Duration::from_millis(100));
    let log = pair.client.log();
    assert!(log.feedback.packets[1] > 60, "{log:?}");
    assert!(log.feedback.packets[3] > 60, "{log:?}");
    assert_eq!(log.congestion_experienced, 0, "the field is the signal's");
    assert_eq!(pair.client.get().stats().feedback_bad, 0);
    assert_eq!(pair.client.get().stats().shims_sent, 0);
}

#[test]
fn counters_of_a_new_path_start_from_zero() {
    let mut pair = Pair::with(setup(&[0], &[0]));
    pair.tap = Some(Box::new(move |_, datagram| {
        mark(&mut datagram.bytes, 1, 9);
    }));
    pair.connect();
    pair.run(Duration::from_millis(100));
    pair.upload(100_000, Duration::from_secs(10));
    // The client's NAT is rebound, which only the server notices.
    pair.rebind("10.0.0.9:2000");
    pair.upload_and_run(100_000, 10, Duration::from_secs(1));
    let before = pair.client.log().feedback.packets[1];
    pair.upload_and_run(100_000, 10, Duration::from_secs(1));
    let after = pair.client.log().feedback.packets[1];
    assert!(after - before > 60, "{before} {after}");
    // The server sends data, and its path changed without the client noticing.
    let log = pair.server.log();
    pair.transfer(false, 200_000, Duration::from_secs(10), |_, _| {});
    pair.run(Duration::from_secs(1));
    let counted = pair.server.log().feedback.packets[1] - log.feedback.packets[1];
    assert!(counted > 60, "{counted}");
    assert_eq!(pair.server.get().stats().feedback_bad, 0);
}

/// Builds a PING of the client behind a shim.
fn shimmed_ping(pair: &mut Pair) -> Vec<u8> {
    let packet = packet_from(pair, From::Client, SpaceId::Data, &[Frame::Ping]);
    let mut datagram = vec![0; LEN];
    TestSignal::shim(0).fill(&Default::default(), &mut datagram);
    datagram.extend(packet);
    datagram
}

/// Delivers it to the server, and returns how many shims that counts.
fn counted(pair: &mut Pair, from: &str, mut bytes: Vec<u8>) -> u64 {
    let received = Received::plain(from.parse().unwrap());
    let server = pair.server.get();
    let before = server.stats();
    server.handle_datagram(pair.now, received, &mut bytes);
    let after = server.stats();
    assert_eq!(after.packets_received, before.packets_received + 1);
    after.shims_received - before.shims_received
}

/// A packet that arrives late from another address passed other routers.
#[test]
fn shims_count_where_they_came_by_the_path_in_use() {
    let mut pair = Pair::at_rest(setup(&[0], &[0]));
    let [elsewhere, late, newest] = [(); 3].map(|()| shimmed_ping(&mut pair));
    assert_eq!(counted(&mut pair, CLIENT, newest), 1);
    assert_eq!(counted(&mut pair, "10.0.0.9:2000", elsewhere), 0);
    assert_eq!(counted(&mut pair, CLIENT, late), 1);
    let remote = pair.server.get().remote_address();
    assert_eq!(remote, CLIENT.parse().unwrap());
}
