//! The idle timeout, and the packets that prevent it (RFC 9000 §10.1).

use super::timers::{Timer, Timers};
use crate::{Duration, Instant};

/// A probe timeout up to this is always accepted, however short the idle timeout is, because a path
/// with a queue of seconds has such a timeout.
const SLOW: Duration = Duration::from_secs(20);
/// Replacement for the idle timeout of a side that has none.
const NO_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle timeout and keep-alive.
#[derive(Debug)]
pub(super) struct Idle {
    /// The smaller of both sides' timeouts, or `None` if the connection never times out.
    timeout: Option<Duration>,
    longest_pto: Duration,
    /// The configured interval.
    keep_alive: Option<Duration>,
    /// Whether an ack-eliciting packet was sent since a packet was last received. Only the first of
    /// these restarts the timer.
    sent_since_received: bool,
}

impl Idle {
    /// Creates the state with this side's `timeout`.
    pub(super) fn new(timeout: Option<Duration>, keep_alive: Option<Duration>) -> Self {
        Self {
            timeout,
            longest_pto: timeout.unwrap_or(NO_TIMEOUT).max(SLOW),
            keep_alive,
            sent_since_received: false,
        }
    }

    /// Returns the idle time after which the connection ends.
    pub(super) const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the upper bound of the probe timeout in all periods that depend on the peer. These
    /// periods are three probe timeouts long (RFC 9000 §10.1, §10.2), and a peer can make its probe
    /// timeout as long as it likes by answering late. The bound limits them to three times this
    /// side's configured idle timeout, or at least a minute.
    #[inline]
    pub(super) const fn longest_pto(&self) -> Duration {
        self.longest_pto
    }

    /// Applies the peer's `max_idle_timeout`, where zero means that it has none.
    pub(super) fn on_peer_timeout(&mut self, peer: Duration) {
        if !peer.is_zero() {
            self.timeout = Some(self.timeout.map_or(peer, |own| own.min(peer)));
        }
    }

    /// Restarts the timer after a packet was received and decrypted. `pto` is the current probe
    /// timeout, and the idle timeout is at least three times as long.
    pub(super) fn on_received(&mut self, now: Instant, pto: Duration, timers: &mut Timers) {
        self.sent_since_received = false;
        self.restart(now, pto, timers);
    }

    /// Restarts the timer after an ack-eliciting packet was sent.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, pto: Duration, timers: &mut Timers) {
        if !self.sent_since_received {
            self.sent_since_received = true;
            self.restart(now, pto, timers);
        }
    }

    fn restart(&mut self, now: Instant, pto: Duration, timers: &mut Timers) {
        // [9000 10.1 three-timeouts]
        let timeout = self.timeout.map(|t| t.max(pto.saturating_mul(3)));
        timers.assign(Timer::Idle, timeout.map(|t| now + t));
        // Data that waits for the peer's credit also keeps the connection alive (RFC 9000 §4.1).
        let keep_alive = self.keep_alive.or(timeout.map(|t| t / 2));
        timers.assign(Timer::KeepAlive, keep_alive.map(|t| now + t));
    }

    /// Returns true if the connection should stay alive even if no data is waiting.
    pub(super) const fn keeps_alive(&self) -> bool {
        self.keep_alive.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTO: Duration = Duration::from_millis(100);

    #[test]
    fn the_lesser_timeout_counts_but_never_less_than_three_ptos() {
        // [9000 10.1 three-timeouts]
        let mut timers = Timers::default();
        let mut idle = Idle::new(Some(Duration::from_secs(30)), None);
        idle.on_peer_timeout(Duration::ZERO);
        idle.on_received(Instant::ZERO, PTO, &mut timers);
        assert_eq!(timers.get(Timer::Idle), Some(Instant::from_millis(30_000)));
        idle.on_peer_timeout(Duration::from_millis(50));
        idle.on_received(Instant::ZERO, PTO, &mut timers);
        assert_eq!(timers.get(Timer::Idle), Some(Instant::from_millis(300)));
        let due = timers.get(Timer::KeepAlive);
        assert_eq!(due, Some(Instant::from_millis(150)));
        assert!(!idle.keeps_alive());
    }

    #[test]
    fn only_the_first_packet_after_a_reception_restarts_the_timer() {
        let mut timers = Timers::default();
        let [timeout, keep_alive] = [1000, 400].map(|ms| Some(Duration::from_millis(ms)));
        let mut idle = Idle::new(timeout, keep_alive);
        idle.on_received(Instant::ZERO, PTO, &mut timers);
        idle.on_sent(Instant::from_millis(10), PTO, &mut timers);
        idle.on_sent(Instant::from_millis(20), PTO, &mut timers);
        assert_eq!(timers.get(Timer::Idle), Some(Instant::from_millis(1010)));
        let due = timers.get(Timer::KeepAlive);
        assert_eq!(due, Some(Instant::from_millis(410)));
        idle.on_received(Instant::from_millis(50), PTO, &mut timers);
        assert_eq!(timers.get(Timer::Idle), Some(Instant::from_millis(1050)));
        idle.on_sent(Instant::from_millis(60), PTO, &mut timers);
        assert_eq!(timers.get(Timer::Idle), Some(Instant::from_millis(1060)));
    }

    #[test]
    fn one_side_that_wants_a_timeout_is_enough() {
        let mut idle = Idle::new(None, None);
        assert_eq!(idle.timeout(), None);
        idle.on_peer_timeout(Duration::ZERO);
        assert_eq!(idle.timeout(), None);
        idle.on_peer_timeout(Duration::from_secs(40));
        assert_eq!(idle.timeout(), Some(Duration::from_secs(40)));
        let mut idle = Idle::new(Some(Duration::from_secs(30)), None);
        idle.on_peer_timeout(Duration::from_secs(40));
        assert_eq!(idle.timeout(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_probe_timeout_counts_up_to_the_own_idle_timeout_or_twenty_seconds() {
        for (own, longest) in [
            (Some(3), 20),
            (Some(30), 30),
            (Some(3600), 3600),
            (None, 30),
        ] {
            let mut idle = Idle::new(own.map(Duration::from_secs), None);
            // The peer's timeout doesn't change it.
            idle.on_peer_timeout(Duration::from_secs(1));
            assert_eq!(idle.longest_pto(), Duration::from_secs(longest), "{own:?}");
        }
    }
}
