//! The arrival times of a train, from which rates can be derived even if the receiver reads
//! packets late.
//!
//! A packet is never read before it arrives, but it may be read later. For example, a busy router
//! finds several packets at once, a *batch*, and reads them within microseconds.
//! The last packet of a batch was read about when it arrived, whereas those before it were read
//! late. Therefore
//!
//! - a rate is only trusted if it is steady over three pieces of a row of packets. A piece is
//!   one packet if this yields results for most of the train; with coarser times, pieces have
//!   more packets;
//! - a packet arrived early enough that the link could carry the packets behind it by the times
//!   at which these were read;
//! - sending times are those that the sender states. While the sender was held up, the link may
//!   have been idle, and this time does not count.
//!
//! The port's count of its own traffic during a train plays no part in rates. Because a header may
//! cover several packets, and packets that name the upstream router may have taken another path,
//! this count cannot show which bytes the link carried between two packets.
//!
//! Times that are too scattered permit no estimate at all ([`Scattered`]).

use pathmark_cc::Instant;

use crate::message::MOST_PACKETS;

/// Number of fastest rows that are kept.
const FASTEST: usize = 3;
/// A steady rate above this multiple of the whole train's rate belongs to a batch. A packet with
/// others queued behind it takes at most this multiple of its transmission time, because the
/// queue of a full link carries as much foreign traffic.
const MOST_OF_WHOLE: u64 = 2;
/// Two packets belong to one batch if the gap between them is below the train's mean gap divided
/// by this number.
const BATCHED: u64 = 8;
/// Minimum number of packets for a measurement.
const LEAST_PACKETS: usize = 4;

/// A packet of a train that has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) at: Instant,
    /// Its sending time by the sender's clock, ns.
    pub(crate) sent: u64,
    pub(crate) index: u16,
    /// Bytes of the IP packet.
    pub(crate) bytes: u64,
    /// Bytes of own traffic that had arrived by then.
    pub(crate) own: u64,
}

/// The foreign traffic that a train met while it kept the link busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Foreign bytes. Negative because of errors in times, or if counted own traffic did not
    /// cross the link.
    pub(crate) foreign: i128,
    /// The time over which they arrived, ns.
    pub(crate) span: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    number: u32,
    packets: u16,
    arrived: Vec<Arrived>,
    /// Buffer for [`corrected`](Self::correct) times.
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

/// Transmission time of `bytes` on a link of `capacity` bytes per second, ns.
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

/// Bytes that the link carried from the end of the first packet to the end of the last.
fn carried_of(packets: &[Arrived]) -> u64 {
    let first = packets.first().map_or(0, |first| first.bytes);
    bytes_of(packets).saturating_sub(first)
}

impl Arrivals {
    /// Starts another train. Returns true if the previous one lost packets.
    pub(crate) fn begin(&mut self, number: u32, packets: u16) -> bool {
        let lost = self.arrived.len() < usize::from(self.packets);
        (self.number, self.packets) = (number, packets);
        self.arrived.clear();
        lost
    }

    /// Records a packet of train `number`. Packets of earlier trains are ignored.
    pub(crate) fn on_packet(&mut self, number: u32, packet: Arrived) {
        if number == self.number && self.arrived.len() < usize::from(MOST_PACKETS) {
            self.arrived.push(packet);
        }
    }

    /// Returns true if all packets of the latest train have arrived.
    pub(crate) fn is_whole(&self) -> bool {
        self.arrived.len() == usize::from(self.packets)
    }

    /// Bytes per second at which packets left the narrow link one after the other. If a train is
    /// sent as fast as possible, its packets leave the upstream router in a row.
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

    /// The rate of the whole train, from the end of its first batch.
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

    /// Returns the third highest rate of rows with three pieces of equal rate, each of `piece`
    /// packets, or the highest rate if there are fewer rows. `None` if there is no such row, or if
    /// too many pieces of the train were even faster, which is impossible on any link.
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

    /// Corrects late reading: each packet arrived earlier than those behind it by at least their
    /// transmission times.
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

    /// A lower bound for the mean delay of reading packets, ns.
    pub(crate) fn lateness(&mut self, capacity: u64) -> u64 {
        self.correct(capacity);
        let late = self.arrived.iter().zip(&self.corrected);
        let late: u64 = late.map(|(packet, at)| packet.at.as_nanos() - at).sum();
        let count = u64::try_from(self.arrived.len()).unwrap_or(u64::MAX);
        late.checked_div(count).unwrap_or(0)
    }

    /// Minimum bytes of own traffic that were counted between two packets, if any.
    pub(crate) fn least_own(&self) -> Option<u64> {
        let pairs = self.arrived.windows(2).map(|pair| match pair {
            [a, b] => b.own.saturating_sub(a.own),
            _ => 0,
        });
        pairs.filter(|own| *own > 0).min()
    }

    /// Time between the arrivals of the first and the last packet, ns.
    pub(crate) fn took(&self) -> u64 {
        match (self.arrived.first(), self.arrived.last()) {
            (Some(first), Some(last)) => between(first, last),
            _ => 0,
        }
    }

    /// Returns the traffic that the train met while the link was busy. Between the first arrival
    /// and the last, the link carried the train's bytes, own traffic, and foreign traffic. Times
    /// in which the train could not reach it, because the sender was held up, are excluded.
    /// `None` if that is most of the time, or if the train was too fast to meet other traffic.
    /// `own` is the rate of own traffic in bytes per second, if it is counted in lumps.
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
            // While the train arrived at the link.
            Some(rate) => i128::from(rate) * i128::from(span) / 1_000_000_000,
            None => i128::from(last.own.saturating_sub(first.own)),
        };
        Some(Met {
            foreign: carried - i128::from(bytes) - own,
            span,
        })
    }

    /// Total time between the end of each packet on the link and the arrival of the next one
    /// there, ns. The shortest delay is assumed to mean an empty queue.
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

/// The rate of a row of three pieces if they all have about the same rate.
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

/// Number of trains that are looked at, and the index of the one that counts, in ascending order
/// of lateness.
const KEPT: usize = 12;
const COUNTS: usize = 3;
/// Maximum lateness of packets for an estimate, in 10^-3 of the duration of their train.
const MOST: u64 = 45;
/// Lateness below which estimates resume.
const BACK: u64 = 25;
/// Minimum lateness that counts as jitter.
const SOME: u64 = 12;

/// Decides whether arrival times are accurate enough for an estimate.
///
/// If packets are held up at random on their way (jitter), a late packet also delays those behind
/// it, so that they arrive together, faster than the link could carry them. Therefore jitter is
/// visible in the lateness of packets ([`Arrivals::lateness`]). A receiver that is
/// sometimes busy makes some trains inaccurate, whereas jitter affects every train. For this
/// reason, the lowest quartile of the latest trains counts. If even this train is scattered, there
/// is no estimate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scattered {
    /// Lateness of the latest trains, in 10^-3 of their duration.
    trains: [u64; KEPT],
    next: usize,
    is_so: bool,
    is_somewhat: bool,
}

impl Scattered {
    /// Records a train whose packets were `late` ns late on average, and which the link carried
    /// in `took` ns.
    pub(crate) fn note(&mut self, late: u64, took: u64) {
        if let Some(place) = self.trains.get_mut(self.next % KEPT) {
            *place = late.saturating_mul(1000) / took.max(1);
        }
        self.next += 1;
        let mut sorted = self.trains;
        sorted.sort_unstable();
        let counts = sorted.get(COUNTS).copied().unwrap_or(0);
        self.is_somewhat = counts >= SOME;
        self.is_so = if self.is_so {
            counts > BACK
        } else {
            counts > MOST
        };
    }

    /// Returns true if there is jitter.
    pub(crate) const fn somewhat(&self) -> bool {
        self.is_somewhat
    }

    /// Returns true if there must be no estimate.
    pub(crate) const fn is_so(&self) -> bool {
        self.is_so
    }
}
