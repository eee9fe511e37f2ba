//! The closing and draining states, the idle timeout, and the end of a connection.

use bytes::Bytes;

use super::*;
use crate::wire::TransportErrorCode;

const PTO: Duration = Duration::from_millis(100);
const AT: Instant = Instant::from_millis(1000);

fn open() -> Lifecycle {
    let mut lifecycle = Lifecycle::new(Some(Duration::from_secs(30)), None);
    let timers = &mut lifecycle.timers;
    timers.set(Timer::Handshake, Instant::from_millis(5000));
    lifecycle
}

fn reason() -> CloseReason {
    CloseReason::Application {
        code: 7,
        reason: Bytes::new(),
    }
}

#[test]
fn a_close_waits_for_three_probe_timeouts_and_for_nothing_else() {
    let mut lifecycle = open();
    assert!(lifecycle.is_open() && lifecycle.error().is_none());
    let error = ConnectionError::LocallyClosed;
    let ending = lifecycle.close(AT, PTO, reason(), error.clone());
    assert_eq!(ending, Ending::Over(error.clone()));
    assert_eq!(lifecycle.error(), Some(&error));
    assert!(!lifecycle.is_open() && !lifecycle.ignores_input());
    assert_eq!(lifecycle.timers.next(), Some(Instant::from_millis(1300)));
    assert_eq!(lifecycle.timers.get(Timer::Handshake), None);
    assert_eq!(lifecycle.due(), Some(&reason()));
    assert!(!lifecycle.has_sent_close());
    lifecycle.on_close_sent(AT);
    assert!(lifecycle.due().is_none() && lifecycle.has_sent_close());
    // Later reasons don't change anything.
    let later = Instant::from_millis(1100);
    let again = lifecycle.close(later, PTO, reason(), ConnectionError::TimedOut);
    assert_eq!(again, Ending::Known);
    assert_eq!(lifecycle.timers.next(), Some(Instant::from_millis(1300)));
}

#[test]
fn a_peer_that_closes_too_ends_what_is_sent_and_the_first_reason_stands() {
    let mut lifecycle = open();
    let error = ConnectionError::LocallyClosed;
    let _ = lifecycle.close(AT, PTO, reason(), error.clone());
    let later = Instant::from_millis(1100);
    let drained = lifecycle.drain(later, PTO, ConnectionError::Reset);
    assert_eq!(drained, Ending::Known);
    assert!(lifecycle.is_draining() && lifecycle.ignores_input());
    assert!(lifecycle.due().is_none());
    assert_eq!(lifecycle.timers.next(), Some(Instant::from_millis(1300)));
    assert_eq!(lifecycle.error(), Some(&error));
}

#[test]
fn a_connection_that_is_lost_is_forgotten_at_once() {
    let mut lifecycle = open();
    let ending = lifecycle.lose(AT, PTO, ConnectionError::TimedOut);
    assert_eq!(ending, Ending::Gone(ConnectionError::TimedOut));
    assert!(lifecycle.is_gone() && lifecycle.timers.next().is_none());
    let late = lifecycle.drain(AT, PTO, ConnectionError::Reset);
    assert_eq!(late, Ending::Known);
    let again = lifecycle.lose(AT, PTO, ConnectionError::HandshakeTimedOut);
    assert_eq!(again, Ending::Known);
    assert!(lifecycle.is_gone() && !lifecycle.is_draining());
    lifecycle.close_last(TransportError::new(TransportErrorCode::INTERNAL_ERROR, ""));
    assert!(lifecycle.due().is_none());
}

/// RFC 9000 §10.2.1: arriving datagrams show that the peer may lack the CONNECTION_CLOSE, but
/// not within a round trip.
#[test]
fn a_closing_connection_answers_datagrams() {
    let mut lifecycle = open();
    let _ = lifecycle.close(AT, PTO, reason(), ConnectionError::LocallyClosed);
    lifecycle.on_close_sent(AT);
    let rtt = Duration::from_millis(50);
    lifecycle.on_datagram(AT + rtt / 2, Some(rtt));
    assert_eq!(lifecycle.due(), None);
    lifecycle.on_datagram(AT + rtt, Some(rtt));
    assert_eq!(lifecycle.due(), Some(&reason()));
}

#[test]
fn an_error_of_this_sides_own_leaves_a_last_close() {
    let mut lifecycle = open();
    let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, "");
    lifecycle.close_last(error.clone());
    assert!(!lifecycle.is_open());
    assert_eq!(lifecycle.due(), Some(&CloseReason::Transport(error)));
}

#[test]
fn a_reset_connection_drains() {
    // [9000 10.3.1 drain-on-reset]
    let mut lifecycle = open();
    let ending = lifecycle.lose(AT, PTO, ConnectionError::Reset);
    assert_eq!(ending, Ending::Over(ConnectionError::Reset));
    assert!(lifecycle.is_draining());
    assert_eq!(lifecycle.timers.next(), Some(Instant::from_millis(1300)));
}

#[test]
fn silence_is_counted_from_packets() {
    let mut lifecycle = open();
    let timeout = lifecycle.on_peer_timeout(Duration::from_secs(10));
    assert_eq!(timeout, Some(Duration::from_secs(10)));
    assert_eq!(lifecycle.longest_pto(), Duration::from_secs(30));
    let idle = |lifecycle: &Lifecycle| lifecycle.timers.get(Timer::Idle);
    lifecycle.on_received(AT, PTO);
    assert_eq!(idle(&lifecycle), Some(Instant::from_millis(11_000)));
    lifecycle.on_sent(Instant::from_millis(2000), PTO);
    assert_eq!(idle(&lifecycle), Some(Instant::from_millis(12_000)));
}

fn closing() -> CloseState {
    let mut state = CloseState::Open;
    state.close(CloseReason::Application {
        code: 7,
        reason: Bytes::from_static(b"bye"),
    });
    state
}

#[test]
fn answers_to_a_closing_connection_thin_out() {
    // [9000 10.2.1 limited-closes]
    let mut state = closing();
    let mut sent = 0;
    for n in 0..64 {
        let now = Instant::from_millis(1000 + n);
        if state.due().is_some() {
            state.on_sent(now);
            sent += 1;
        }
        state.on_datagram(now, None);
    }
    assert_eq!(sent, 7, "the first, then after 1, 2, 4, 8, 16, 32");
}

#[test]
fn the_application_code_stays_out_of_the_handshake() {
    let state = closing();
    let error = state.due().unwrap().before_one_rtt();
    assert_eq!(error.code, TransportErrorCode::APPLICATION_ERROR);
    assert_eq!(error.reason, "");
}
