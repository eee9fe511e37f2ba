//! The worth of a class, as a number of flows.
//!
//! The worth is (Σb)² / Σb² over the bytes b of each flow, averaged over seconds. For n flows of
//! equal rate, it is n. Forging flows only increases the worth by the bytes that these flows send,
//! for three reasons: small flows hardly count; all flows that do not last from one epoch to the
//! next count together as one; and flows that lose too many packets also count as one, because they
//! do not react to losses. If a class loses many packets, bytes above a fair share of those that
//! pass do not count, and are considered the flow's losses.

use pathmark_cc::Instant;

use super::unresponsive::fair_share;
use super::{Class, Flows, ONE_FLOW_Q8, SEEN_ONCE, lately};

/// Shares are in 2^-16.
pub(crate) const WHOLE_Q16: u64 = 1 << 16;
/// Regardless of the number of flows in one class, the other has a share of at least 1/33.
const LEAST_SHARE_Q16: u64 = WHOLE_Q16 / 33;
/// A flow that loses more than the first fraction of its bytes is worth less. Those that lose
/// more than the second count as one flow together, because they ignore losses. In 2^-16.
const LOSSES_Q16: (u64, u64) = (1 << 13, 1 << 14);
/// The same fractions for flows with feedback.
const HEARD_LOSSES_Q16: (u64, u64) = (1 << 14, 1 << 15);
/// Flows with feedback lose much if each has only a packet or two in flight and cannot send
/// less. If they were worth less because of this, they would lose even more. Therefore losses do
/// not count if the mean flow of the class has at most the first number of bytes in a round
/// trip, and count fully from the second. Flows that do not obey and take others' shares are set
/// aside instead.
const SMALL_WINDOWS: (u64, u64) = (4 * 1500, 8 * 1500);

/// Worth of the classes in flows, in 2^-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Worth {
    pub(crate) heard_q8: u64,
    pub(crate) foreign_q8: u64,
}

impl Default for Worth {
    fn default() -> Self {
        Self {
            heard_q8: ONE_FLOW_Q8,
            foreign_q8: ONE_FLOW_Q8,
        }
    }
}

impl Worth {
    /// The first class's share of the link, in 2^-16.
    pub(crate) fn share_q16(self) -> u64 {
        let Self {
            heard_q8,
            foreign_q8,
        } = self;
        let share = heard_q8 * WHOLE_Q16 / (heard_q8 + foreign_q8);
        share.clamp(LEAST_SHARE_Q16, WHOLE_Q16 - LEAST_SHARE_Q16)
    }
}

/// Sums over the lasting flows of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    bytes: u64,
    squares: u128,
}

impl Sums {
    fn add(&mut self, mean: u64) {
        self.bytes += mean;
        self.squares += u128::from(mean) * u128::from(mean);
    }

    /// (Σb)² / Σb², in 2^-8.
    pub(super) fn flows_q8(&self) -> u64 {
        let square = u128::from(self.bytes) * u128::from(self.bytes);
        let flows = (square << 8).checked_div(self.squares).unwrap_or(0);
        u64::try_from(flows).unwrap_or(u64::MAX).max(ONE_FLOW_Q8)
    }

    /// Weight of losses, according to these flows' bytes per round trip; epoch and `round_trip`
    /// in ns.
    fn blame_q8(&self, epoch: u64, round_trip: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(ONE_FLOW_Q8) * u128::from(round_trip);
        let flows = u128::from(self.flows_q8()) * u128::from(epoch.max(1));
        let window = u64::try_from(bytes / flows).unwrap_or(u64::MAX);
        let (small, large) = SMALL_WINDOWS;
        (window.clamp(small, large) - small) * ONE_FLOW_Q8 / (large - small)
    }
}

impl FromIterator<u64> for Sums {
    fn from_iter<I: IntoIterator<Item = u64>>(means: I) -> Self {
        let mut sums = Self::default();
        for mean in means {
            sums.add(mean);
        }
        sums
    }
}

impl Flows {
    /// Bytes per epoch of a class's lasting flows, excluding those set aside.
    pub(super) fn lasting(&self, now: Instant, heard: bool) -> impl Iterator<Item = u64> {
        let sets = self.sets.iter().zip(&self.epochs).enumerate();
        sets.flat_map(move |(index, (set, seen))| {
            let flows = set.mean.iter().zip(&set.heard_ms).zip(seen).enumerate();
            flows.filter_map(move |(way, ((mean, heard_ms), seen))| {
                let own = lately(now, *heard_ms) == heard && *seen > SEEN_ONCE;
                (own && !(heard && self.watch.is_aside(index, way, *seen)))
                    .then_some(u64::from(*mean))
            })
        })
    }

    /// The worth of a class, in 2^-8 flows, whose lasting flows have the sums `sums` in an epoch
    /// of this many ns.
    pub(super) fn worth(&self, now: Instant, heard: bool, sums: &Sums, epoch: u64) -> u64 {
        let Class {
            mean, mean_dropped, ..
        } = if heard { self.heard } else { self.foreign };
        let (lossy, _) = losses_of(heard);
        let all = mean.max(sums.bytes).max(1);
        let part = |of: u64| u64::try_from((u128::from(of) << 16) / u128::from(all)).unwrap_or(0);
        let counts_q8 = if heard {
            sums.blame_q8(epoch, self.watch.round_trip_nanos())
        } else {
            ONE_FLOW_Q8
        };
        let flows_q8 = if part(mean_dropped) > lossy && counts_q8 > 0 {
            let share = fair_share(all.saturating_sub(mean_dropped), || {
                let rest = all - sums.bytes;
                self.lasting(now, heard).chain([rest])
            });
            self.passing(now, heard, share.max(1), counts_q8)
        } else {
            sums.flows_q8()
        };
        // Bytes of flows that do not last count as one flow.
        ONE_FLOW_Q8 + ((flows_q8.saturating_sub(ONE_FLOW_Q8) * part(sums.bytes)) >> 16)
    }

    /// Number of flows, in 2^-8, that the lasting flows of a class count as if at most `share`
    /// bytes of each pass, and losses have the weight `counts_q8`.
    fn passing(&self, now: Instant, heard: bool, share: u64, counts_q8: u64) -> u64 {
        let (lossy, ruined) = losses_of(heard);
        let (mut passing, mut blamed) = (Sums::default(), 0u128);
        for bytes in self.lasting(now, heard) {
            let passes = bytes.min(share);
            passing.add(passes);
            let lost = ((bytes - passes) << 16).checked_div(bytes).unwrap_or(0);
            let lost = lost.clamp(lossy, ruined) - lossy;
            blamed += u128::from(lost) * u128::from(passes);
        }
        let blamed = blamed * u128::from(counts_q8) / u128::from(ruined - lossy);
        let blamed_q8 = u64::try_from(blamed / u128::from(share)).unwrap_or(u64::MAX);
        let once = blamed_q8.min(ONE_FLOW_Q8);
        passing.flows_q8().saturating_sub(blamed_q8) + once
    }
}

const fn losses_of(heard: bool) -> (u64, u64) {
    if heard { HEARD_LOSSES_Q16 } else { LOSSES_Q16 }
}
