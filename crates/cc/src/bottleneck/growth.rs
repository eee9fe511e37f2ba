//! Growth is a trial too: a hop that overflows delivers no more when more is sent.
//!
//! Loss beyond what the routers' declaration alone covers, and within what they declare, is random
//! if half as much again arrives later and no larger share is lost. A starting sender finds that
//! without a trial, which would take eight round trips of a small window, and growth after it.

use super::losses::Sample;
use super::tolerance::{MOST_PPM, packets_for};
use crate::base::ablate::{Mechanism, without};

/// A round trip of fewer packets is ignored.
const LEAST_PACKETS: u64 = 48;
/// Round trips whose arrivals are compared together: a flight may be spread over two.
const ROUNDS: u8 = 2;
/// Factor by which the arrivals must have grown.
const MORE: (u64, u64) = (3, 2);
/// Standard deviations by which no larger share may be lost.
const LIKELY: u64 = 2;

/// Round trips with heavy loss, while more and more arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Packets of the running round trip.
    acked: u32,
    lost: u32,
    /// Losses of the first round trips, and the most of what arrived in one, in bytes per second.
    first: Sample,
    arrived: u64,
    rounds: u8,
}

impl Growth {
    #[inline]
    pub(super) fn on_acked(&mut self, packets: u64) {
        self.acked = add(self.acked, packets);
    }

    pub(super) fn on_lost(&mut self, packets: u64) {
        self.lost = add(self.lost, packets);
    }

    /// A round trip is over, in which `arrived` bytes per second arrived; `dispersion` is that of
    /// losses, in sixteenths. `Some`: the loss at any rate, in 10^-6.
    pub(super) fn turn(&mut self, arrived: u64, dispersion: u64) -> Option<u64> {
        let seen = Sample {
            packets: u64::from(self.acked) + u64::from(self.lost),
            lost: self.lost.into(),
            dispersion,
        };
        (self.acked, self.lost) = (0, 0);
        if seen.packets < LEAST_PACKETS || seen.ppm() <= MOST_PPM {
            self.clear();
            return None;
        }
        if self.rounds < ROUNDS {
            self.rounds += 1;
            self.first = self.first.and(&seen);
            self.arrived = self.arrived.max(arrived);
            return None;
        }
        let both = self.first.and(&seen);
        let more = arrived >= self.arrived / MORE.1 * MORE.0;
        let many = both.packets >= packets_for(both.ppm());
        let random = more && many && !seen.is_above(&self.first, LIKELY);
        (random && !without(Mechanism::Growth)).then(|| both.ppm())
    }

    /// Starts over.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn add(sum: u32, packets: u64) -> u32 {
    sum.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips in which `sent` packets of 1000 bytes are sent and `lost` of them lost, over
    /// 100 ms.
    fn rounds(sent_and_lost: &[(u64, u64)]) -> Option<u64> {
        let mut growth = Growth::default();
        sent_and_lost.iter().find_map(|&(sent, lost)| {
            growth.on_acked(sent - lost);
            growth.on_lost(lost);
            growth.turn((sent - lost) * 10_000, 16)
        })
    }

    #[test]
    fn loss_that_stays_while_more_arrives_is_random() {
        let found = rounds(&[(10, 3), (400, 120), (900, 270), (1800, 540)]);
        assert_eq!(found, Some(300_000));
    }

    /// It takes 280 packets, or 630.
    #[test]
    fn a_hop_that_takes_no_more_is_not_random_loss() {
        assert_eq!(rounds(&[(400, 120), (600, 320), (900, 620)]), None);
        let tenth = rounds(&[(400, 0), (900, 270), (900, 270), (1800, 1170)]);
        assert_eq!(tenth, None);
        assert_eq!(rounds(&[(900, 270); 20]), None, "the rate stays");
    }

    #[test]
    fn a_flight_over_two_round_trips_is_no_growth() {
        assert_eq!(rounds(&[(300, 90), (1500, 450), (1800, 540)]), None);
    }

    #[test]
    fn few_packets_and_little_loss_tell_nothing() {
        assert_eq!(rounds(&[(10, 3), (20, 6), (40, 12), (80, 24)]), None);
        assert_eq!(rounds(&[(400, 36), (900, 81), (1800, 160)]), None);
    }
}
