//! What share of the packets is lost, and how sure that is.
//!
//! Outcomes are gathered in groups of 16 packets, in the order in which they become known. The
//! variance between groups shows how bursty losses are: a share of 5 % in bursts of five is known
//! far less well than in single losses.

use crate::base::arith::{mul_div, saturate};

/// Losses above what is tolerated that are not worth a verdict, in 10^-6.
pub(crate) const SLACK_PPM: u64 = 20_000;

/// Packets of a group.
pub(crate) const GROUP: u8 = 16;
/// Groups that are remembered.
pub(crate) const GROUPS: usize = 64;
/// One, as dispersion is counted.
const ONE: u64 = 16;
/// Dispersion beyond this is not believed: eight times that of single losses.
const MOST_DISPERSION: u64 = 8 * ONE;
/// From this many groups on, old ones count half, so that products of sums never overflow.
const MOST_GROUPS: u64 = 1 << 24;
/// Packets lost at once that are an interruption of the path …
const INTERRUPTION: u64 = 3 * GROUP as u64;
/// … unless the one before was fewer delivered packets ago: a hop that passes few of very many
/// packets does that all the time.
const APART: u64 = 8 * GROUP as u64;

/// Packets looked at, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    /// Variance of the losses per group over that of single independent losses, in sixteenths; 0 if
    /// nothing was looked at.
    pub(crate) dispersion: u64,
}

impl Sample {
    /// Share lost in 10^-6.
    pub(crate) fn ppm(&self) -> u64 {
        mul_div(self.lost, 1_000_000, self.packets)
    }

    /// Standard deviation of the share in 10^-6.
    pub(crate) fn sigma_ppm(&self) -> u64 {
        let p = self.ppm().min(1_000_000);
        let single = p * (1_000_000 - p);
        mul_div(single, self.dispersion.max(ONE), ONE * self.packets.max(1)).isqrt()
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            lost: self.lost + other.lost,
            dispersion: self.dispersion.max(other.dispersion),
        }
    }

    /// True if the share of `self` is above that of `other` by at least `z` standard deviations of
    /// the difference (two-proportion test with the pooled share).
    pub(crate) fn is_above(&self, other: &Self, z: u64) -> bool {
        let pooled = self.and(other);
        let p = pooled.ppm().min(1_000_000);
        let single = mul_div(p * (1_000_000 - p), pooled.dispersion.max(ONE), ONE);
        let variance = single / self.packets.max(1) + single / other.packets.max(1);
        self.ppm() > other.ppm().saturating_add(z * variance.isqrt())
    }
}

/// Groups added up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    groups: u64,
    lost: u64,
    squares: u64,
}

impl Sum {
    fn add(&mut self, lost: u8) {
        let lost = u64::from(lost);
        self.groups += 1;
        self.lost += lost;
        self.squares += lost * lost;
        if self.groups >= MOST_GROUPS {
            self.groups /= 2;
            self.lost /= 2;
            self.squares /= 2;
        }
    }

    fn sample(&self) -> Sample {
        let packets = self.groups * u64::from(GROUP);
        // Variance of a group's losses, m(m − 1) times, over that of a binomial distribution.
        let square = u128::from(self.lost) * u128::from(self.lost);
        let spread = u128::from(self.groups) * u128::from(self.squares);
        // Halves were rounded down.
        let spread = spread.saturating_sub(square);
        let single = mul_div(
            self.lost * (packets - self.lost),
            self.groups.saturating_sub(1),
            packets,
        );
        let dispersion = if single == 0 {
            ONE
        } else {
            mul_div(saturate(spread), ONE, single).clamp(ONE, MOST_DISPERSION)
        };
        Sample {
            packets,
            lost: self.lost,
            dispersion,
        }
    }
}

/// The latest outcomes.
#[derive(Clone, Debug)]
pub(crate) struct LossRecord {
    groups: [u8; GROUPS],
    next: usize,
    filled: usize,
    /// All groups since the record began.
    sum: Sum,
    /// Outcomes of the group that is not complete yet.
    open: u8,
    open_lost: u8,
    /// The group before was lost as a whole.
    interrupted: bool,
    /// Packets delivered since the last interruption.
    delivered: u64,
}

impl Default for LossRecord {
    fn default() -> Self {
        Self {
            groups: [0; GROUPS],
            next: 0,
            filled: 0,
            sum: Sum::default(),
            open: 0,
            open_lost: 0,
            interrupted: false,
            delivered: APART,
        }
    }
}

impl LossRecord {
    /// `packets` were acknowledged. True if a group became complete.
    #[inline]
    pub(crate) fn on_acked(&mut self, packets: u64) -> bool {
        self.delivered = self.delivered.saturating_add(packets);
        let room = u64::from(GROUP - self.open);
        if packets < room {
            self.open += packets as u8;
            return false;
        }
        self.close_acked(packets - room);
        true
    }

    fn close_acked(&mut self, more: u64) {
        self.close();
        for _ in 0..(more / u64::from(GROUP)).min(GROUPS as u64) {
            self.push(0);
        }
        self.open = (more % u64::from(GROUP)) as u8;
    }

    /// `packets` were lost. True if a group became complete.
    pub(crate) fn on_lost(&mut self, packets: u64) -> bool {
        if packets >= INTERRUPTION && self.delivered >= APART {
            self.interrupt();
            return false;
        }
        let mut complete = false;
        for _ in 0..packets.min(u64::from(GROUP) * GROUPS as u64) {
            self.open += 1;
            self.open_lost += 1;
            if self.open >= GROUP {
                self.close();
                complete = true;
            }
        }
        complete
    }

    fn close(&mut self) {
        let lost = core::mem::take(&mut self.open_lost);
        self.open = 0;
        if lost >= GROUP && self.delivered >= APART {
            self.interrupt();
        } else if core::mem::take(&mut self.interrupted) && lost > 0 {
            // The end of the interruption.
        } else {
            self.push(lost);
        }
    }

    /// The path was interrupted: those losses are no evidence of how much it can carry.
    fn interrupt(&mut self) {
        self.open = 0;
        self.open_lost = 0;
        self.delivered = 0;
        if !core::mem::replace(&mut self.interrupted, true) && self.filled > 0 {
            // The group in which it began no longer counts.
            self.next = (self.next + GROUPS - 1) % GROUPS;
            self.filled -= 1;
        }
    }

    fn push(&mut self, lost: u8) {
        self.sum.add(lost);
        if let Some(slot) = self.groups.get_mut(self.next) {
            *slot = lost;
        }
        self.next = (self.next + 1) % GROUPS;
        self.filled = (self.filled + 1).min(GROUPS);
    }

    /// Packets in complete groups since the record began.
    pub(crate) const fn packets(&self) -> u64 {
        self.sum.groups * GROUP as u64
    }

    /// The latest `groups` complete groups. `None`: fewer are complete.
    pub(crate) fn latest(&self, groups: usize) -> Option<Sample> {
        if groups == 0 || groups > self.filled {
            return None;
        }
        let mut sum = Sum::default();
        for back in 1..=groups {
            let index = (self.next + GROUPS - back) % GROUPS;
            sum.add(self.groups.get(index).copied().unwrap_or(0));
        }
        Some(sum.sample())
    }

    /// The latest complete groups, as many as are remembered. `None`: there are none.
    pub(crate) fn recent(&self) -> Option<Sample> {
        self.latest(self.filled)
    }

    /// The fewest losses in any of the latest `groups` complete groups, if that many are complete.
    pub(crate) fn fewest(&self, groups: usize) -> Option<u8> {
        if groups > self.filled {
            return None;
        }
        (1..=groups)
            .filter_map(|back| self.groups.get((self.next + GROUPS - back) % GROUPS))
            .min()
            .copied()
    }

    /// All since the record began. `None`: nothing.
    pub(crate) fn all(&self) -> Option<Sample> {
        (self.sum.groups > 0).then(|| self.sum.sample())
    }

    /// Starts over.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            delivered: self.delivered,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_connection_without_end_stay_within_bounds() {
        let mut sum = Sum::default();
        for n in 0..3 * MOST_GROUPS {
            sum.add((n % 17) as u8);
        }
        assert!(sum.groups < MOST_GROUPS);
        let sample = sum.sample();
        assert!(sample.ppm().abs_diff(500_000) < 1000, "{sample:?}");
        assert_eq!(
            sample.dispersion,
            6 * ONE,
            "24 where independent losses have 4"
        );
    }
}
