//! The time after a cut in which further OVERs are ignored.
//!
//! A cut needs one round trip to reach the router, one interval to be measured, and one round trip
//! to return. The sender ignores OVER for an interval (FREEZE) and treats it as HIGH for another
//! round trip (GRACE).

use crate::base::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Normal,
    Freeze,
    Grace,
}

/// The time of the last cut, while it is relevant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    freeze_until: Option<(Instant, Instant)>,
    /// End of the last GRACE.
    ended: Option<Instant>,
}

impl Cut {
    /// Records a cut: FREEZE for `t_rho`, followed by GRACE for `srtt`.
    pub(crate) fn made(&mut self, now: Instant, t_rho: Duration, srtt: Duration) {
        let thaw = now + t_rho;
        self.freeze_until = Some((thaw, thaw + srtt));
    }

    #[inline]
    pub(crate) fn stage(&mut self, now: Instant) -> Stage {
        match self.freeze_until {
            Some((thaw, _)) if now < thaw => Stage::Freeze,
            Some((_, end)) if now < end => Stage::Grace,
            Some((_, end)) => {
                self.freeze_until = None;
                self.ended = Some(end);
                Stage::Normal
            }
            None => Stage::Normal,
        }
    }

    /// True if OVER has continued since the last cut, whose GRACE ended less than `srtt` ago.
    pub(crate) fn goes_on(&self, now: Instant, srtt: Duration) -> bool {
        self.ended.is_some_and(|end| now - end < srtt)
    }

    /// For reports: whether the stage at the last call of [`stage`](Self::stage) was FREEZE or
    /// GRACE.
    pub(crate) const fn is_recent(&self) -> bool {
        self.freeze_until.is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
