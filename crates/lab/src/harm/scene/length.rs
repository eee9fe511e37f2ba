//! How long a cell runs, and what that costs.

use super::super::axis::{Rate, Time};
use super::super::cell::Cell;
use super::{LARGE, TINY};

/// Packets of 1500 bytes that a run's fastest link may send: what keeps a run about a second long.
const MOST_PACKETS: f64 = 500_000.0;

impl Cell {
    /// How long it runs at most: long enough for laws that take their time, short enough to be
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

    /// Packets that enter links in a run, about, acknowledgements among them.
    pub fn packets(&self) -> f64 {
        let (rate, links) = self.size();
        1.5 * rate.packets(self.seconds()) * f64::from(links)
    }

    /// The fastest rate that packets may be sent at, and the number of links that packets cross,
    /// about.
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
                // As many packets as large ones would be at this rate.
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
