//! A closing connection: the packets that it still sends, and how long it stays.

use super::*;

const FULL: usize = 1200;

/// Closes the client of a connection. Returns the code and reason that the server receives.
fn received_close(code: u64, reason: &[u8]) -> (u64, Bytes) {
    let mut pair = Pair::at_rest(Setup::default());
    let reason = Bytes::copy_from_slice(reason);
    pair.client.get().close(pair.now, code, reason);
    pair.run(Duration::from_millis(30));
    let close = pair.server.application_closed_with();
    (close.error_code.into_inner(), close.reason)
}

#[test]
fn a_long_reason_is_cut_and_a_code_beyond_2_to_the_62_is_said_as_0() {
    let reason = [b'x'; 1000];
    assert_eq!(received_close(1, &reason[..256]).1, reason[..256]);
    assert_eq!(received_close(1, &reason).1, reason[..256]);
    let largest = (1 << 62) - 1;
    let why = Bytes::from_static(b"why");
    assert_eq!(received_close(largest, &why), (largest, why));
    assert_eq!(received_close(largest + 1, b"why"), (0, Bytes::new()));
}

/// A connection with data in flight in both directions.
fn busy() -> Pair {
    let setup = Setup::both(|config| config.keep_alive = Some(Duration::from_millis(20)));
    let mut pair = Pair::at_rest(setup);
    for host in [&mut pair.client, &mut pair.server] {
        host.write(&[7; 5000]);
    }
    pair.flush();
    pair
}

#[test]
fn three_probe_timeouts_after_a_close_nothing_is_left_to_wait_for() {
    let mut pair = busy();
    let until = pair.now + pair.client.get().spaces.pto().saturating_mul(3);
    pair.client.get().close(pair.now, 1, Bytes::new());
    // It doesn't wait for packets in flight or for the next keep-alive.
    assert_eq!(pair.client.get().deadline(), Some(until));
    pair.flush();
    assert_eq!(pair.client.get().deadline(), Some(until));
    let client = pair.client.get();
    client.handle_timeout(until - Duration::from_nanos(1));
    assert!(!client.is_drained());
    client.handle_timeout(until);
    assert!(client.is_drained());
    assert_eq!(client.deadline(), None);
    // Closing again has no effect.
    client.close(until, 2, Bytes::new());
    client.handle_timeout(until + Duration::from_secs(100));
    assert_eq!(client.deadline(), None);
    pair.flush();
    let lost = pair.client.events.iter();
    assert_eq!(lost.filter(|e| matches!(e, Event::Lost(_))).count(), 1);
}

#[test]
fn who_was_closed_is_silent_and_does_not_stay_longer_for_a_repeated_close() {
    // [9000 10.2.2 draining-silent] [9000 10.2.3 close-in-one-rtt]
    let mut pair = busy();
    // All earlier packets of the client arrive before the close.
    pair.run(Duration::from_millis(15));
    pair.record = true;
    pair.client.get().close(pair.now, 1, Bytes::new());
    pair.flush();
    let close = pair.client.sent.pop().unwrap();
    assert!(close.len() < 100, "{} bytes", close.len());
    assert_eq!(close[0] & 0x80, 0, "a short header");
    assert!(pair.run_until(Duration::from_millis(30), |p| p.server.error().is_some()));
    pair.server.sent.clear();
    let until: Instant = pair.server.get().deadline().unwrap();
    assert!(until > pair.now && until <= pair.now + Duration::from_secs(1));
    if let Ok(id) = pair.server.get().streams().open(Dir::Uni) {
        let _ = pair.server.get().streams().write(id, b"more");
    }
    // The server's data in flight makes the client repeat its close.
    while pair.now < until {
        assert_eq!(pair.server.get().deadline(), Some(until));
        if !pair.step() {
            break;
        }
    }
    pair.run(Duration::from_secs(1));
    assert!(pair.server.sent.is_empty(), "{}", pair.server.sent.len());
    assert!(pair.server.get().is_drained());
    // If the server's application also closes it, this has no effect.
    pair.server.get().close(pair.now, 3, Bytes::new());
    pair.flush();
    assert!(pair.server.sent.is_empty());
}

#[test]
fn a_close_in_the_handshake_has_1200_bytes_or_waits_until_it_may() {
    // [9000 8.1 counted-bytes] [9000 10.2.1 closing-elsewhere] [9000 14.1 full-initials]
    let mut buffer = [0; 4096];
    for (sent, may) in [(0, true), (2 * FULL, true), (2 * FULL + 1, false)] {
        // The server has received the client's first datagram but hasn't sent anything yet.
        let mut pair = Pair::new();
        pair.until_server_exists();
        let now = pair.now;
        let server = pair.server.get();
        // The client's only datagram permits three (RFC 9000 §8.1).
        assert_eq!(server.paths.limit().available(), 3 * FULL as u64);
        server.paths.limit().on_sent(sent as u64);
        server.close(now, 1, Bytes::new());
        let transmit = server.poll_transmit(now, &mut buffer, 1);
        assert_eq!(transmit.map(|t| t.len), may.then_some(FULL), "{sent}");
        let left = 3 * FULL - sent - if may { FULL } else { 0 };
        assert_eq!(server.paths.limit().available(), left as u64);
        assert_eq!(server.stats().datagrams_sent, u64::from(may));
        // It is sent once.
        assert!(server.poll_transmit(now, &mut buffer, 1).is_none());
        if !may {
            server.paths.limit().on_received(1);
            let transmit = server.poll_transmit(now, &mut buffer, 1);
            assert_eq!(transmit.map(|t| t.len), Some(FULL));
        }
    }
}
