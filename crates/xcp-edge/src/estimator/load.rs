//! What foreign traffic a train met.
//!
//! Between the arrivals of a train's first packet and its last the narrow link, always busy,
//! carried C · (time between them) bytes: the train's, its own traffic's, and the rest. The rest
//! had arrived at the link while the train did.

use pathmark_cc::Instant;

use super::delay::Full;

/// A train's part in the average.
const WEIGHT: i64 = 12;
/// The part of a time in which the link was full: it is measured over much longer than a train.
const FULL_WEIGHT: i64 = 4;
/// Packets in a row whose arrivals show the capacity.
const ROW: usize = 4;
/// Fastest rows that are kept.
const FASTEST: usize = 3;

/// A packet of a train that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) at: Instant,
    /// By its sender's clock, ns.
    pub(crate) sent: u64,
    pub(crate) index: u16,
    /// Bytes of the IP packet.
    pub(crate) bytes: u64,
    /// What its own traffic had brought by then.
    pub(crate) own: u64,
}

/// A train as it arrives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    number: u32,
    packets: u16,
    came: u16,
    first: Option<Arrived>,
    last: Option<Arrived>,
    /// Bytes behind the first packet.
    bytes: u64,
    /// The latest packets in a row, and how many they are.
    row: [Option<Arrived>; ROW],
    /// The highest rates of rows.
    fastest: [u64; FASTEST],
    foreign: i64,
    samples: u32,
}

impl Load {
    /// Another train begins. True if the one before it lost packets.
    pub(crate) fn begin(&mut self, number: u32, packets: u16) -> bool {
        let lost = self.came < self.packets;
        *self = Self {
            number,
            packets,
            foreign: self.foreign,
            samples: self.samples,
            ..Self::default()
        };
        lost
    }

    pub(crate) fn on_packet(&mut self, number: u32, packet: &Arrived) {
        if number != self.number {
            return;
        }
        self.came += 1;
        match self.last {
            None => self.first = Some(*packet),
            Some(_) => self.bytes += packet.bytes,
        }
        let follows = self.last.is_some_and(|last| last.index + 1 == packet.index);
        self.last = Some(*packet);
        if !follows {
            self.row = [None; ROW];
        }
        self.row.rotate_left(1);
        if let Some(place) = self.row.last_mut() {
            *place = Some(*packet);
        }
        if let [Some(begin), .., Some(end)] = self.row {
            let took = u64::try_from((end.at - begin.at).as_nanos()).unwrap_or(u64::MAX);
            let bytes: u64 = self.row.iter().skip(1).flatten().map(|p| p.bytes).sum();
            let rate = bytes.saturating_mul(1_000_000_000).checked_div(took);
            let rate = rate.unwrap_or(0);
            if let Some(slot) = self.fastest.iter_mut().min().filter(|slot| **slot < rate) {
                *slot = rate;
            }
        }
    }

    /// The third highest rate of packets in a row, bytes per second; the highest of a short train.
    pub(crate) fn fastest(&self) -> Option<u64> {
        let least = self.fastest.iter().copied().min()?;
        let most = self.fastest.iter().copied().max()?;
        Some(if least > 0 { least } else { most }).filter(|rate| *rate > 0)
    }

    /// The average begins anew with the next train.
    pub(crate) const fn forget(&mut self) {
        self.samples = 0;
    }

    /// The train is over.
    pub(crate) fn finish(&mut self, capacity: u64) {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return;
        };
        let sent = i128::from(last.sent.saturating_sub(first.sent));
        let took = i128::try_from((last.at - first.at).as_nanos()).unwrap_or(0);
        let carried = i128::from(capacity) * took / 1_000_000_000;
        let own = i128::from(last.own.saturating_sub(first.own));
        let foreign = carried - i128::from(self.bytes) - own;
        // It was too slow to keep the link busy, or too fast to meet anything.
        let could = i128::from(capacity) * sent / 1_000_000_000;
        let bytes = i128::from(self.bytes);
        if sent <= 0 || could > bytes * 102 / 100 || could < bytes * 80 / 100 {
            return;
        }
        let rate = i64::try_from(foreign * 1_000_000_000 / sent).unwrap_or(0);
        let most = i64::try_from(capacity).unwrap_or(i64::MAX);
        self.samples = self.samples.saturating_add(1);
        let weight = i64::from(self.samples).min(WEIGHT);
        // The average may be a little below nothing, so that it is right on average.
        self.foreign += (rate.min(2 * most) - self.foreign) / weight;
    }

    /// The link was full for a while.
    pub(crate) fn correct(&mut self, capacity: u64, full: &Full) {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX);
        let input = capacity.saturating_sub(full.drain);
        let foreign = input.saturating_sub(full.own).max(0);
        if full.is_new {
            self.foreign += (foreign - self.foreign) / FULL_WEIGHT;
        }
    }

    /// Bytes per second.
    pub(crate) fn foreign(&self) -> i64 {
        self.foreign.max(0)
    }

    /// Trains that were counted.
    pub(crate) const fn samples(&self) -> u32 {
        self.samples
    }
}
