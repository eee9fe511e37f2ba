//! Connections that end or stay: closed, timed out, kept alive, reset.

use super::*;

#[test]
fn both_sides_hear_of_a_close_and_are_gone_after_a_while() {
    let mut pair = Pair::at_rest(Setup::default());
    let reason = Bytes::from_static(b"done");
    pair.client.get().close(pair.now, 17, reason.clone());
    pair.client.get().close(pair.now, 18, b"again"[..].into());
    assert_eq!(pair.client.error(), Some(ConnectionError::LocallyClosed));
    pair.run(Duration::from_millis(30));
    let close = pair.server.application_closed_with();
    assert_eq!((close.error_code, close.reason), (17_u32.into(), reason));
    assert!(!pair.client.get().is_drained());
    pair.run(Duration::from_secs(5));
    assert!(pair.client.get().is_drained() && pair.server.get().is_drained());
    assert!(pair.client.get().deadline().is_none());
    assert!(pair.client.ids.is_empty() && pair.server.ids.is_empty());
    for host in [&pair.client, &pair.server] {
        let lost = host.events.iter().filter(|e| matches!(e, Event::Lost(_)));
        assert_eq!(lost.count(), 1);
    }
}

#[test]
fn a_lost_close_is_said_again_when_the_peer_goes_on_talking() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.client.get().close(pair.now, 17, Bytes::new());
    pair.flush();
    pair.up.cut();
    pair.server.write(b"hello?");
    // This packet crosses the lost one and isn't answered, but the packets of its timeout are.
    pair.run(Duration::from_millis(500));
    let close = pair.server.application_closed_with();
    assert_eq!(close.error_code, 17_u32.into());
}

#[test]
fn two_closing_sides_fall_silent() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.record = true;
    pair.client.get().close(pair.now, 1, Bytes::new());
    pair.server.get().close(pair.now, 2, Bytes::new());
    pair.run(Duration::from_secs(5));
    assert!(pair.client.sent.len() <= 3 && pair.server.sent.len() <= 3);
    assert_eq!(pair.client.error(), Some(ConnectionError::LocallyClosed));
}

#[test]
fn a_close_during_the_handshake_hides_the_application() {
    // [9000 10.2.3 hidden-application]
    let mut pair = Pair::new();
    pair.until_server_exists();
    pair.server.get().close(pair.now, 99, b"secret"[..].into());
    pair.run(Duration::from_secs(2));
    match pair.client.error() {
        // APPLICATION_ERROR without a reason (RFC 9000 §10.2.3).
        Some(ConnectionError::ConnectionClosed(e)) => {
            assert_eq!(e.code.0, 0x0c);
            assert_eq!(e.reason, "");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn silence_ends_a_connection_after_the_lesser_timeout() {
    let mut setup = Setup::default();
    setup.client.max_idle_timeout = Some(Duration::from_secs(30));
    setup.server.max_idle_timeout = Some(Duration::from_secs(2));
    let mut pair = Pair::connected(setup);
    pair.run(Duration::from_millis(1500));
    assert!(pair.client.error().is_none() && pair.server.error().is_none());
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.client.error(), Some(ConnectionError::TimedOut));
    assert_eq!(pair.server.error(), Some(ConnectionError::TimedOut));
    assert!(pair.client.get().is_drained());
}

#[test]
fn keep_alive_keeps_it() {
    let mut setup = Setup::default();
    setup.client.max_idle_timeout = Some(Duration::from_secs(2));
    setup.client.keep_alive = Some(Duration::from_millis(900));
    let mut pair = Pair::connected(setup);
    pair.run(Duration::from_secs(20));
    assert!(pair.client.error().is_none() && pair.server.error().is_none());
    let sent = pair.client.get().stats().packets_sent;
    assert!((20..80).contains(&sent), "{sent}");
}

/// On the wire, zero means that there's no timeout (RFC 9000 §18.2).
#[test]
fn no_timeout_means_none() {
    for none in [None, Some(Duration::ZERO)] {
        let mut pair = Pair::connected(Setup::both(|config| config.max_idle_timeout = none));
        pair.run(Duration::from_secs(10_000));
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
        pair.upload(5000, Duration::from_secs(5));
    }
}

#[test]
fn a_stateless_reset_ends_the_connection_at_once() {
    // [9000 10.3.1 drain-on-reset] [9000 10.3.1 compared]
    let mut pair = Pair::at_rest(Setup::default());
    // The server's token for the ID that the client uses, as derived by its endpoint.
    let id = pair.client.get().sources.control.remote_ids.current().id;
    let token = ResetToken::derive(&NullEndpointKey::new(8), id.as_slice());
    let mut wrong = vec![0x5a; 40];
    pair.send_to_client(wrong.clone());
    assert!(pair.client.error().is_none());
    let at = wrong.len() - 16;
    wrong[at..].copy_from_slice(token.as_bytes());
    pair.send_to_client(wrong);
    assert_eq!(pair.client.error(), Some(ConnectionError::Reset));
    pair.record = true;
    pair.client.sent.clear();
    pair.run(Duration::from_secs(5));
    assert!(pair.client.sent.is_empty(), "a reset connection is silent");
    assert!(pair.client.get().is_drained());
}

#[test]
fn a_peer_that_vanishes_is_probed_and_given_up() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.up.faults.loss = 1_000_000;
    let before: Instant = pair.now;
    pair.client.write(b"anyone?");
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.client.error(), Some(ConnectionError::TimedOut));
    let stats = pair.client.get().stats();
    // 60 ms, doubled up to a quarter of the idle timeout, over 30 s.
    assert!((8..14).contains(&stats.probe_timeouts), "{stats:?}");
    assert!(pair.now > before);
}

#[test]
fn a_handshake_that_goes_on_for_ever_ends_also_without_an_idle_timeout() {
    let mut setup = Setup::both(|config| config.max_idle_timeout = None);
    setup.client.handshake_timeout = Duration::from_secs(10);
    setup.server.handshake_timeout = Duration::from_secs(5);
    let mut pair = Pair::with(setup);
    // The server receives the client's packets, but the client doesn't receive any.
    pair.down.faults.loss = 1_000_000;
    pair.until_server_exists();
    let begin = pair.now;
    let is_over = |pair: &mut Pair| pair.server.error().is_some();
    assert!(pair.run_until(Duration::from_secs(60), is_over));
    assert_eq!(pair.now - begin, Duration::from_secs(5));
    assert!(pair.server.get().stats().packets_received > 2);
    let is_over = |pair: &mut Pair| pair.client.error().is_some();
    assert!(pair.run_until(Duration::from_secs(60), is_over));
    for host in [&mut pair.client, &mut pair.server] {
        assert_eq!(host.error(), Some(ConnectionError::HandshakeTimedOut));
        assert!(host.get().is_drained());
    }
}
