//! Handshakes: clean, lossy, limited, retried, refused.

use super::rules::destinations;
use super::*;

const START: Instant = Instant::from_millis(1);

#[test]
fn a_clean_handshake_takes_one_round_trip_and_is_confirmed_after_one_more() {
    // [9001 4.1.2 handshake-done] [9001 9.3 padded-hello] [9000 14.1 full-initials]
    // [9000 19.20 complete-first]
    let mut pair = Pair::new();
    pair.record = true;
    pair.until_established();
    assert_eq!(pair.now - START, Duration::from_millis(20));
    pair.connect();
    assert_eq!(pair.now - START, Duration::from_millis(40));
    for host in [&pair.client, &pair.server] {
        let events = host.events.iter();
        let order: Vec<_> = events.filter(|e| !matches!(e, Event::Stream(_))).collect();
        use Event::{Confirmed, Connected, HandshakeDataReady};
        assert_eq!(order, [&HandshakeDataReady, &Connected, &Confirmed]);
        assert_eq!(host.sent[0].len(), 1200);
    }
    // Datagrams with an Initial packet of the client have full size (RFC 9000 §14.1).
    assert_eq!(pair.client.get().stats().packets_lost, 0);
    let protocol = pair.client.get().handshake().data().protocol;
    assert_eq!(protocol.as_deref(), Some(&b"test"[..]));
    // Each side has several of the other's IDs.
    pair.run(Duration::from_millis(100));
    assert_eq!((pair.client.ids.len(), pair.server.ids.len()), (8, 8));
}

#[test]
fn handshakes_get_through_loss_reordering_duplication_and_corruption() {
    for seed in 0..40 {
        let mut pair = Pair::with(Setup::new(|setup| setup.seed = seed));
        pair.set_faults(Faults {
            loss: 300_000,
            reorder: 200_000,
            duplicate: 100_000,
            corrupt: 50_000,
            ..Faults::default()
        });
        pair.connect_and_upload(20_000, 60);
    }
}

/// Data that waits for the handshake fills the window, and isn't acknowledged before the client's
/// Finished arrives. If the Finished is lost, it must not wait for room in the window.
#[test]
fn a_lost_finished_is_sent_again_though_data_fills_the_window() {
    for seed in 0..200 {
        let mut setup = Setup::new(|setup| setup.seed = seed);
        setup.client.controller = fixed_window(12_000).0;
        let mut pair = Pair::with(setup);
        pair.up.faults.loss = 300_000;
        let established = pair.is_established_within(Duration::from_secs(60));
        assert!(established, "seed {seed}");
        pair.upload(50_000, Duration::from_secs(60));
    }
}

#[test]
fn a_server_sends_three_times_what_it_received_until_the_address_is_proved() {
    // [9000 8 amplification]
    for validated in [false, true] {
        let mut pair = Pair::with(Setup::new(|setup| setup.validated = validated));
        // The client's first datagram arrives, and all its others are lost.
        pair.flush();
        pair.up.faults.loss = 1_000_000;
        pair.record = true;
        pair.run(Duration::from_secs(20));
        let sent: usize = pair.server.sent.iter().map(Vec::len).sum();
        assert!(sent > 1200 && (sent > 3600) == validated, "{sent}");
        assert!(!pair.server.get().is_established());
    }
}

#[test]
fn a_server_that_is_not_there_ends_in_a_timeout() {
    // [9000 7.2 eight-bytes] [9000 7.2 first-id-stays]
    let mut pair = Pair::new();
    pair.up.faults.loss = 1_000_000;
    pair.record = true;
    pair.run(Duration::from_secs(120));
    assert_eq!(pair.client.error(), Some(ConnectionError::TimedOut));
    let first = destinations(&pair.client.sent[0]);
    assert!(first.iter().all(|id| id.len() >= 8));
    let mut sent = pair.client.sent.iter();
    assert!(sent.all(|datagram| destinations(datagram) == first));
    assert!(pair.client.get().is_drained());
    let lost = Event::Lost(ConnectionError::TimedOut);
    assert!(pair.client.has(|event| *event == lost));
    let sent = pair.client.get().stats().datagrams_sent;
    assert!((6..=20).contains(&sent), "probes back off: {sent}");
}

#[test]
fn no_common_protocol_fails_on_both_sides() {
    // [9001 8.1 no-protocol]
    let mut pair = Pair::with(Setup::new(|setup| {
        setup.server_crypto = Arc::new(NullCrypto::new(&[b"other"]));
    }));
    pair.run(Duration::from_secs(5));
    // no_application_protocol (120) as CRYPTO_ERROR.
    assert_eq!(pair.client.peer_closed_with().0, 0x178);
    assert_eq!(pair.server.closed_with().0, 0x178);
}

/// Returns the first datagram of the client, and the IDs in it.
fn first_initial(pair: &mut Pair) -> (Vec<u8>, ConnectionId, ConnectionId) {
    pair.record = true;
    pair.flush();
    let datagram = pair.client.sent[0].clone();
    let found = first_packet(&datagram);
    (datagram, found.dcid, found.scid)
}

pub(super) fn version_negotiation(
    dcid: &ConnectionId,
    scid: &ConnectionId,
    versions: &[u32],
) -> Vec<u8> {
    let mut buffer = [0; 128];
    let mut w = Writer::new(&mut buffer);
    version::encode_negotiation(&mut w, dcid.as_slice(), scid.as_slice(), versions, 0x55).unwrap();
    w.written().to_vec()
}

#[test]
fn version_negotiation_ends_the_connection_only_if_it_is_genuine() {
    // [9000 6.2 abandon] [9000 6.2 own-version-listed]
    let mut pair = Pair::new();
    let (_, dcid, scid) = first_initial(&mut pair);
    let other = ConnectionId::new(b"12345678").unwrap();
    // A packet that lists our version, and one that echoes other IDs, must be ignored (RFC 9000
    // §6.2).
    pair.send_to_client(version_negotiation(&scid, &dcid, &[0x0a0a_0a0a, 1]));
    pair.send_to_client(version_negotiation(&scid, &other, &[0x0a0a_0a0a]));
    assert!(pair.client.error().is_none());
    let others = [0x0a0a_0a0a, 0x6b33_43cf];
    pair.send_to_client(version_negotiation(&scid, &dcid, &others));
    assert_eq!(pair.client.error(), Some(ConnectionError::VersionMismatch));
    assert!(pair.client.get().is_drained());
}

#[test]
fn version_negotiation_after_an_answer_is_ignored() {
    // [9000 6.2 late-negotiation]
    let mut pair = Pair::new();
    let (_, dcid, scid) = first_initial(&mut pair);
    pair.until_established();
    pair.send_to_client(version_negotiation(&scid, &dcid, &[2]));
    assert!(pair.client.error().is_none());
}

fn retry_packet(dcid: &ConnectionId, scid: &ConnectionId, original: &ConnectionId) -> Vec<u8> {
    let crypto = NullCrypto::new(&[b"test"]);
    sealed_retry(&crypto, dcid, scid, original, b"a token")
}

pub(super) fn sealed_retry(
    crypto: &dyn InitialCrypto,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    original: &ConnectionId,
    token: &[u8],
) -> Vec<u8> {
    let mut buffer = vec![0; 256 + token.len()];
    let mut w = Writer::new(&mut buffer);
    encode_retry(&mut w, dcid, scid, token, 5).unwrap();
    let tag = crypto.retry_tag(original.as_slice(), w.written());
    w.put_slice(&tag).unwrap();
    w.written().to_vec()
}

#[test]
fn a_retry_is_followed_once_and_authenticated() {
    // [9000 7.2 one-change] [9000 8.1.2 retry-token-repeated] [9000 17.2.5.1 retry-id]
    // [9000 17.2.5.2 first-retry] [9000 17.2.5.2 retry-tag] [9000 17.2.5.2 same-source]
    let mut pair = Pair::new();
    let (_, original, scid) = first_initial(&mut pair);
    pair.up.cut();
    let retry_id = ConnectionId::new(b"retried!").unwrap();
    let mut forged = retry_packet(&scid, &retry_id, &original);
    *forged.last_mut().unwrap() ^= 1;
    pair.send_to_client(forged);
    pair.flush();
    assert_eq!(pair.client.sent.len(), 1, "a forged Retry is ignored");
    pair.send_to_client(retry_packet(&scid, &retry_id, &original));
    pair.flush();
    assert_eq!(pair.client.sent.len(), 2);
    // A second Retry is ignored (RFC 9000 §17.2.5.2).
    let second = ConnectionId::new(b"again...").unwrap();
    pair.send_to_client(retry_packet(&scid, &second, &original));
    pair.flush();
    assert_eq!(pair.client.sent.len(), 2);
    let again = pair.client.sent[1].clone();
    let found = first_packet(&again);
    assert_eq!((found.dcid, found.scid), (retry_id, scid));
    assert_eq!(again.len(), 1200);
    assert_eq!(&again[found.token.clone()], b"a token");
    pair.retried = Some((original, retry_id));
    pair.connect_and_upload(5000, 5);
}

/// Each Initial packet contains a Retry's token (RFC 9000 §8.1.2) and must fit into a datagram. If
/// the token leaves enough room, the handshake's messages are sent in small pieces. With a longer
/// token, the connection ends immediately, with the reason.
#[test]
fn a_token_that_leaves_no_room_for_the_handshake_ends_it_at_once() {
    for id in [8, 20] {
        let mut longest = 0;
        for len in (800..1200).step_by(3).chain([1400, 8000, 60_000]) {
            let mut pair = Pair::new();
            let (_, original, scid) = first_initial(&mut pair);
            pair.up.cut();
            let retry_id = ConnectionId::new(&vec![9; id]).unwrap();
            let token = vec![7; len];
            let crypto = NullCrypto::new(&[b"test"]);
            pair.send_to_client(sealed_retry(&crypto, &scid, &retry_id, &original, &token));
            if let Some(error) = pair.client.error() {
                assert_eq!(error, ConnectionError::TokenTooLong(len));
                assert!(longest < len);
                let sent = pair.client.sent.len();
                pair.run(Duration::from_secs(5));
                assert_eq!(pair.client.sent.len(), sent, "there is no peer to notify");
                assert!(pair.client.get().is_drained());
                continue;
            }
            assert!(len < 1200 && [0, len - 3].contains(&longest), "{len}");
            longest = len;
            pair.retried = Some((original, retry_id));
            pair.connect();
            assert!(pair.client.sent.iter().all(|sent| sent.len() <= 1200));
        }
        assert!((1000..1100).contains(&longest), "{longest}");
    }
}

/// A token of an earlier connection with this length isn't needed, so it is omitted.
#[test]
fn a_remembered_token_that_leaves_no_room_is_not_sent() {
    // [9000 8.1.3 new-token-sent]
    for (len, sent) in [(500, 500), (1300, 0)] {
        let mut pair = Pair::with(Setup::new(|setup| setup.token = vec![7; len]));
        let (first, ..) = first_initial(&mut pair);
        let found = first_packet(&first);
        assert_eq!((found.token.len(), first.len()), (sent, 1200));
        pair.connect();
    }
}

#[test]
fn ids_that_the_server_does_not_confirm_end_the_handshake() {
    // [9000 7.3 ids-match]
    let mut pair = Pair::new();
    let (_, original, scid) = first_initial(&mut pair);
    pair.up.cut();
    let retry_id = ConnectionId::new(b"retried!").unwrap();
    pair.send_to_client(retry_packet(&scid, &retry_id, &original));
    // The server isn't aware of a Retry, so its transport parameters don't contain it.
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.client.closed_with().0, 0x08);
}

#[test]
fn an_answer_from_another_address_is_not_believed() {
    let mut pair = Pair::new();
    let moved = Rc::new(RefCell::new(0));
    let count = Rc::clone(&moved);
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.from.port() == 443 && *count.borrow() == 0 {
            *count.borrow_mut() += 1;
            datagram.from.set_port(444);
        }
    }));
    pair.connect();
    assert_eq!(*moved.borrow(), 1);
    assert!(pair.now - START > Duration::from_millis(40));
}

/// This side's minimum delay that the peer may request is 1 ms, and the peer refuses a maximum
/// below it.
#[test]
fn who_delays_no_acknowledgement_is_understood() {
    for micros in [0, 1, 999, 1000, 1999] {
        let setup = Setup::both(|config| config.max_ack_delay = Duration::from_micros(micros));
        let mut pair = Pair::connected(setup);
        pair.upload(100_000, Duration::from_secs(5));
        assert_eq!(pair.client.get().stats().probe_timeouts, 0);
    }
}
