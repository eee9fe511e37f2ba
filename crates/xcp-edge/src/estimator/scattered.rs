//! Decides whether arrival times are accurate enough for an estimate.
//!
//! If packets are held up at random on their way (jitter), a late packet also delays those behind
//! it, so that they arrive together, faster than the link could carry them. Therefore jitter is
//! visible in the lateness of packets ([`Arrivals::lateness`](super::arrivals)). A receiver that is
//! sometimes busy makes some trains inaccurate, whereas jitter affects every train. For this
//! reason, the lowest quartile of the latest trains counts. If even this train is scattered, there
//! is no estimate.

/// Number of trains that are looked at, and the index of the one that counts, in ascending order
/// of lateness.
const KEPT: usize = 12;
const COUNTS: usize = 3;
/// Maximum lateness of packets for an estimate, in 10^-3 of the duration of their train.
const MOST: u64 = 45;
/// Lateness below which estimates resume.
const BACK: u64 = 25;
/// Minimum lateness that counts as jitter.
const SOME: u64 = 12;

#[derive(Clone, Debug, Default)]
pub(crate) struct Scattered {
    /// Lateness of the latest trains, in 10^-3 of their duration.
    trains: [u64; KEPT],
    next: usize,
    is_so: bool,
    is_somewhat: bool,
}

impl Scattered {
    /// Records a train whose packets were `late` ns late on average, and which the link carried
    /// in `took` ns.
    pub(crate) fn note(&mut self, late: u64, took: u64) {
        if let Some(place) = self.trains.get_mut(self.next % KEPT) {
            *place = late.saturating_mul(1000) / took.max(1);
        }
        self.next += 1;
        let mut sorted = self.trains;
        sorted.sort_unstable();
        let counts = sorted.get(COUNTS).copied().unwrap_or(0);
        self.is_somewhat = counts >= SOME;
        self.is_so = if self.is_so {
            counts > BACK
        } else {
            counts > MOST
        };
    }

    /// Returns true if there is jitter.
    pub(crate) const fn somewhat(&self) -> bool {
        self.is_somewhat
    }

    /// Returns true if there must be no estimate.
    pub(crate) const fn is_so(&self) -> bool {
        self.is_so
    }
}
