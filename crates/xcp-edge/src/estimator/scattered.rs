//! Whether arrival times are accurate enough for an estimate.
//!
//! Where packets are held up at random on their way (jitter), one that came late keeps those behind
//! it back, and they come together, faster than the link can carry them. So the lateness of packets
//! ([`Arrivals::lateness`](super::arrivals)) shows it. A reader who is busy now and then spoils
//! some trains; jitter spoils all of them. So it is the train that is in the lowest quarter of the
//! latest ones which counts: where it is scattered, too, there is no estimate.

/// Trains that are looked at, and which of them counts, the least scattered first.
const KEPT: usize = 12;
const COUNTS: usize = 3;
/// Most lateness of packets for an estimate, in 10^-3 of the time that their train takes.
const MOST: u64 = 45;
/// Lateness at which there are estimates again.
const BACK: u64 = 25;
/// Least lateness that counts as jitter.
const SOME: u64 = 12;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scattered {
    /// Lateness of the latest trains, in 10^-3 of the time that they took.
    trains: [u64; KEPT],
    next: usize,
    is_so: bool,
    is_somewhat: bool,
}

impl Scattered {
    /// A train's packets were `late` ns late on average, and the link carried it in `took` ns.
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

    /// There is jitter.
    pub(crate) const fn somewhat(&self) -> bool {
        self.is_somewhat
    }

    /// There is no estimate.
    pub(crate) const fn is_so(&self) -> bool {
        self.is_so
    }
}
