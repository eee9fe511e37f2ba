//! The life cycle of a connection (RFC 9000 §10): open, closing or draining, and gone; why it is
//! over; and its deadlines, the idle timeout among them, which stop when it ends.

use bytes::Bytes;

use super::timers::{Idle, Timer, Timers};
use crate::observe::ConnectionError;
use crate::wire::{TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// The effect of ending a connection.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// None, because the connection is over already.
    Known,
    /// The connection is over from now on.
    Over(ConnectionError),
    /// The connection is over, and its state can be dropped immediately.
    Gone(ConnectionError),
}

/// State of a connection between open and gone.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: CloseState,
    /// Why the connection is over, once it is.
    error: Option<ConnectionError>,
    idle: Idle,
    pub(super) timers: Timers,
}

impl Lifecycle {
    /// Creates the state of an open connection. `idle_timeout` is this side's value.
    pub(super) fn new(idle_timeout: Option<Duration>, keep_alive: Option<Duration>) -> Self {
        Self {
            state: CloseState::default(),
            error: None,
            idle: Idle::new(idle_timeout, keep_alive),
            timers: Timers::default(),
        }
    }

    /// Returns true until either side closes or the connection is lost.
    pub(super) const fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// Returns true after the peer has closed, until the connection is gone.
    pub(super) const fn is_draining(&self) -> bool {
        matches!(self.state, CloseState::Draining)
    }

    /// Returns true once the connection is gone.
    pub(super) const fn is_gone(&self) -> bool {
        self.state.is_gone()
    }

    /// Returns true once the peer has closed or the connection is gone, so that received packets
    /// are ignored.
    pub(super) const fn ignores_input(&self) -> bool {
        self.state.ignores_input()
    }

    /// Returns why the connection is over, if it is.
    pub(super) const fn error(&self) -> Option<&ConnectionError> {
        self.error.as_ref()
    }

    /// Closes the connection, and waits for three times `pto`.
    pub(super) fn close(
        &mut self,
        now: Instant,
        pto: Duration,
        reason: CloseReason,
        error: ConnectionError,
    ) -> Ending {
        if !self.is_open() {
            return Ending::Known;
        }
        self.state.close(reason);
        self.linger(now, pto);
        self.end(error)
    }

    /// Closes the connection because of a protocol violation or another error.
    pub(super) fn fail(&mut self, now: Instant, pto: Duration, error: TransportError) -> Ending {
        let reason = CloseReason::Transport(error.clone());
        // [9000 10.3 close-if-able]
        self.close(now, pto, reason, ConnectionError::TransportError(error))
    }

    /// Closes the connection because of an internal error, after which it does nothing more.
    pub(super) fn close_last(&mut self, error: TransportError) {
        self.state.close(CloseReason::Transport(error));
    }

    /// Stops sending, because the peer closed the connection (RFC 9000 §10.2.2).
    pub(super) fn drain(&mut self, now: Instant, pto: Duration, error: ConnectionError) -> Ending {
        if self.is_gone() {
            return Ending::Known;
        }
        // [9000 10.2.2 draining-silent]
        self.state = CloseState::Draining;
        if self.error.is_none() {
            self.linger(now, pto);
        }
        self.end(error)
    }

    /// Makes the connection gone.
    pub(super) fn forget(&mut self) {
        self.state = CloseState::Gone;
        self.timers.keep_close_only();
        self.timers.stop(Timer::Close);
    }

    /// Ends the connection without a CONNECTION_CLOSE, for example after a timeout or if no version
    /// is supported by both sides. The connection is gone immediately, except that it drains after
    /// a reset.
    pub(super) fn lose(&mut self, now: Instant, pto: Duration, error: ConnectionError) -> Ending {
        // [9000 10.3.1 drain-on-reset]
        if error == ConnectionError::Reset {
            return self.drain(now, pto, error);
        }
        if !self.is_open() {
            return Ending::Known;
        }
        self.forget();
        match self.end(error) {
            Ending::Over(error) => Ending::Gone(error),
            ending => ending,
        }
    }

    fn end(&mut self, error: ConnectionError) -> Ending {
        if self.error.is_some() {
            return Ending::Known;
        }
        self.error = Some(error.clone());
        Ending::Over(error)
    }

    /// Stops all timers, because a closed connection only waits for the end of its last period.
    fn linger(&mut self, now: Instant, pto: Duration) {
        self.timers.set(Timer::Close, linger_until(now, pto));
        self.timers.keep_close_only();
    }

    /// Processes a datagram for the connection; see [`CloseState::on_datagram`].
    pub(super) fn on_datagram(&mut self, now: Instant, min_rtt: Option<Duration>) {
        self.state.on_datagram(now, min_rtt);
    }

    /// Returns the reason in the CONNECTION_CLOSE that is due, if any.
    pub(super) fn due(&self) -> Option<&CloseReason> {
        self.state.due()
    }

    /// Records that the CONNECTION_CLOSE was sent.
    pub(super) fn on_close_sent(&mut self, now: Instant) {
        self.state.on_sent(now);
    }

    /// Returns true once a CONNECTION_CLOSE was sent.
    pub(super) fn has_sent_close(&self) -> bool {
        self.state.was_sent()
    }

    /// Sets the peer's `max_idle_timeout`, where zero means that it has none. Returns the idle time
    /// after which the connection ends.
    pub(super) fn on_peer_timeout(&mut self, peer: Duration) -> Option<Duration> {
        self.idle.on_peer_timeout(peer);
        self.idle.timeout()
    }

    /// Upper bound of the probe timeout in all periods that depend on the peer.
    pub(super) const fn longest_pto(&self) -> Duration {
        self.idle.longest_pto()
    }

    /// Returns true if the connection is configured to stay alive while idle.
    pub(super) const fn keeps_alive(&self) -> bool {
        self.idle.keeps_alive()
    }

    /// Restarts the idle timeout after a packet was received and decrypted.
    pub(super) fn on_received(&mut self, now: Instant, pto: Duration) {
        self.idle.on_received(now, pto, &mut self.timers);
    }

    /// Restarts the idle timeout after an ack-eliciting packet was sent.
    pub(super) fn on_sent(&mut self, now: Instant, pto: Duration) {
        self.idle.on_sent(now, pto, &mut self.timers);
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
#[path = "lifecycle_tests.rs"]
mod tests;
