//! While CUBIC rules because TTLs show a hop that writes nothing: are its losses random?
//!
//! A hop that overflows drops the excess, so CUBIC's first cuts end its losses until the window has
//! come back; random loss goes on. So the loss of small windows is compared with the loss before
//! the cuts. Losses while a queue stands prove nothing.

use super::look::{Look, Outcome};
use super::losses::{LossRecord, Sample};
use crate::base::Instant;
use crate::base::arith::mul_div;

/// Windows below this share of the largest one at which a loss came are small.
const SMALL: (u64, u64) = (6, 10);
/// Round trips after which the losses of packets sent at a larger window are known.
const SETTLE_ROUNDS: u32 = 2;
/// Losses of small windows that give their share within a third.
const LOSSES: u64 = 8;
/// The share before was higher if it is above that by this many standard deviations. The share
/// itself must be this many standard deviations below [`MOST_PPM`].
const LIKELY: u64 = 2;
/// A higher loss, in 10^-6, does not count as random: where several flows share a narrow hop,
/// windows of 7 packets and less (w² = 1.5 / p) show it too.
const MOST_PPM: u64 = 30_000;

/// What CUBIC's losses have shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfCutTest {
    /// The largest window at which a loss came, in bytes.
    largest: u64,
    /// What was lost until the window was small.
    first: Option<Sample>,
    /// Losses of small windows, without the current period of them.
    small: Sample,
    /// Since when the window is small.
    since: Option<Instant>,
}

impl SelfCutTest {
    /// Nothing was lost yet.
    pub(super) const NEW: Self = Self {
        largest: 0,
        first: None,
        small: Sample::NONE,
        since: None,
    };

    /// Packets were lost at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, window: u64) {
        if window > self.largest {
            *self = Self {
                largest: window,
                ..Self::NEW
            };
        }
    }

    /// A round trip, or some packets, later: whether losses are random.
    pub(super) fn attest(&mut self, look: &Look, record: &mut LossRecord) -> Outcome {
        let Look { now, srtt, .. } = *look;
        if look.leans || !look.calm {
            self.small = Sample::NONE;
            self.since = None;
            return Outcome::Stays;
        }
        let settled = srtt.saturating_mul(SETTLE_ROUNDS);
        if look.window >= mul_div(self.largest, SMALL.0, SMALL.1) {
            // CUBIC comes back to larger windows now and then.
            if self
                .since
                .take()
                .is_some_and(|since| now - since >= settled)
                && let Some(seen) = record.all()
            {
                self.small = self.small.and(&seen);
            }
            return Outcome::Stays;
        }
        let first = match self.first {
            Some(first) => first,
            None => match record.recent().filter(|seen| seen.lost > 0) {
                Some(seen) => *self.first.insert(seen.as_single()),
                None => return Outcome::Stays,
            },
        };
        if now - *self.since.get_or_insert(now) < settled {
            record.clear();
            return Outcome::Stays;
        }
        let seen = record.all().unwrap_or(Sample::NONE).and(&self.small);
        let ppm = seen.ppm();
        let much = ppm + LIKELY * seen.sigma_ppm() > MOST_PPM;
        if seen.lost < LOSSES || much || first.is_above(&seen.as_single(), LIKELY) {
            return Outcome::Stays;
        }
        Outcome::Random(ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::ruled::Ruled;
    use crate::testing::ms;

    const MTU: u64 = 1500;

    /// A random number (splitmix64).
    fn draw(number: u64) -> u64 {
        let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The result of a doubt. `lost` gives how many packets of a window a hop drops, by the round
    /// trip and the window; one packet in `random` is lost anyway. CUBIC doubles its window until
    /// the first loss, shrinks by three tenths and grows by a packet per two round trips.
    fn doubted(calm: bool, random: u64, lost: fn(u64, u64) -> u64) -> Option<(u64, u64)> {
        let srtt = ms(40);
        let mut ruled = Ruled::from_start();
        let mut record = LossRecord::default();
        let (mut window, mut number, mut starts) = (20, 0u64, true);
        for round in 1..2000u64 {
            let now = Instant::ZERO + srtt * u32::try_from(round).unwrap();
            let packets = window / 2;
            let dropped = lost(round, packets);
            let mut cut = false;
            for n in 0..packets {
                number += 1;
                let hit = random > 0 && draw(number).is_multiple_of(random);
                if hit || n + dropped >= packets {
                    record.on_lost(1);
                    ruled.on_loss(now, window / 2 * MTU);
                    cut = true;
                } else {
                    record.on_acked(1);
                }
            }
            starts &= !cut;
            window = match (cut, starts) {
                (true, _) => (window * 7 / 10).max(10),
                (_, true) => (window * 2).min(2000),
                _ => window + 1,
            };
            let look = Look::quiet(now, srtt, window / 2 * MTU, calm);
            match ruled.look(&look, &mut record) {
                Outcome::Stays => {}
                Outcome::Gone => return None,
                Outcome::Random(ppm) => return Some((round, ppm)),
            }
        }
        None
    }

    #[test]
    fn random_loss_ends_a_doubt_soon_after_cubics_first_cuts() {
        for random in [50, 100, 200, 500] {
            let (rounds, ppm) = doubted(true, random, |_, _| 0).unwrap();
            assert!(rounds <= 400, "1 in {random}: {rounds}");
            let off = ppm.abs_diff(1_000_000 / random);
            assert!(off <= 600_000 / random, "1 in {random}: {ppm}");
        }
    }

    #[test]
    fn a_doubt_stays_where_a_hop_is_full_and_where_a_queue_stands() {
        assert_eq!(doubted(true, 0, |_, sent| sent.saturating_sub(60)), None);
        // A start fills a buffer of half as much, and others take half from then on.
        let shared = |round, sent: u64| sent.saturating_sub(if round < 30 { 90 } else { 45 });
        assert_eq!(doubted(true, 0, shared), None);
        assert_eq!(
            doubted(true, 0, |_, sent| sent / 8),
            None,
            "more than is random"
        );
        assert_eq!(doubted(true, 0, |_, _| 0), None);
        assert_eq!(doubted(false, 100, |_, _| 0), None);
    }
}
