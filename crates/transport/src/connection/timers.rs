//! The connection's own deadlines, in a small fixed table. Other parts with deadlines (recovery,
//! acknowledgements, path validation) store these themselves.

use crate::Instant;

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
#[inline]
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
}
