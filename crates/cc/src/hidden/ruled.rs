//! While CUBIC rules for a hidden hop: until when.

use super::losses::LossRecord;
use super::tolerance::packets_for;
use crate::arith::mul_div;
use crate::{Duration, Instant};

/// CUBIC hands back after so many round trips with this share more than the largest window at which
/// a loss came; each relapse doubles the time, at most so often.
const LEAVE_ROUNDS: u32 = 20;
const LEAVE_SHARE: (u64, u64) = (5, 4);
const MOST_DOUBLINGS: u32 = 5;
/// … or at a router's OVER, if nothing was lost for so many round trips.
const LOSSLESS_ROUNDS: u32 = 8;
/// CUBIC's own cuts go on testing: below this share of the window before, with so much of the loss
/// before still there, it is random.
const CUT_SHARE: (u64, u64) = (6, 10);
const STILL_SHARE: (u64, u64) = (7, 10);
/// … if so many packets show it; each time twice as many.
const STILL_PACKETS: u64 = 240;

/// What has become of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is still there.
    Stays,
    /// It is gone, or no longer the narrow one.
    Gone,
    /// It was none: so much is lost at any rate, in 10^-6.
    Random(u64),
}

/// What the path shows at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) now: Instant,
    pub(super) srtt: Duration,
    /// CUBIC's window in bytes.
    pub(super) window: u64,
    /// The last time that a router said that its own hop is full.
    pub(super) over: Option<Instant>,
    /// No queue stands.
    pub(super) calm: bool,
    /// One stands, and no router says that it is its own: what is lost beside it is not random.
    pub(super) overflows: bool,
    /// So often CUBIC has ruled before, and its cuts have attested.
    pub(super) relapses: u32,
    pub(super) attested: u32,
    /// The most loss that may be attested, in 10^-6.
    pub(super) most_ppm: u64,
}

/// CUBIC rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    since: Instant,
    /// The window before, in bytes. 0: too small to tell anything about the rate.
    before: u64,
    /// The loss that led here, in 10^-6. 0: it was delay.
    ppm: u64,
    /// The largest window at which a loss came, in bytes. `None`: none came yet.
    largest: Option<u64>,
    /// Since when the window is well above that.
    above: Option<Instant>,
    /// Since when it is well below the window before.
    cut_since: Option<Instant>,
    last_loss: Option<Instant>,
}

impl Ruled {
    /// CUBIC took over at up to `largest` bytes, after a window of `before` bytes and a loss of
    /// `ppm`.
    pub(super) const fn new(now: Instant, before: u64, ppm: u64, largest: u64) -> Self {
        Self {
            since: now,
            before,
            ppm,
            largest: Some(largest),
            above: None,
            cut_since: None,
            last_loss: Some(now),
        }
    }

    /// CUBIC has ruled from the start: TTLs show a hop that writes nothing, and no router has said
    /// yet that its own hop is full.
    pub(super) const fn from_start(now: Instant) -> Self {
        Self {
            since: now,
            before: 0,
            ppm: 0,
            largest: None,
            above: None,
            cut_since: None,
            last_loss: None,
        }
    }

    /// Packets were lost at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        self.last_loss = Some(now);
        self.largest = self.largest.max(Some(window));
        self.above = None;
    }

    /// A round trip, or some packets, later.
    pub(super) fn look(&mut self, look: &Look, record: &mut LossRecord) -> Outcome {
        let Look { now, srtt, .. } = *look;
        let above = |largest| look.window > mul_div(largest, LEAVE_SHARE.0, LEAVE_SHARE.1);
        if self.largest.is_some_and(above) {
            self.above.get_or_insert(now);
        } else {
            self.above = None;
        }
        let relapses = look.relapses.min(MOST_DOUBLINGS);
        let patience = srtt.saturating_mul(LEAVE_ROUNDS << relapses);
        let lossless = srtt.saturating_mul(LOSSLESS_ROUNDS << relapses);
        let room = self.above.is_some_and(|since| now - since >= patience);
        // Before the first loss the first word is enough.
        let calm = self
            .last_loss
            .is_none_or(|at| now - at.max(self.since) >= lossless);
        let bounded = look.over.is_some_and(|at| now - at <= srtt) && calm;
        if (look.calm && room) || bounded {
            return Outcome::Gone;
        }
        self.attest(look, record)
    }

    /// What CUBIC's own cuts show.
    fn attest(&mut self, look: &Look, record: &mut LossRecord) -> Outcome {
        let Look { now, srtt, .. } = *look;
        let cut = look.window < mul_div(self.before, CUT_SHARE.0, CUT_SHARE.1);
        if !cut || self.ppm == 0 || look.overflows {
            self.cut_since = None;
            return Outcome::Stays;
        }
        let since = *self.cut_since.get_or_insert(now);
        if now - since < srtt + srtt {
            record.clear();
            return Outcome::Stays;
        }
        if record.packets() < STILL_PACKETS << look.attested.min(MOST_DOUBLINGS) {
            return Outcome::Stays;
        }
        let still = mul_div(self.ppm, STILL_SHARE.0, STILL_SHARE.1);
        match record.all() {
            Some(seen)
                if (still..=look.most_ppm).contains(&seen.ppm())
                    && seen.packets >= packets_for(seen.ppm()) =>
            {
                Outcome::Random(seen.ppm())
            }
            _ => Outcome::Stays,
        }
    }
}
