//! The share of packets that is lost, and its uncertainty.
//!
//! Outcomes are collected in groups of 16 packets, in the order in which they become known. The
//! variance between groups shows how bursty losses are: a share of 5 % in bursts of five is known
//! much less precisely than one of single losses.

use crate::base::arith::{mul_div, nanos, saturate};
use crate::base::{Duration, Instant};

/// Loss beyond the tolerated loss that isn't worth a verdict, in 10^-6.
pub(crate) const SLACK_PPM: u64 = 20_000;

pub(crate) const GROUP: u8 = 16;
pub(crate) const GROUPS: usize = 64;
/// Unit of dispersion.
const ONE: u64 = 16;
/// Maximum dispersion, which is eight times that of single losses.
const MOST_DISPERSION: u64 = 8 * ONE;
/// Sums are halved when they include this many groups, so that products never overflow.
const MOST_GROUPS: u64 = 1 << 24;
/// This many packets lost at once are an interruption of the path …
const INTERRUPTION: u64 = 3 * GROUP as u64;
/// … unless the previous interruption was fewer delivered packets ago, because a hop that only
/// forwards a small part of very many packets does this all the time.
const APART: u64 = 8 * GROUP as u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    /// Variance of losses per group relative to that of independent single losses, in sixteenths,
    /// or 0 if there's no data.
    pub(crate) dispersion: u64,
}

impl Sample {
    pub(crate) fn ppm(&self) -> u64 {
        mul_div(self.lost, 1_000_000, self.packets)
    }

    pub(crate) fn sigma_ppm(&self) -> u64 {
        let p = self.ppm().min(1_000_000);
        let single = p * (1_000_000 - p);
        mul_div(single, self.dispersion.max(ONE), ONE * self.packets.max(1)).isqrt()
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            lost: self.lost + other.lost,
            dispersion: self.dispersion.max(other.dispersion),
        }
    }

    /// Returns true if the share of `self` exceeds that of `other` by more than `z` standard
    /// deviations of the difference (two-proportion test with the pooled share).
    pub(crate) fn is_above(&self, other: &Self, z: u64) -> bool {
        let pooled = self.and(other);
        let p = pooled.ppm().min(1_000_000);
        let single = mul_div(p * (1_000_000 - p), pooled.dispersion.max(ONE), ONE);
        let variance = single / self.packets.max(1) + single / other.packets.max(1);
        self.ppm() > other.ppm().saturating_add(z * variance.isqrt())
    }
}

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
        // Variance of a group's losses times m(m − 1), divided by that of a binomial distribution.
        let square = u128::from(self.lost) * u128::from(self.lost);
        let spread = u128::from(self.groups) * u128::from(self.squares);
        // Halving rounds down.
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

#[derive(Clone, Debug)]
pub(crate) struct LossRecord {
    groups: [u8; GROUPS],
    next: usize,
    filled: usize,
    /// Sum of all groups since the record began.
    sum: Sum,
    /// Outcomes in the incomplete group.
    open: u8,
    open_lost: u8,
    /// True if the previous group was lost completely.
    interrupted: bool,
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
    /// Handles the acknowledgement of `packets`. Returns true if this completed a group.
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

    /// Handles the loss of `packets`. Returns true if this completed a group.
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
            // The interruption ends here.
        } else {
            self.push(lost);
        }
    }

    /// Handles an interruption of the path, whose losses don't show how much it can carry.
    fn interrupt(&mut self) {
        self.open = 0;
        self.open_lost = 0;
        self.delivered = 0;
        if !core::mem::replace(&mut self.interrupted, true) && self.filled > 0 {
            // Discard the group in which it began.
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

    /// Returns the number of packets in complete groups since the record began.
    pub(crate) const fn packets(&self) -> u64 {
        self.sum.groups * GROUP as u64
    }

    /// Returns the latest `groups` complete groups, or `None` if there are fewer.
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

    /// Returns all remembered groups, or `None` if none is complete.
    pub(crate) fn recent(&self) -> Option<Sample> {
        self.latest(self.filled)
    }

    /// Returns the lowest number of losses in any of the latest `groups` complete groups, or `None`
    /// if there are fewer.
    pub(crate) fn fewest(&self, groups: usize) -> Option<u8> {
        if groups > self.filled {
            return None;
        }
        (1..=groups)
            .filter_map(|back| self.groups.get((self.next + GROUPS - back) % GROUPS))
            .min()
            .copied()
    }

    /// Returns everything since the record began, or `None` if no group is complete.
    pub(crate) fn all(&self) -> Option<Sample> {
        (self.sum.groups > 0).then(|| self.sum.sample())
    }

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
        // 24 where independent losses have 4.
        assert_eq!(sample.dispersion, 6 * ONE);
    }
}

// Random loss, which is either declared by routers or attested by a trial.

/// Undeclared loss above this share, in 10^-6, isn't random. A declaration without attestation
/// covers at most this share.
pub(crate) const MOST_PPM: u64 = 100_000;
/// Above this share, in 10^-6, `MANY_PACKETS` packets are needed to attest loss. If many senders
/// with few packets each overload one hop, the trial of a single sender reduces the load too little
/// to change the loss, which is often about a tenth.
const MODERATE_PPM: u64 = 60_000;
const MANY_PACKETS: u64 = 1200;

/// Returns the number of packets required to attest a loss of `ppm`, in 10^-6.
pub(super) const fn packets_for(ppm: u64) -> u64 {
    if ppm > MODERATE_PPM { MANY_PACKETS } else { 0 }
}

/// Round trips for which an attestation is valid, plus or minus a quarter.
const HOLDS_ROUNDS: u64 = 300;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tolerance {
    declared_ppm: u64,
    attested_ppm: u64,
    until: Option<Instant>,
}

impl Tolerance {
    /// Sets the loss in 10^-6 that routers declare as corruption on the links behind them.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64) {
        self.declared_ppm = ppm.min(1_000_000);
    }

    /// Returns the random loss in 10^-6.
    pub(crate) fn ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm.min(MOST_PPM))
    }

    /// Returns the expected loss in 10^-6. It includes declared loss beyond the maximum tolerated
    /// without attestation, because a trial must examine this loss first.
    pub(crate) fn expected_ppm(&self) -> u64 {
        self.attested_ppm.max(self.declared_ppm)
    }

    #[cfg(test)]
    pub(crate) const fn attested_ppm(&self) -> u64 {
        self.attested_ppm
    }

    pub(super) const fn declared_ppm(&self) -> u64 {
        self.declared_ppm
    }

    /// Returns the attested loss in 10^-6 if it exceeds the declared loss, or 0.
    pub(super) const fn undeclared_ppm(&self) -> u64 {
        if self.attested_ppm > self.declared_ppm.saturating_add(SLACK_PPM) {
            self.attested_ppm
        } else {
            0
        }
    }

    /// Returns the maximum loss in 10^-6 that a trial may attest. A forged declaration has no
    /// effect without a trial.
    pub(crate) fn most_ppm(&self) -> u64 {
        MOST_PPM.max(self.declared_ppm)
    }

    /// Attests a loss of `ppm`, because a trial found it to be independent of the rate. `salt`
    /// spreads the times at which the attestations of different flows end.
    pub(crate) fn attest(&mut self, now: Instant, ppm: u64, srtt: Duration, salt: u64) {
        self.attested_ppm = ppm.min(self.most_ppm());
        let spread = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let rounds = HOLDS_ROUNDS * 3 / 4 + ((HOLDS_ROUNDS / 2 * spread) >> 32);
        self.until = Some(now + Duration::from_nanos(nanos(srtt).saturating_mul(rounds)));
    }

    /// Lowers the attested loss to at most `ppm`.
    pub(crate) fn lower(&mut self, ppm: u64) {
        self.attested_ppm = self.attested_ppm.min(ppm);
    }

    pub(crate) fn age(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
            self.attested_ppm = 0;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.until = None;
        self.attested_ppm = 0;
    }
}

// Decides which losses are worth a trial.

/// Loss beyond the expected loss, in 10^-6, in `FLOOD_GROUPS` groups with at least `FLOOD_EACH`
/// losses each. It is neither chance nor a burst, so CUBIC takes over without a trial.
const FLOOD_PPM: u64 = 350_000;
const FLOOD_GROUPS: usize = 6;
const FLOOD_EACH: u8 = 4;
/// Numbers of groups to examine, and the number of half standard deviations by which their loss
/// must exceed the limit.
const LOOKS: [(usize, u64); 3] = [(8, 6), (25, 3), (GROUPS, 3)];
/// The same if few packets are sent, because even three groups then take several round trips. Each
/// must have at least `FEW_EACH` losses.
const FEW: (usize, u64) = (3, 6);
const FEW_EACH: u8 = 3;
/// Losses with at least this dispersion, in sixteenths, are bursty …
const BURSTY: u64 = 40;
/// … unless they exceed the limit by this, in 10^-6, because bursts don't cause so much loss.
const BURSTS_PPM: u64 = 200_000;

/// Standard deviations that chance doesn't reach, even though each group is another chance.
const SURE: u64 = 4;

/// Half standard deviations for loss that no trial could attest.
const TOO_MUCH: u64 = 5;

/// Returns true if the loss exceeds `limit`, in 10^-6, by more than repeated looks would find by
/// chance.
pub(super) fn surely_above(record: &LossRecord, limit: u64) -> bool {
    LOOKS.iter().any(|&(groups, _)| {
        let seen = record.latest(groups);
        seen.is_some_and(|seen| seen.ppm() > limit + SURE * seen.sigma_ppm())
    })
}

/// Returns true if the loss is so far above `most`, in 10^-6, that no trial could attest it.
pub(super) fn is_too_much(seen: &Sample, most: u64) -> bool {
    seen.ppm() > most + SLACK_PPM + TOO_MUCH * seen.sigma_ppm() / 2
}

/// Returns true if loss above `limit` may be caused by bursts.
pub(super) const fn may_be_bursts(ppm: u64, dispersion: u64, limit: u64) -> bool {
    dispersion >= BURSTY && is_moderate(ppm, limit)
}

/// Returns true if the loss doesn't exceed `limit` by more than bursts can cause.
pub(super) const fn is_moderate(ppm: u64, limit: u64) -> bool {
    ppm < limit + BURSTS_PPM
}

/// Returns loss that neither chance nor bursts explain. `expected` is the declared or attested loss
/// in 10^-6.
pub(super) fn flood(record: &LossRecord, expected: u64) -> Option<Sample> {
    let seen = record.latest(FLOOD_GROUPS)?;
    let each = record.fewest(FLOOD_GROUPS) >= Some(FLOOD_EACH);
    (each && seen.ppm() > expected + FLOOD_PPM).then_some(seen)
}

/// Returns loss that exceeds `limit`, in 10^-6, clearly enough for a trial. `few` is true if few
/// packets are sent per round trip.
pub(super) fn above(record: &LossRecord, limit: u64, few: bool) -> Option<Sample> {
    let few = few && record.fewest(FEW.0) >= Some(FEW_EACH);
    few.then_some(&FEW)
        .into_iter()
        .chain(&LOOKS)
        .find_map(|&(groups, half_sigmas)| {
            let seen = record.latest(groups)?;
            // A few bursts can dominate a short record.
            let bursts = groups < GROUPS && may_be_bursts(seen.ppm(), seen.dispersion, limit);
            let much = seen.ppm() > limit + half_sigmas * seen.sigma_ppm() / 2;
            (much && !bursts).then_some(seen)
        })
}
