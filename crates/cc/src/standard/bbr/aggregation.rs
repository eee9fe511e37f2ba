//! Acknowledgements in excess of those that the path's rate explains (draft-ietf-ccwg-bbr,
//! "BBR.extra_acked").

use super::filters::Windowed;
use super::params::EXTRA_ACKED_ROUNDS;
use crate::base::Instant;
use crate::base::arith::{mul_div, ns_since};

/// `BBR.extra_acked`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    since: Instant,
    delivered: u64,
    extra: Windowed,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            delivered: 0,
            extra: Windowed::default(),
        }
    }

    /// Bytes that the window needs in addition to the bandwidth-delay product.
    pub(super) fn extra(&self) -> u64 {
        self.extra.max()
    }

    /// Starts a new measurement, so that idleness does not count as aggregation.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.since = now;
        self.delivered = 0;
    }

    /// Records that `acked` bytes were acknowledged in `round` on a path with `bw` bytes per
    /// second; `steady` is true after Startup.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        acked: u64,
        bw: u64,
        window: u64,
        round: u64,
        steady: bool,
    ) {
        let mut expected = mul_div(bw, ns_since(now, self.since), 1_000_000_000);
        if self.delivered <= expected {
            self.restart(now);
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(acked);
        let extra = self.delivered.saturating_sub(expected).min(window);
        let rounds = if steady { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra.add(round, extra, rounds);
    }
}
