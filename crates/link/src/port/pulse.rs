//! Detects times in which a port did not run.
//!
//! A port is driven by packets and deadlines. A process without processor time serves neither, but
//! an idle port has no deadline that it could miss. Therefore, a port that recently received
//! packets always has a deadline.

use pathmark_cc::Instant;

/// Nanoseconds between two beats, which is also the time for which a transmitter catches up
/// ([`Shaper`](crate::shaper::Shaper)). If a driver is later than this after a beat, it did not
/// run.
const BEAT: u64 = 50_000_000;
/// Number of beats without a packet after which a port rests. Together they are longer than most
/// round trips.
const REST: u32 = 64;

/// A regular beat while packets arrive, as described in the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    due: Instant,
    /// Beats since the last packet.
    idle: u32,
}

impl Pulse {
    /// Creates a pulse at rest.
    pub(super) const fn new() -> Self {
        Self {
            due: Instant::FAR_FUTURE,
            idle: 0,
        }
    }

    /// The next beat.
    #[inline]
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Records the arrival of a packet, after everything that was due by then.
    #[inline]
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.idle = 0;
        if self.due == Instant::FAR_FUTURE {
            self.due = next(now);
        }
    }

    /// Handles a beat that is due. Returns the nanoseconds in which the port did not run.
    #[cold]
    pub(super) fn beat(&mut self, now: Instant) -> u64 {
        let late = now.as_nanos().saturating_sub(self.due.as_nanos());
        self.idle += 1;
        let rests = self.idle > REST;
        self.due = if rests {
            Instant::FAR_FUTURE
        } else {
            next(now)
        };
        if late > BEAT { late } else { 0 }
    }
}

const fn next(now: Instant) -> Instant {
    Instant::from_nanos(now.as_nanos().saturating_add(BEAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_later_than_a_beat_is_a_stall() {
        let at = Instant::from_millis;
        let mut pulse = Pulse::new();
        assert_eq!(pulse.due(), Instant::FAR_FUTURE);
        pulse.on_arrival(at(1000));
        assert_eq!(pulse.due(), at(1050));
        assert_eq!(pulse.beat(at(1100)), 0, "a beat late");
        assert_eq!(pulse.due(), at(1150));
        assert_eq!(pulse.beat(at(2150)), 1_000_000_000);
        assert_eq!(pulse.due(), at(2200));
    }

    /// Without further packets, it beats 64 times, and then at the next packet.
    #[test]
    fn a_port_that_nothing_comes_to_rests() {
        let at = Instant::from_millis;
        let mut pulse = Pulse::new();
        pulse.on_arrival(at(0));
        let mut beats = 0;
        while pulse.due() < Instant::FAR_FUTURE {
            assert_eq!(pulse.beat(pulse.due()), 0);
            beats += 1;
        }
        assert_eq!(beats, REST + 1);
        pulse.on_arrival(at(60_000));
        assert_eq!(pulse.due(), at(60_050));
    }
}
