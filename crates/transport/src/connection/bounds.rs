//! Limits of the sender, and how long each applied.

use pathmark_cc::Limit;

use crate::Instant;
use crate::observe::BoundShares;

/// The current limit of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Application,
    Peer,
    Streams,
    Buffers,
    Window,
    Router,
}

impl Bound {
    /// Maps a controller's limit to the reported one: the window counts as the routers' while they
    /// control it. `opening` is true if the application is waiting to open a stream.
    pub(super) const fn new(limit: Limit, explicit: bool, opening: bool) -> Self {
        match limit {
            Limit::Application if opening => Self::Streams,
            Limit::Application => Self::Application,
            Limit::Peer => Self::Peer,
            Limit::Buffer => Self::Buffers,
            Limit::Window if explicit => Self::Router,
            Limit::Window => Self::Window,
        }
    }
}

fn nanos(now: Instant, since: Instant) -> u64 {
    now.as_nanos().saturating_sub(since.as_nanos())
}

/// Sums the time under each limit.
#[derive(Debug)]
pub(super) struct Bounds {
    current: Bound,
    since: Instant,
    /// In nanoseconds.
    spent: [u64; 6],
}

impl Bounds {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            current: Bound::Application,
            since: now,
            spent: [0; 6],
        }
    }

    /// Sets the limit that applies from `now` on.
    #[inline]
    pub(super) fn set(&mut self, now: Instant, bound: Bound) {
        if bound != self.current {
            self.settle(now);
            self.current = bound;
        }
    }

    fn settle(&mut self, now: Instant) {
        if let Some(spent) = self.spent.get_mut(self.current as usize) {
            *spent = spent.saturating_add(nanos(now, self.since));
        }
        self.since = now;
    }

    /// Returns the shares of the time up to `now`, which are all zero before any time has passed.
    pub(super) fn shares(&self, now: Instant) -> BoundShares {
        let time = |bound: Bound| {
            let mut spent = self.spent.get(bound as usize).copied().unwrap_or_default();
            if bound == self.current {
                spent = spent.saturating_add(nanos(now, self.since));
            }
            spent as f64
        };
        let all = [
            time(Bound::Application),
            time(Bound::Peer),
            time(Bound::Streams),
            time(Bound::Buffers),
            time(Bound::Window),
            time(Bound::Router),
        ];
        let total: f64 = all.iter().sum();
        if total <= 0.0 {
            return BoundShares::default();
        }
        let [application, peer, streams, buffers, window, router] = all.map(|t| t / total);
        BoundShares {
            application,
            peer,
            streams,
            buffers,
            window,
            router,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_time_spent_under_each_bound() {
        let at = Instant::from_millis;
        let mut bounds = Bounds::new(at(0));
        assert_eq!(bounds.shares(at(0)), BoundShares::default());
        bounds.set(at(100), Bound::new(Limit::Window, false, false));
        bounds.set(at(300), Bound::new(Limit::Window, true, true));
        bounds.set(at(350), Bound::new(Limit::Window, true, false));
        bounds.set(at(400), Bound::new(Limit::Peer, true, true));
        bounds.set(at(700), Bound::new(Limit::Application, true, true));
        let shares = bounds.shares(at(1000));
        assert!((shares.application - 0.1).abs() < 1e-9);
        assert!((shares.window - 0.2).abs() < 1e-9);
        assert!((shares.router - 0.1).abs() < 1e-9);
        assert!((shares.peer - 0.3).abs() < 1e-9);
        assert!((shares.streams - 0.3).abs() < 1e-9);
    }
}
