//! Times in which a port did not run.
//!
//! A port is driven by packets and deadlines. A process that gets no processor serves neither, and
//! an idle port has no deadline that it could miss. So a port that packets came to lately has one
//! all the time.

use pathmark_cc::Instant;

/// Nanoseconds between two beats: as long as a transmitter catches up
/// ([`Shaper`](crate::shaper::Shaper)). A driver that is later than that after a beat did not run.
const BEAT: u64 = 50_000_000;
/// Beats without a packet after which a port rests: longer than most round trips.
const REST: u32 = 64;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    due: Instant,
    /// Beats since the last packet.
    idle: u32,
}

impl Pulse {
    /// At rest.
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

    /// A packet came, after what was due by then.
    #[inline]
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.idle = 0;
        if self.due == Instant::FAR_FUTURE {
            self.due = next(now);
        }
    }

    /// A beat is due. Returns the nanoseconds in which the port did not run.
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

    /// Nothing comes: it beats 64 times, and then at the next packet.
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
