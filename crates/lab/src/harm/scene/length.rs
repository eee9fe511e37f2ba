//! The duration of a cell's run, and its cost.

use super::super::axis::{Rate, Time};
use super::super::cell::Cell;
use super::{LARGE, TINY};

/// Packets of 1500 bytes that a run's fastest link may send, so that a run takes about a second.
const MOST_PACKETS: f64 = 500_000.0;

impl Cell {
    /// Returns the maximum duration of a run, which is long enough for slow laws, but still
    /// affordable.
    pub fn seconds(&self) -> f64 {
        let (rate, _) = self.size();
        let rtt = self.longest_rtt().seconds();
        let wanted = match self {
            Self::Cut { .. } => 60.0,
            Self::Handover { .. } | Self::Rtts { .. } => 50.0,
            _ => (30.0 + 60.0 * rtt).min(60.0),
        };
        let affordable = MOST_PACKETS / rate.packets(1.0);
        (wanted.min(affordable) * 10.0).round() / 10.0
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let (rate, links) = self.size();
        1.5 * rate.packets(self.seconds()) * f64::from(links)
    }

    /// Returns the highest rate at which packets may be sent, and the approximate number of links
    /// that packets cross.
    fn size(&self) -> (Rate, u32) {
        match *self {
            Self::After { marked, .. }
            | Self::Both { marked, .. }
            | Self::Late { marked, .. }
            | Self::Forged { marked, .. } => (marked, 2),
            Self::Before { hidden, .. } => (hidden, 2),
            Self::Random { rate, .. }
            | Self::Join { rate, .. }
            | Self::Cut { rate, .. }
            | Self::Low { rate, .. }
            | Self::Trace { rate, .. }
            | Self::Handover { rate, .. }
            | Self::Radio { rate, .. }
            | Self::Order { rate, .. }
            | Self::Reorder { rate, .. }
            | Self::Short { rate, .. }
            | Self::Step { rate, .. }
            | Self::Many { rate, .. }
            | Self::Mice { rate, .. }
            | Self::Ports { rate, .. }
            | Self::Mixed { rate, .. } => (rate, 1),
            Self::Tiny { rate, share, .. } => {
                // The rate of the same number of large packets.
                let tiny = u64::from(share.permille) * LARGE / TINY / 10;
                (rate.percent(100 + tiny), 1)
            }
            Self::Lot { rate, hops, .. } | Self::Taper { rate, hops, .. } => {
                // Each hop carries as much as the first.
                let all = rate.percent(100 * u64::from(hops.0));
                (all, 1)
            }
            Self::Rtts { rate, .. } | Self::Sizes { rate, .. } => (rate, 2),
        }
    }

    fn longest_rtt(&self) -> Time {
        match *self {
            Self::After { rtt, .. }
            | Self::Before { rtt, .. }
            | Self::Random { rtt, .. }
            | Self::Both { rtt, .. }
            | Self::Late { rtt, .. }
            | Self::Forged { rtt, .. }
            | Self::Join { rtt, .. }
            | Self::Cut { rtt, .. }
            | Self::Low { rtt, .. }
            | Self::Trace { rtt, .. }
            | Self::Handover { rtt, .. }
            | Self::Radio { rtt, .. }
            | Self::Lot { rtt, .. }
            | Self::Taper { rtt, .. }
            | Self::Order { rtt, .. }
            | Self::Reorder { rtt, .. }
            | Self::Short { rtt, .. }
            | Self::Many { rtt, .. }
            | Self::Mice { rtt, .. }
            | Self::Ports { rtt, .. }
            | Self::Mixed { rtt, .. }
            | Self::Tiny { rtt, .. } => rtt,
            Self::Step { rtt, then, .. } => rtt.max(then),
            Self::Rtts { near, far, .. } | Self::Sizes { near, far, .. } => near.max(far),
        }
    }
}
