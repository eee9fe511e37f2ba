//! Ending a connection: closing, draining, gone (RFC 9000 §10).

use core::fmt;

use bytes::Bytes;

use crate::VarInt;
use crate::wire::{TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// Why the peer's application closed a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationClose {
    /// Error code of the application.
    pub error_code: VarInt,
    /// Human-readable reason, exactly as the peer sent it.
    pub reason: Bytes,
}

impl fmt::Display for ApplicationClose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code {}{}", self.error_code, reason_text(&self.reason))
    }
}

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer violated the protocol, or the handshake failed on this side. The close sent by this
    /// side contains the reason.
    #[error("{0}")]
    TransportError(TransportError),
    /// The peer's transport closed the connection (CONNECTION_CLOSE of type 0x1c).
    #[error("closed by the peer: {0}")]
    ConnectionClosed(TransportError),
    /// The peer's application closed the connection (CONNECTION_CLOSE of type 0x1d).
    #[error("closed by the peer's application with {0}")]
    ApplicationClosed(ApplicationClose),
    /// This side's application closed the connection.
    #[error("closed by this side's application")]
    LocallyClosed,
    /// The tokio runtime of this side's connection or endpoint has ended.
    #[error("the runtime of this side's connection has ended")]
    RuntimeEnded,
    /// This side's connection panicked, possibly in its congestion controller. The peer was sent a
    /// CONNECTION_CLOSE with INTERNAL_ERROR.
    #[error("this side's connection panicked, in its congestion controller perhaps")]
    Panicked,
    /// The peer no longer knows the connection (RFC 9000 §10.3).
    #[error("reset by the peer")]
    Reset,
    /// No packet arrived from the peer within the idle timeout.
    #[error("timed out: no packet from the peer")]
    TimedOut,
    /// The handshake didn't complete in time.
    #[error("timed out: the handshake did not complete in time")]
    HandshakeTimedOut,
    /// The socket failed and can't be used anymore.
    #[error("the socket failed: {0}")]
    Socket(std::io::ErrorKind),
    /// Client: a router or the server's host answered the handshake's first packets by ICMP.
    /// `ConnectionRefused` means that no socket is bound to the port.
    #[error("{}", unreachable_text(*.0))]
    Unreachable(std::io::ErrorKind),
    /// Client: the interface to the server, or a link behind a router that reports this by ICMP,
    /// can't carry datagrams of this many bytes, which the handshake requires (RFC 9000 §14.1).
    #[error(
        "a link on the path to the server carries no datagrams of {0} bytes: set a smaller \
         `initial_mtu` at both ends"
    )]
    PathTooNarrow(u16),
    /// The server doesn't support any version that this side supports.
    #[error("the server does not speak QUIC version 1")]
    VersionMismatch,
    /// The server's Retry token has this many bytes. Because each Initial packet must carry it (RFC
    /// 9000 §8.1.2), there would be no room for the handshake.
    #[error("the server's Retry token has {0} bytes: no room is left for the handshake")]
    TokenTooLong(usize),
}

impl From<ConnectionError> for std::io::Error {
    fn from(error: ConnectionError) -> Self {
        use std::io::ErrorKind;
        let kind = match &error {
            ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => ErrorKind::TimedOut,
            ConnectionError::Reset => ErrorKind::ConnectionReset,
            ConnectionError::ApplicationClosed { .. } | ConnectionError::ConnectionClosed(_) => {
                ErrorKind::ConnectionAborted
            }
            ConnectionError::Socket(kind) | ConnectionError::Unreachable(kind) => *kind,
            _ => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

fn unreachable_text(kind: std::io::ErrorKind) -> String {
    match kind {
        std::io::ErrorKind::ConnectionRefused => {
            "the host refuses: no server listens on this UDP port (ICMP)".to_owned()
        }
        kind => format!("out of reach: {kind} (ICMP)"),
    }
}

fn reason_text(reason: &Bytes) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", String::from_utf8_lossy(reason))
    }
}

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
