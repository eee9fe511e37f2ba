//! Bytes acknowledged per round trip, which the path has shown it can carry.

use crate::base::arith::{nanos, ns_since};
use crate::base::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    since: Instant,
    current: u64,
    last_round: u64,
}

impl Delivered {
    #[inline]
    pub(crate) fn on_ack(&mut self, now: Instant, srtt: Duration, bytes: u64) {
        if ns_since(now, self.since) >= nanos(srtt) {
            self.last_round = self.current;
            self.current = 0;
            self.since = now;
        }
        self.current = self.current.saturating_add(bytes);
    }

    /// The larger number of bytes of the last round trip with acknowledgements and of the current
    /// one.
    pub(crate) fn per_round(&self) -> u64 {
        self.last_round.max(self.current)
    }
}
