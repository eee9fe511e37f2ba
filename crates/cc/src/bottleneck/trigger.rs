//! Decides which losses are worth a trial.

use super::losses::SLACK_PPM;
use super::losses::{self, LossRecord, Sample};

/// Loss beyond the expected loss, in 10^-6, in `FLOOD_GROUPS` groups with at least `FLOOD_EACH`
/// losses each. It is neither chance nor a burst, so CUBIC takes over without a trial.
const FLOOD_PPM: u64 = 350_000;
const FLOOD_GROUPS: usize = 6;
const FLOOD_EACH: u8 = 4;
/// Numbers of groups to examine, and the number of half standard deviations by which their loss
/// must exceed the limit.
const LOOKS: [(usize, u64); 3] = [(8, 6), (25, 3), (losses::GROUPS, 3)];
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
            let bursts =
                groups < losses::GROUPS && may_be_bursts(seen.ppm(), seen.dispersion, limit);
            let much = seen.ppm() > limit + half_sigmas * seen.sigma_ppm() / 2;
            (much && !bursts).then_some(seen)
        })
}
