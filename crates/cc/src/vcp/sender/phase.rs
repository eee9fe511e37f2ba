//! The time after a cut in which further OVERs are ignored.
//!
//! A cut needs one round trip to reach the router, one interval to be measured and one round trip
//! to return. The sender ignores OVER for an interval (FREEZE) and takes it as HIGH for one round
//! trip more (GRACE).

use crate::base::{Duration, Instant};

/// NORMAL, FREEZE or GRACE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Normal,
    Freeze,
    Grace,
}

/// The time of the last cut, if it still matters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    freeze_until: Option<(Instant, Instant)>,
    /// When the last GRACE ended.
    ended: Option<Instant>,
}

impl Cut {
    /// A cut was made: FREEZE for `t_rho`, GRACE for `srtt` after it.
    pub(crate) fn made(&mut self, now: Instant, t_rho: Duration, srtt: Duration) {
        let thaw = now + t_rho;
        self.freeze_until = Some((thaw, thaw + srtt));
    }

    /// The stage at `now`.
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

    /// True if OVER has gone on since the last cut: its GRACE ended less than `srtt` ago.
    pub(crate) fn goes_on(&self, now: Instant, srtt: Duration) -> bool {
        self.ended.is_some_and(|end| now - end < srtt)
    }

    /// For reports: the stage at the time of the last call of [`stage`](Self::stage).
    pub(crate) const fn is_recent(&self) -> bool {
        self.freeze_until.is_some()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
