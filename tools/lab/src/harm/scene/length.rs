//! The duration of a cell's run, and its cost.

use super::super::axis::Rate;
use super::super::cell::{Cell, Kind};
use super::{LARGE, TINY};

/// Packets of 1500 bytes that a run's fastest link may send, so that a run takes about a second.
const MOST_PACKETS: f64 = 500_000.0;

impl Cell {
    /// Returns the maximum duration of a run, which is long enough for slow laws, but still
    /// affordable.
    pub fn seconds(&self) -> f64 {
        let (rate, _) = self.traffic();
        // Distances that the cell does not have are 0.
        let longest = self.rtt.max(self.then).max(self.near).max(self.far);
        let wanted = match self.kind {
            Kind::Cut => 60.0,
            Kind::Handover | Kind::Rtts => 50.0,
            _ => (30.0 + 60.0 * longest.seconds()).min(60.0),
        };
        let affordable = MOST_PACKETS / rate.packets(1.0);
        (wanted.min(affordable) * 10.0).round() / 10.0
    }

    /// Estimates the packets that enter links in a run, including acknowledgements.
    pub fn packets(&self) -> f64 {
        let (rate, links) = self.traffic();
        1.5 * rate.packets(self.seconds()) * f64::from(links)
    }

    /// Returns the highest rate at which packets may be sent, and the approximate number of links
    /// that packets cross.
    fn traffic(&self) -> (Rate, u32) {
        match self.kind {
            Kind::After | Kind::Both | Kind::Late | Kind::Forged => (self.marked, 2),
            Kind::Before => (self.hidden, 2),
            Kind::Rtts | Kind::Sizes => (self.rate, 2),
            // Each hop carries as much as the first.
            Kind::Lot | Kind::Taper => (self.rate.percent(100 * u64::from(self.hops.0)), 1),
            // The rate of the same number of large packets.
            Kind::Tiny => {
                let tiny = self.share.permille * LARGE / TINY / 10;
                (self.rate.percent(100 + tiny), 1)
            }
            _ => (self.rate, 1),
        }
    }
}
