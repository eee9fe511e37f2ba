//! Loss below what begins a trial by itself: does it come with the rate?
//!
//! A hop that is narrower by a few percent drops few packets of a sender that fills its marked hop
//! now and then, and many of the others there. So losses are added up for round trips in which more
//! was sent than usual, and for those in which less was.

use super::losses::Sample;
use crate::base::ablate::{Mechanism, without};

/// Packets of each kind before they are compared, and those after which old ones count half.
const LEAST_PACKETS: u64 = 2000;
const MOST_PACKETS: u64 = 16_000;
/// A round trip differs if this part more or less than usual was sent.
const APART: u64 = 64;
/// Standard deviations, since they are compared each round trip; and less loss than this, in 10^-6,
/// is no reason.
const SURE: u64 = 4;
const LEAST_PPM: u64 = 3_000;
/// The same where TTLs show a hop that writes nothing.
const PARTLY_SURE: u64 = 3;
const PARTLY_LEAST_PPM: u64 = 1_000;
/// Weight of a round trip in what is usual.
const USUAL: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    packets: u64,
    lost: u64,
}

impl Phase {
    fn add(&mut self, packets: u64, lost: u64) {
        self.packets += packets;
        self.lost += lost;
        if self.packets > MOST_PACKETS {
            self.packets /= 2;
            self.lost /= 2;
        }
    }

    const fn sample(self, dispersion: u64) -> Sample {
        Sample {
            packets: self.packets,
            lost: self.lost,
            dispersion,
        }
    }
}

/// Losses at higher and at lower rates.
#[derive(Clone, Debug, Default)]
pub(super) struct Phases {
    /// Packets of the running round trip.
    acked: u64,
    lost: u64,
    /// Packets of a usual one, 16 times.
    usual: u64,
    high: Phase,
    low: Phase,
}

impl Phases {
    #[inline]
    pub(super) fn on_acked(&mut self, packets: u64) {
        self.acked = self.acked.saturating_add(packets).min(1 << 32);
    }

    pub(super) fn on_lost(&mut self, packets: u64) {
        self.lost = self.lost.saturating_add(packets).min(1 << 32);
    }

    /// A round trip is over. `Some`: the losses at higher rates, if they come with the rate.
    /// `dispersion` is that of losses, in sixteenths; `partly` if TTLs show a hop that writes
    /// nothing.
    pub(super) fn turn(&mut self, dispersion: u64, partly: bool) -> Option<Sample> {
        let (acked, lost) = (
            core::mem::take(&mut self.acked),
            core::mem::take(&mut self.lost),
        );
        let sent = acked + lost;
        if self.usual == 0 {
            self.usual = sent * USUAL;
        }
        let usual = self.usual / USUAL;
        self.usual = self.usual - usual + sent;
        if sent > usual + usual / APART {
            self.high.add(sent, lost);
        } else if sent + usual / APART < usual {
            self.low.add(sent, lost);
        }
        let (high, low) = (self.high.sample(dispersion), self.low.sample(dispersion));
        let (sure, least) = if partly {
            (PARTLY_SURE, PARTLY_LEAST_PPM)
        } else {
            (SURE, LEAST_PPM)
        };
        let enough = high.packets.min(low.packets) >= LEAST_PACKETS && high.ppm() >= least;
        (enough && high.is_above(&low, sure) && !without(Mechanism::Phases)).then_some(high)
    }

    /// Starts over.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 100 packets, give or take five, until losses are found to come with the rate.
    fn rounds(lost: impl Fn(u64, u64) -> u64) -> Option<u64> {
        let mut phases = Phases::default();
        (0..2000).find(|round| {
            let sent = 95 + round * 7 % 11;
            let lost = lost(*round, sent);
            phases.on_acked(sent - lost);
            phases.on_lost(lost);
            phases.turn(16, false).is_some()
        })
    }

    #[test]
    fn losses_that_come_with_the_rate_are_told_from_others() {
        let hop = rounds(|_, sent| sent.saturating_sub(102));
        assert!(hop.is_some_and(|round| round < 200), "{hop:?}");
        assert_eq!(rounds(|round, _| u64::from(round % 2 == 0)), None, "random");
        assert_eq!(rounds(|_, _| 0), None);
    }
}
