//! The connection's own deadlines, in a small fixed table, and the idle timeout with the packets
//! that prevent it (RFC 9000 §10.1). Other parts with deadlines (recovery, acknowledgements, path
//! validation) store these themselves.

use crate::{Duration, Instant};

/// One event for which a connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Timer {
    /// The pacer permits the next packet (RFC 9002 §7.7).
    Pacing,
    /// No packet arrived during the idle timeout (RFC 9000 §10.1).
    Idle,
    /// A packet must be sent so that the peer and NATs keep their state (RFC 9000 §10.1.2).
    KeepAlive,
    /// The closing or draining period ends (RFC 9000 §10.2).
    Close,
    /// The handshake takes too long.
    Handshake,
    /// The second probe after a probe timeout is due.
    SecondProbe,
}

impl Timer {
    /// All timers.
    pub(super) const ALL: [Self; 6] = [
        Self::Pacing,
        Self::Idle,
        Self::KeepAlive,
        Self::Close,
        Self::Handshake,
        Self::SecondProbe,
    ];
}

/// Returns the earlier of two deadlines.
pub(super) fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The deadlines, one slot per [`Timer`].
#[derive(Debug, Default)]
pub(super) struct Timers {
    slots: [Option<Instant>; Timer::ALL.len()],
    /// When datagrams were last requested from the connection.
    polled_at: Instant,
}

impl Timers {
    /// Records that datagrams are being requested.
    pub(super) const fn on_poll(&mut self, now: Instant) {
        self.polled_at = now;
    }

    /// Returns when datagrams were last requested. Anything that couldn't be sent then waits for
    /// another event.
    pub(super) const fn polled_at(&self) -> Instant {
        self.polled_at
    }

    /// Sets or replaces a deadline.
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.assign(timer, Some(at));
    }

    /// Clears a deadline.
    pub(super) fn stop(&mut self, timer: Timer) {
        self.assign(timer, None);
    }

    /// Sets the deadline if there is one, and clears it otherwise.
    pub(super) fn assign(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(slot) = self.slots.get_mut(timer as usize) {
            *slot = at;
        }
    }

    /// Returns when `timer` fires, if it is set.
    pub(super) fn get(&self, timer: Timer) -> Option<Instant> {
        self.slots.get(timer as usize).copied().flatten()
    }

    /// Returns the earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.slots.iter().flatten().min().copied()
    }

    /// Clears and returns one timer that is due at `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        Timer::ALL.into_iter().find(|&timer| {
            let due = self.get(timer).is_some_and(|at| at <= now);
            if due {
                self.stop(timer);
            }
            due
        })
    }

    /// Forgets all but the close timer: a closed connection waits for nothing else.
    pub(super) fn keep_close_only(&mut self) {
        let close = self.get(Timer::Close);
        self.slots = Default::default();
        self.assign(Timer::Close, close);
    }
}

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

    #[test]
    fn due_timers_come_out_once_and_the_earliest_is_next() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        let at = Instant::from_millis;
        timers.set(Timer::Idle, at(30));
        timers.set(Timer::Pacing, at(10));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.take_due(at(9)), None);
        assert_eq!(timers.take_due(at(10)), Some(Timer::Pacing));
        assert_eq!(timers.take_due(at(10)), None);
        timers.stop(Timer::Idle);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn closing_keeps_only_its_own_deadline() {
        let mut timers = Timers::default();
        for timer in Timer::ALL {
            timers.set(timer, Instant::from_millis(5));
        }
        timers.keep_close_only();
        assert_eq!(timers.take_due(Instant::from_millis(5)), Some(Timer::Close));
        assert_eq!(timers.next(), None);
    }

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
