//! The capacity of a port's control law: the rate, a configured value, or a measurement.

use pathmark_cc::Instant;

use super::Port;
use super::follow::Follow;
use crate::shaper::Shaper;

impl<P> Port<P> {
    /// Sets the capacity for the control law, in bytes per second, if the port cannot know it
    /// because the link behind it is slower than the port's rate, or because the port has no
    /// rate. `None`: its rate. This does not slow down the port itself.
    pub fn set_capacity(&mut self, now: Instant, hint: Option<u64>) {
        self.advance(now);
        self.hint = hint;
        self.law.on_capacity(now, self.capacity());
    }

    /// From now on, the control law gets a measurement instead of the rate: the rate at which
    /// the link could send over the last 100 ms. Until the first measurement, `rate` bytes per
    /// second are assumed.
    pub fn follow(&mut self, now: Instant, rate: u64) {
        self.advance(now);
        let offered = self.offered(now);
        self.follow = Some(Box::new(Follow::new(now, rate, offered)));
        self.law.on_capacity(now, self.capacity());
    }

    /// Measures how much the link could send.
    #[cold]
    pub(super) fn look(&mut self, now: Instant) {
        let offered = self.offered(now);
        if let Some(follow) = &mut self.follow {
            follow.look(now, offered);
            self.law.on_variation(follow.wait());
        }
        self.law.on_capacity(now, self.capacity());
    }

    /// Bytes that the link could have sent since it came up.
    fn offered(&self, now: Instant) -> u64 {
        let passed = self.shaper.offered(now);
        passed.unwrap_or_else(|| self.stats.capacity_bytes(now))
    }

    /// The capacity for the control law, in bytes per second.
    pub fn capacity(&self) -> Option<u64> {
        effective(self.follow.as_deref(), &self.shaper, self.hint)
    }
}

/// The capacity for a control law: the measured one if `follow` is set, otherwise the rate, but
/// at most the hint.
pub(super) fn effective(
    follow: Option<&Follow>,
    shaper: &Shaper,
    hint: Option<u64>,
) -> Option<u64> {
    let rate = follow.map(Follow::rate).or_else(|| shaper.rate());
    match (rate, hint) {
        (Some(rate), Some(hint)) => Some(rate.min(hint)),
        (rate, hint) => rate.or(hint),
    }
}
