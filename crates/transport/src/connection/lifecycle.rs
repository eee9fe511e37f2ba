//! The life cycle of a connection: the closing and draining states, why the connection is over, the
//! idle timeout (RFC 9000 §10), and its other deadlines, which stop when it ends.

use super::close::{CloseReason, CloseState, linger_until};
use super::idle::Idle;
use super::timers::{Timer, Timers};
use crate::observe::ConnectionError;
use crate::wire::TransportError;
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
    #[inline]
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
    #[inline]
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
    #[inline]
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
    #[inline]
    pub(super) const fn longest_pto(&self) -> Duration {
        self.idle.longest_pto()
    }

    /// Returns true if the connection is configured to stay alive while idle.
    pub(super) const fn keeps_alive(&self) -> bool {
        self.idle.keeps_alive()
    }

    /// Restarts the idle timeout after a packet was received and decrypted.
    #[inline]
    pub(super) fn on_received(&mut self, now: Instant, pto: Duration) {
        self.idle.on_received(now, pto, &mut self.timers);
    }

    /// Restarts the idle timeout after an ack-eliciting packet was sent.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, pto: Duration) {
        self.idle.on_sent(now, pto, &mut self.timers);
    }
}

#[cfg(test)]
mod tests {
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
}
