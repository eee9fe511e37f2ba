//! How many packets a header may stand for, which is limited by the packets without a header.

use super::params::{COVERED_WINDOW, MOST_COVERS};
use crate::base::Instant;
use crate::signals::{Arrival, Carried};

/// Counts bytes with and without headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    since: Instant,
    all: u64,
    headed: u64,
    most: u16,
}

impl Covered {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            all: 0,
            headed: 0,
            most: MOST_COVERS,
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, now: Instant, arrival: &Arrival) {
        if now - self.since >= COVERED_WINDOW {
            self.turn(now);
        }
        let bytes = u64::from(arrival.bytes);
        self.all = self.all.saturating_add(bytes);
        if let Carried::Xcp(_) = arrival.carried {
            self.headed = self.headed.saturating_add(bytes);
        }
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        if self.headed > 0 {
            let most = self.all.div_ceil(self.headed).min(u64::from(MOST_COVERS));
            self.most = u16::try_from(most).unwrap_or(MOST_COVERS);
        }
        (self.since, self.all, self.headed) = (now, 0, 0);
    }

    /// Number of packets that a header with the field `covers` stands for.
    #[inline]
    pub(crate) fn believed(&self, covers: u16) -> u32 {
        u32::from(covers.clamp(1, self.most))
    }
}
