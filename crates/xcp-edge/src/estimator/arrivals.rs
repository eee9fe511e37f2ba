//! A train as it arrives: what its times say although who reads it may be late.
//!
//! A packet is never read before it came, but it may be read later: a router that is busy with
//! something else finds several packets at once, a *batch*, and reads them within microseconds. The
//! last of a batch was read about when it came, those before it were late. So
//!
//! - a rate is believed only where it is steady: over three pieces of a row of packets. One packet
//!   is a piece if that makes sense of most of the train; where times are coarser, pieces have more
//!   packets;
//! - a packet came no later than the link needed to carry those that came behind it by the time
//!   that these were read;
//! - when packets were sent is as their sender says: where it was held up, the link may have had
//!   nothing to do, and that time does not count.
//!
//! What the port counts for its own traffic meanwhile plays no part in rates. A header may stand
//! for several packets, and what names the upstream router may have come another way: neither says
//! what was on the link between two packets of a train.

use pathmark_cc::Instant;

use crate::message::MOST_PACKETS;

/// Fastest rows that are kept.
const FASTEST: usize = 3;
/// A steady rate above this multiple of the whole train's rate is that of a batch. A packet with
/// others behind it in the queue takes at most this multiple of its own time on the link, for the
/// queue of a full link carries as much foreign traffic.
const MOST_OF_WHOLE: u64 = 2;
/// Two packets are in one batch if the gap between them is below this part of the train's mean gap,
/// as a divisor.
const BATCHED: u64 = 8;
/// Least packets of a train for a measurement.
const LEAST_PACKETS: usize = 4;

/// A packet of a train that has arrived.
#[derive(Clone, Copy, Debug, Default)]
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

/// What a train that kept the link busy met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Foreign bytes; below 0 by the errors of times, and where what was counted for its own
    /// traffic did not cross the link.
    pub(crate) foreign: i128,
    /// The time over which they came, ns.
    pub(crate) span: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    number: u32,
    packets: u16,
    arrived: Vec<Arrived>,
    /// Where [`corrected`](Self::correct) times are put.
    corrected: Vec<u64>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            number: 0,
            packets: 0,
            arrived: Vec::with_capacity(usize::from(MOST_PACKETS)),
            corrected: Vec::with_capacity(usize::from(MOST_PACKETS)),
        }
    }
}

/// Time that a link of `capacity` bytes per second takes for `bytes`, ns.
fn takes(bytes: u64, capacity: u64) -> u64 {
    let took = u128::from(bytes) * 1_000_000_000 / u128::from(capacity.max(1));
    u64::try_from(took).unwrap_or(u64::MAX)
}

fn rate(bytes: u64, took: u64) -> Option<u64> {
    let rate = (u128::from(bytes) * 1_000_000_000).checked_div(took.into())?;
    u64::try_from(rate).ok()
}

fn between(first: &Arrived, last: &Arrived) -> u64 {
    last.at.as_nanos().saturating_sub(first.at.as_nanos())
}

fn bytes_of(packets: &[Arrived]) -> u64 {
    packets.iter().map(|packet| packet.bytes).sum()
}

/// What the link carried of them from the first packet's end to the last one's.
fn carried_of(packets: &[Arrived]) -> u64 {
    let first = packets.first().map_or(0, |first| first.bytes);
    bytes_of(packets).saturating_sub(first)
}

impl Arrivals {
    /// Another train begins. True if the one before it lost packets.
    pub(crate) fn begin(&mut self, number: u32, packets: u16) -> bool {
        let lost = self.arrived.len() < usize::from(self.packets);
        (self.number, self.packets) = (number, packets);
        self.arrived.clear();
        lost
    }

    /// A packet of train `number` came. What is not of the train that began last says nothing.
    pub(crate) fn on_packet(&mut self, number: u32, packet: Arrived) {
        if number == self.number && self.arrived.len() < usize::from(MOST_PACKETS) {
            self.arrived.push(packet);
        }
    }

    /// All packets of the train that began last have come.
    pub(crate) fn is_whole(&self) -> bool {
        self.arrived.len() == usize::from(self.packets)
    }

    /// Bytes per second at which its packets left the narrow link, one after the other. Those of a
    /// train that is sent as fast as it goes leave the router before the cloud in a row.
    pub(crate) fn fastest(&self) -> Option<u64> {
        let whole = self.whole()?;
        let mut piece = 1;
        while 3 * piece < self.arrived.len() {
            if let Some(steady) = self.steady(piece, whole) {
                return Some(steady);
            }
            piece *= 2;
        }
        Some(whole)
    }

    /// The rate of the whole train, from the end of the batch that it begins with.
    fn whole(&self) -> Option<u64> {
        let (first, last) = (self.arrived.first()?, self.arrived.last()?);
        let gaps = u64::try_from(self.arrived.len()).unwrap_or(1).max(2) - 1;
        let least = between(first, last) / gaps / BATCHED;
        let mut pairs = self.arrived.windows(2);
        let begin = pairs.position(|pair| match pair {
            [a, b] => between(a, b) >= least.max(1),
            _ => false,
        })?;
        let rest = self.arrived.get(begin..)?;
        rate(carried_of(rest), between(rest.first()?, last)).filter(|rate| *rate > 0)
    }

    /// The third highest rate of rows of three pieces at the same rate, each of `piece` packets;
    /// the highest where there are fewer. `None` if there is none, or if too many pieces of the
    /// train were faster still, as no link can be.
    fn steady(&self, piece: usize, whole: u64) -> Option<u64> {
        let mut fastest = [0; FASTEST];
        for row in self.arrived.windows(3 * piece + 1) {
            let Some(rate) = even(row, piece) else {
                continue;
            };
            if rate <= whole.saturating_mul(MOST_OF_WHOLE)
                && let Some(slot) = fastest.iter_mut().min().filter(|slot| **slot < rate)
            {
                *slot = rate;
            }
        }
        let least = fastest.iter().copied().min()?;
        let most = fastest.iter().copied().max()?;
        let found = Some(if least > 0 { least } else { most }).filter(|rate| *rate > 0)?;
        let (mut pieces, mut impossible) = (0, 0);
        for part in self.arrived.windows(piece + 1) {
            if let (Some(first), Some(last)) = (part.first(), part.last()) {
                let least = takes(carried_of(part), found) / 4 * 3;
                pieces += 1;
                impossible += u32::from(between(first, last) < least);
            }
        }
        (impossible * 4 <= pieces).then_some(found)
    }

    /// Takes back how late packets were read: each came before those behind it by the time that
    /// the link took for these, at least.
    fn correct(&mut self, capacity: u64) {
        self.corrected.clear();
        let mut behind: Option<(u64, u64)> = None;
        for packet in self.arrived.iter().rev() {
            let at = packet.at.as_nanos();
            let at = behind.map_or(at, |(then, bytes)| {
                at.min(then.saturating_sub(takes(bytes, capacity)))
            });
            self.corrected.push(at);
            behind = Some((at, packet.bytes));
        }
        self.corrected.reverse();
    }

    /// By how much packets were read late on average at least, ns.
    pub(crate) fn lateness(&mut self, capacity: u64) -> u64 {
        self.correct(capacity);
        let late = self.arrived.iter().zip(&self.corrected);
        let late: u64 = late.map(|(packet, at)| packet.at.as_nanos() - at).sum();
        let count = u64::try_from(self.arrived.len()).unwrap_or(u64::MAX);
        late.checked_div(count).unwrap_or(0)
    }

    /// Least bytes of its own traffic that were counted between two packets, if any were.
    pub(crate) fn least_own(&self) -> Option<u64> {
        let pairs = self.arrived.windows(2).map(|pair| match pair {
            [a, b] => b.own.saturating_sub(a.own),
            _ => 0,
        });
        pairs.filter(|own| *own > 0).min()
    }

    /// Time between the first packet's arrival and the last one's, ns.
    pub(crate) fn took(&self) -> u64 {
        match (self.arrived.first(), self.arrived.last()) {
            (Some(first), Some(last)) => between(first, last),
            _ => 0,
        }
    }

    /// What the train met while the link was busy: between the first arrival and the last it
    /// carried the train's bytes, its own traffic's, and the rest. Times in which it had nothing of
    /// the train to carry, for its sender was held up, count for neither. `None` if that is most of
    /// the time, or if the train was too fast to meet anything.
    /// `own` is the rate of its own traffic, bytes per second, if it is counted in lumps.
    pub(crate) fn met(&mut self, capacity: u64, own: Option<u64>) -> Option<Met> {
        self.correct(capacity);
        let (first, last) = (self.arrived.first()?, self.arrived.last()?);
        let bytes = bytes_of(self.arrived.get(1..)?);
        let sent = last.sent.saturating_sub(first.sent);
        if self.arrived.len() < LEAST_PACKETS || takes(bytes, capacity) > sent / 4 * 5 {
            return None;
        }
        let idle = self.idle(capacity);
        let span = sent.checked_sub(idle).filter(|span| *span > sent / 2)?;
        let took = self
            .corrected
            .last()?
            .saturating_sub(*self.corrected.first()?);
        let busy = i128::from(took) - i128::from(idle);
        let carried = i128::from(capacity) * busy / 1_000_000_000;
        let own = match own {
            // While the train came to the link.
            Some(rate) => i128::from(rate) * i128::from(span) / 1_000_000_000,
            None => i128::from(last.own.saturating_sub(first.own)),
        };
        Some(Met {
            foreign: carried - i128::from(bytes) - own,
            span,
        })
    }

    /// Time between the end of a packet on the link and the moment at which the next one came
    /// there, all together, ns. The shortest time on the way stands for an empty queue.
    fn idle(&self, capacity: u64) -> u64 {
        let packets = || self.arrived.iter().zip(&self.corrected);
        let delay = |packet: &Arrived, at: u64| at.wrapping_sub(packet.sent).cast_signed();
        let delays = packets().map(|(packet, at)| delay(packet, *at));
        let Some(shortest) = delays.min() else {
            return 0;
        };
        let gaps = packets().zip(packets().skip(1));
        let gaps = gaps.map(|((_, before), (packet, at))| {
            let waited = delay(packet, *at).saturating_sub(shortest).unsigned_abs();
            let begins = at.saturating_sub(waited);
            let begins = begins.saturating_sub(takes(packet.bytes, capacity));
            begins.saturating_sub(*before)
        });
        gaps.sum()
    }
}

/// Rate of a row of three pieces, if that of each is about the same.
fn even(row: &[Arrived], piece: usize) -> Option<u64> {
    let follows = row.windows(2).all(|pair| match pair {
        [a, b] => a.index + 1 == b.index,
        _ => false,
    });
    if !follows {
        return None;
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for begin in [0, piece, 2 * piece] {
        let part = row.get(begin..=begin + piece)?;
        let rate = rate(carried_of(part), between(part.first()?, part.last()?))?;
        (least, most) = (least.min(rate), most.max(rate));
    }
    if most / 13 > least / 10 {
        return None;
    }
    rate(carried_of(row), between(row.first()?, row.last()?))
}
