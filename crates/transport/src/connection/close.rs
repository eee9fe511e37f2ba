//! Ending a connection: closing, draining, gone (RFC 9000 §10).

use bytes::Bytes;

use crate::wire::{TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// The contents of a CONNECTION_CLOSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    Transport(TransportError),
    Application { code: u64, reason: Bytes },
}

impl CloseReason {
    /// Returns the error for Initial and Handshake packets, which must not reveal the application's
    /// state (RFC 9000 §10.2.3).
    pub(super) fn before_one_rtt(&self) -> TransportError {
        match self {
            Self::Transport(error) => error.clone(),
            Self::Application { .. } => {
                // [9000 10.2.3 hidden-application]
                TransportError::new(TransportErrorCode::APPLICATION_ERROR, "")
            }
        }
    }
}

/// State of a connection between open and gone.
#[derive(Clone, Debug, Default)]
pub(super) enum CloseState {
    /// Not closed.
    #[default]
    Open,
    /// This side closed, and answers datagrams with its CONNECTION_CLOSE (RFC 9000 §10.2.1).
    Closing(Closing),
    /// The peer closed, so nothing is sent (RFC 9000 §10.2.2).
    Draining,
    /// Nothing is left to do.
    Gone,
}

/// The closing state.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    pub(super) reason: CloseReason,
    /// Whether a CONNECTION_CLOSE is due.
    pub(super) due: bool,
    /// When the last one was sent.
    sent_at: Instant,
    /// Number of datagrams that arrived since then.
    arrived: u32,
    /// Number of datagrams that must arrive before the next CONNECTION_CLOSE is sent. It doubles
    /// each time, so that two closing sides eventually stop.
    needed: u32,
}

impl CloseState {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) const fn is_gone(&self) -> bool {
        matches!(self, Self::Gone)
    }

    /// Returns true once the peer has closed or the connection is gone, so that received packets
    /// are ignored.
    pub(super) const fn ignores_input(&self) -> bool {
        matches!(self, Self::Draining | Self::Gone)
    }

    /// Closes the connection unless it is closed already.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.is_open() {
            *self = Self::Closing(Closing {
                reason,
                due: true,
                sent_at: Instant::ZERO,
                arrived: 0,
                needed: 1,
            });
        }
    }

    /// Counts a datagram for the connection. A datagram that arrives within a round trip of a
    /// CONNECTION_CLOSE (`min_rtt`, the shortest so far) was sent before the peer could receive it,
    /// and therefore doesn't indicate its loss.
    pub(super) fn on_datagram(&mut self, now: Instant, min_rtt: Option<Duration>) {
        if let Self::Closing(closing) = self
            && min_rtt.is_none_or(|rtt| now >= closing.sent_at + rtt)
        {
            closing.arrived = closing.arrived.saturating_add(1);
            if closing.arrived >= closing.needed {
                closing.arrived = 0;
                // [9000 10.2.1 limited-closes]
                closing.needed = closing.needed.saturating_mul(2);
                closing.due = true;
            }
        }
    }

    /// Returns the reason to send, if one is due.
    pub(super) fn due(&self) -> Option<&CloseReason> {
        match self {
            Self::Closing(closing) if closing.due => Some(&closing.reason),
            _ => None,
        }
    }

    /// Returns true once a CONNECTION_CLOSE was sent.
    pub(super) fn was_sent(&self) -> bool {
        match self {
            Self::Closing(closing) => closing.sent_at > Instant::ZERO,
            Self::Open | Self::Draining => false,
            Self::Gone => true,
        }
    }

    /// Records that the CONNECTION_CLOSE was sent.
    pub(super) fn on_sent(&mut self, now: Instant) {
        if let Self::Closing(closing) = self {
            closing.due = false;
            closing.sent_at = now;
        }
    }
}

/// Returns until when a closed connection lingers: three times the probe timeout (RFC 9000 §10.2).
pub(super) fn linger_until(now: Instant, pto: Duration) -> Instant {
    now + pto.saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_closed_connection_lingers_for_three_probe_timeouts() {
        let at = linger_until(Instant::from_millis(1000), Duration::from_millis(200));
        assert_eq!(at, Instant::from_millis(1600));
    }

    #[test]
    fn what_was_under_way_is_not_answered() {
        let rtt = Some(Duration::from_millis(30));
        let mut state = closing();
        assert!(!state.was_sent());
        state.on_sent(Instant::from_millis(1000));
        assert!(state.was_sent());
        state.on_datagram(Instant::from_millis(1029), rtt);
        assert!(state.due().is_none());
        state.on_datagram(Instant::from_millis(1030), rtt);
        assert!(state.due().is_some());
    }

    #[test]
    fn the_application_code_stays_out_of_the_handshake() {
        let state = closing();
        let error = state.due().unwrap().before_one_rtt();
        assert_eq!(error.code, TransportErrorCode::APPLICATION_ERROR);
        assert_eq!(error.reason, "");
    }

    #[test]
    fn the_first_reason_stands() {
        let mut state = closing();
        let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, "late");
        state.close(CloseReason::Transport(error));
        use CloseReason::Application;
        assert!(matches!(state.due(), Some(Application { code: 7, .. })));
    }
}
