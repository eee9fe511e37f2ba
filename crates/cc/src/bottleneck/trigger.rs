//! When losses are worth a trial.

use super::losses::SLACK_PPM;
use super::losses::{self, LossRecord, Sample};

/// Loss beyond the expected one, in 10^-6, over `FLOOD_GROUPS` groups with some losses in each,
/// that is neither chance nor a burst: CUBIC takes over without a trial.
const FLOOD_PPM: u64 = 350_000;
const FLOOD_GROUPS: usize = 6;
const FLOOD_EACH: u8 = 4;
/// Groups that are looked at, and the standard deviations in halves that the loss must be above the
/// limit by.
const LOOKS: [(usize, u64); 3] = [(8, 6), (25, 3), (losses::GROUPS, 3)];
/// The same where few packets are sent, so that so few groups are several round trips.
const FEW: (usize, u64) = (3, 6);
const FEW_EACH: u8 = 3;
/// From this dispersion on, in sixteenths, losses are bursty …
const BURSTY: u64 = 40;
/// … unless the loss is above this, in 10^-6, which bursts do not reach.
const BURSTS_PPM: u64 = 200_000;

/// Standard deviations that chance does not reach, although each group is another look.
const SURE: u64 = 4;

/// Standard deviations in halves for loss that is more than any trial attests.
const TOO_MUCH: u64 = 5;

/// True if more than `limit` is lost, in 10^-6, and not by chance, however often one looks.
pub(super) fn surely_above(record: &LossRecord, limit: u64) -> bool {
    LOOKS.iter().any(|&(groups, _)| {
        let seen = record.latest(groups);
        seen.is_some_and(|seen| seen.ppm() > limit + SURE * seen.sigma_ppm())
    })
}

/// True if the loss is so far above `most`, in 10^-6, that no trial could attest it.
pub(super) fn is_too_much(seen: &Sample, most: u64) -> bool {
    seen.ppm() > most + SLACK_PPM + TOO_MUCH * seen.sigma_ppm() / 2
}

/// True if a share of losses may be that of bursts above `limit`.
pub(super) const fn may_be_bursts(ppm: u64, dispersion: u64, limit: u64) -> bool {
    dispersion >= BURSTY && is_moderate(ppm, limit)
}

/// True if it is not more above `limit` than bursts bring.
pub(super) const fn is_moderate(ppm: u64, limit: u64) -> bool {
    ppm < limit + BURSTS_PPM
}

/// Loss that no chance and no burst explains, where `expected` is declared or attested, in 10^-6.
pub(super) fn flood(record: &LossRecord, expected: u64) -> Option<Sample> {
    let seen = record.latest(FLOOD_GROUPS)?;
    let each = record.fewest(FLOOD_GROUPS) >= Some(FLOOD_EACH);
    (each && seen.ppm() > expected + FLOOD_PPM).then_some(seen)
}

/// Loss above `limit`, in 10^-6, for certain enough to try; `few` packets may be sent per round
/// trip.
pub(super) fn above(record: &LossRecord, limit: u64, few: bool) -> Option<Sample> {
    let few = few && record.fewest(FEW.0) >= Some(FEW_EACH);
    few.then_some(&FEW)
        .into_iter()
        .chain(&LOOKS)
        .find_map(|&(groups, half_sigmas)| {
            let seen = record.latest(groups)?;
            // A few bursts make a short record look bad.
            let bursts =
                groups < losses::GROUPS && may_be_bursts(seen.ppm(), seen.dispersion, limit);
            let much = seen.ppm() > limit + half_sigmas * seen.sigma_ppm() / 2;
            (much && !bursts).then_some(seen)
        })
}
