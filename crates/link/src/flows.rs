//! The flows of a separated port: whether they carry feedback, and how many are active in each
//! class.
//!
//! A sender may put requests into only some of its packets. Because these packets must not be
//! reordered with the others, a flow stays in one queue: the queue of feedback as long as some of
//! the flow's packets carry feedback.

mod sparse;
mod unresponsive;
mod worth;

use pathmark_cc::{Arrival, Instant};

use sparse::{PLACELESS, Sparse};
pub(super) use unresponsive::{Look, Watch};
use worth::Sums;
pub(super) use worth::{WHOLE_Q16, Worth};

/// Sets of the table; a power of two.
const SETS: usize = 1 << SET_BITS;
const SET_BITS: u32 = 9;
/// Flows per set.
const WAYS: usize = 4;
/// A flow becomes foreign after this time without feedback. Senders send a request at least once
/// per round trip.
const MEMORY_MS: u32 = 5_000;
/// Bytes are counted per epoch. It lasts this long, or the time of this many bytes if that is
/// longer, but at most `LONGEST_EPOCH_NANOS`.
const EPOCH_NANOS: u64 = 200_000_000;
const EPOCH_BYTES: u64 = 64 * 1500;
const LONGEST_EPOCH_NANOS: u64 = 2_000_000_000;
/// A new epoch's weight in averages is 1/8, so that they cover about 1.6 s.
const PART: u64 = 8;
/// Epochs without any packet after which all flows are forgotten.
const FORGOTTEN_AFTER: u64 = 32;
/// If all flows of a set are active, one in this many packets of other flows replaces a flow
/// that was seen in only one epoch. A flow of many packets thus soon gets a place, but a single
/// packet rarely does.
const CLAIM_EVERY: u8 = 8;
/// Maximum value in [`Flows::epochs`] for a flow that was seen in only one epoch.
const SEEN_ONCE: u8 = 2;
/// A flow with fewer bytes per epoch gives up its place.
const FADED: u32 = 64;
/// One flow, in 2^-8.
pub(super) const ONE_FLOW_Q8: u64 = 1 << 8;

/// Four flows, which fill one cache line of the processor.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    flow_hash: [u32; WAYS],
    /// Bytes in the current epoch.
    bytes: [u32; WAYS],
    /// Bytes per epoch, averaged.
    mean: [u32; WAYS],
    /// When the flow last carried feedback, in ms and never 0; 0: not recently.
    heard_ms: [u32; WAYS],
}

/// The flows of both classes, in a table of fixed size (62 KiB) indexed by flow hash.
#[derive(Debug)]
pub(super) struct Flows {
    sets: Box<[Set]>,
    /// Number of epochs in which each flow was seen, plus one, at most 255; 0: a free place.
    epochs: Box<[[u8; WAYS]]>,
    started: Instant,
    claims: u8,
    heard: Class,
    foreign: Class,
    /// Detects flows that keep sending too much.
    pub(super) watch: Watch,
    /// Detects flows that send little.
    sparse: Sparse,
    /// The place of the last packet's flow. For a flow without a place: its set and
    /// [`PLACELESS`].
    noted: Place,
}

/// Bytes of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Bytes that arrived, were dropped, and were sent in the current epoch. Sent bytes include
    /// flows that are set aside.
    bytes: u64,
    dropped: u64,
    sent: u64,
    /// Averages per epoch.
    mean: u64,
    mean_dropped: u64,
    mean_sent: u64,
}

/// A flow's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    set: usize,
    way: usize,
}

/// The class of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a flow with feedback.
    Heard,
    /// Of any other flow.
    Foreign,
    /// Of a flow that carries feedback but is set aside.
    Aside,
}

fn millis(now: Instant) -> u32 {
    // Only the low bits are compared, which wrap around after 52 days.
    ((now.as_nanos() >> 20) as u32).max(1)
}

fn set_of(flow_hash: u32) -> usize {
    // Some bits of the hash may be weak, so all are folded in.
    (flow_hash.wrapping_mul(0x9E37_79B1) >> (32 - SET_BITS)) as usize
}

impl Flows {
    pub(super) fn new() -> Self {
        Self {
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            epochs: vec![[0; WAYS]; SETS].into_boxed_slice(),
            started: Instant::ZERO,
            claims: 0,
            heard: Class::default(),
            foreign: Class::default(),
            watch: Watch::new(SETS),
            sparse: Sparse::new(),
            noted: Place {
                set: 0,
                way: PLACELESS,
            },
        }
    }

    fn find(&self, flow_hash: u32) -> Option<Place> {
        let set = set_of(flow_hash);
        let tags = &self.sets.get(set)?.flow_hash;
        let way = tags.iter().position(|tag| *tag == flow_hash)?;
        (*self.epochs.get(set)?.get(way)? > 0).then_some(Place { set, way })
    }

    /// Finds a place for a new flow: a free one, or occasionally that of a flow seen in only one
    /// epoch.
    #[cold]
    fn claim(&mut self, flow_hash: u32) -> Option<Place> {
        let set = set_of(flow_hash);
        let (flows, epochs) = (self.sets.get_mut(set)?, self.epochs.get_mut(set)?);
        let way = match epochs.iter().position(|seen| *seen == 0) {
            Some(free) => free,
            None => {
                self.claims = self.claims.wrapping_add(1);
                if !self.claims.is_multiple_of(CLAIM_EVERY) {
                    return None;
                }
                let once = |way: &usize| epochs.get(*way).is_some_and(|seen| *seen <= SEEN_ONCE);
                (0..WAYS)
                    .filter(once)
                    .min_by_key(|way| flows.bytes.get(*way).copied())?
            }
        };
        *epochs.get_mut(way)? = 1;
        *flows.flow_hash.get_mut(way)? = flow_hash;
        *flows.bytes.get_mut(way)? = 0;
        *flows.mean.get_mut(way)? = 0;
        *flows.heard_ms.get_mut(way)? = 0;
        let place = Place { set, way };
        self.watch.forget(place);
        self.sparse.release(place);
        Some(place)
    }

    /// Records an arriving packet, and returns its class.
    #[inline]
    pub(super) fn note(&mut self, now: Instant, arrival: &Arrival) -> Kind {
        let carries = arrival.carried.is_feedback();
        let place = self
            .find(arrival.flow_hash)
            .or_else(|| self.claim(arrival.flow_hash));
        self.noted = place.unwrap_or_else(|| Place {
            set: set_of(arrival.flow_hash),
            way: PLACELESS,
        });
        let mut heard = carries;
        if let Some(Place { set, way }) = place
            && let Some(set) = self.sets.get_mut(set)
            && let (Some(bytes), Some(heard_ms)) =
                (set.bytes.get_mut(way), set.heard_ms.get_mut(way))
        {
            *bytes = bytes.saturating_add(arrival.bytes);
            if carries {
                *heard_ms = millis(now);
            } else {
                heard = lately(now, *heard_ms);
            }
        }
        if heard && self.watch.acts() && self.is_aside(place) {
            return Kind::Aside;
        }
        let class = self.class(heard);
        class.bytes = class.bytes.saturating_add(u64::from(arrival.bytes));
        if heard { Kind::Heard } else { Kind::Foreign }
    }

    /// Whether this packet carries feedback or other packets of its flow recently did, unless
    /// the flow is set aside.
    pub(super) fn knows(&self, now: Instant, arrival: &Arrival) -> bool {
        if self.watch.acts() && self.is_aside(self.find(arrival.flow_hash)) {
            return false;
        }
        arrival.carried.is_feedback()
            || self
                .find(arrival.flow_hash)
                .and_then(|place| self.sets.get(place.set)?.heard_ms.get(place.way).copied())
                .is_some_and(|heard_ms| lately(now, heard_ms))
    }

    const fn class(&mut self, heard: bool) -> &mut Class {
        if heard {
            &mut self.heard
        } else {
            &mut self.foreign
        }
    }

    /// Records dropped bytes of a class.
    #[cold]
    pub(super) fn dropped(&mut self, heard: bool, bytes: u64) {
        let class = self.class(heard);
        class.dropped = class.dropped.saturating_add(bytes);
    }

    /// Records departing bytes of a class.
    #[inline]
    pub(super) const fn on_departure(&mut self, heard: bool, bytes: u64) {
        let class = self.class(heard);
        class.sent = class.sent.saturating_add(bytes);
    }

    /// The classes' worth whenever an epoch has passed, at a port of `rate` bytes per second.
    pub(super) fn poll(&mut self, now: Instant, rate: u64) -> Option<Worth> {
        let length =
            u64::try_from(u128::from(EPOCH_BYTES) * 1_000_000_000 / u128::from(rate.max(1)))
                .unwrap_or(u64::MAX)
                .clamp(EPOCH_NANOS, LONGEST_EPOCH_NANOS);
        let elapsed = now.as_nanos().saturating_sub(self.started.as_nanos());
        if elapsed < length {
            return None;
        }
        self.started = now;
        let epochs = elapsed / length;
        if epochs > FORGOTTEN_AFTER {
            self.forget();
            return Some(Worth::default());
        }
        self.judge(now, elapsed);
        Some(self.settle(now, epochs, elapsed, rate))
    }

    #[cold]
    fn forget(&mut self) {
        self.epochs.fill([0; WAYS]);
        self.sparse.release_all();
        (self.heard, self.foreign) = (Class::default(), Class::default());
        self.watch.forget_all();
    }

    /// Folds the current epoch, and possibly empty ones after it, into the averages. The port
    /// sends `rate` bytes per second.
    #[cold]
    fn settle(&mut self, now: Instant, epochs: u64, elapsed: u64, rate: u64) -> Worth {
        let sets = self.sets.iter_mut().zip(&mut self.epochs).enumerate();
        for (index, (set, seen)) in sets {
            let flows = set.bytes.iter_mut().zip(&mut set.mean);
            let flows = flows.zip(&mut set.heard_ms).zip(seen).enumerate();
            for (way, (((bytes, mean), heard_ms), seen)) in
                flows.filter(|(_, (_, seen))| **seen > 0)
            {
                let place = Place { set: index, way };
                self.watch.compare(place, *bytes, elapsed);
                let fresh = u64::from(core::mem::take(bytes));
                *mean =
                    u32::try_from(averaged(u64::from(*mean), fresh, epochs)).unwrap_or(u32::MAX);
                let feedback = lately(now, *heard_ms);
                if !feedback && *heard_ms != 0 {
                    *heard_ms = 0;
                    // Its earlier bytes belong to the other class.
                    *mean = 0;
                }
                if fresh > 0 {
                    *seen = seen.saturating_add(1);
                } else if *mean < FADED && !feedback && !self.watch.remembers(index, way) {
                    *seen = 0;
                    self.sparse.release(Place { set: index, way });
                }
            }
        }
        self.heard.settle(epochs);
        self.foreign.settle(epochs);
        let [heard, foreign] = [true, false].map(|heard| self.lasting(now, heard).collect());
        let epoch = elapsed / epochs;
        let worth = Worth {
            heard_q8: self.worth(now, true, &heard, epoch),
            foreign_q8: self.worth(now, false, &foreign, epoch),
        };
        let (of_heard, of_foreign) = (self.heard.mean_sent, self.foreign.mean_sent);
        let (share, whole) = (worth.share_q16(), bytes_in(rate, epoch));
        let owed = |share: u64| part_q16(whole, share);
        self.sparse.turn(true, of_heard, owed(share), &heard);
        let rest = WHOLE_Q16 - share;
        self.sparse.turn(false, of_foreign, owed(rest), &foreign);
        worth
    }
}

fn lately(now: Instant, heard_ms: u32) -> bool {
    heard_ms != 0 && millis(now).wrapping_sub(heard_ms) < MEMORY_MS
}

/// Adds `epochs` epochs to an average, the first with `fresh` bytes and the others with none.
/// Rounding lets it end at 0.
fn averaged(mean: u64, fresh: u64, epochs: u64) -> u64 {
    let mut mean = (mean * (PART - 1) + fresh) / PART;
    for _ in 1..epochs {
        mean = mean * (PART - 1) / PART;
    }
    mean
}

/// Bytes in `nanos` ns at `rate` bytes per second.
fn bytes_in(rate: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(nanos) / 1_000_000_000).unwrap_or(u64::MAX)
}

fn part_q16(whole: u64, share_q16: u64) -> u64 {
    let part = u128::from(whole) * u128::from(share_q16) / u128::from(WHOLE_Q16);
    u64::try_from(part).unwrap_or(u64::MAX)
}

impl Class {
    /// Ends an epoch.
    fn settle(&mut self, epochs: u64) {
        self.mean = averaged(self.mean, self.bytes, epochs);
        self.mean_dropped = averaged(self.mean_dropped, self.dropped, epochs);
        self.mean_sent = averaged(self.mean_sent, self.sent, epochs);
        (self.bytes, self.dropped, self.sent) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests;
