//! Judges which flows exceed their shares, and for how long.

use pathmark_cc::Instant;

use super::{Bucket, PERSISTS, Record};
use crate::flows::{Flows, Set, lately};

/// Points for an epoch above the share, doubled if the queue drops a quarter or more or the flow
/// defies its answers. Any other epoch subtracts one point.
const OVER: u8 = 2;
const OVER_RUINED: u8 = 4;
const RUINED: (u64, u64) = (1, 4);
/// One strike is forgiven after this number of epochs: 30 s.
const FORGIVEN_AFTER: u32 = 150;
/// The fraction of the reaction time in which a flow counts as new: a third, which is less than
/// it takes to be set aside.
const NEW: u64 = 3;
/// Fewer bytes per epoch never exceed a share: four packets.
const FEW_BYTES: u64 = 4 * 1500;
/// The queue overflows if it drops more than this part of arriving bytes, averaged over seconds.
/// Responsive flows lost up to 15 % for seconds when there were many over 4 ms.
const OVERFLOWS: (u64, u64) = (3, 16);
/// A flow exceeds a share if it has more than 33/32 of this share, or 9/8 if it is set aside and
/// therefore causes its own losses.
const BEYOND: (u64, u64) = (33, 32);
const BEYOND_ASIDE: (u64, u64) = (9, 8);
/// Maximum number of steps towards the fair share.
const STEPS: u32 = 24;

/// A flow with feedback, as observed in the current epoch.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Bytes that arrived, and their mean per epoch.
    bytes: u64,
    mean: u64,
    new: bool,
    /// Set aside individually, not for being new.
    alone: bool,
    aside: bool,
    /// It did not slow down as its answers told it.
    defies: bool,
}

/// Distinguishes newcomers and flows set aside from others.
#[derive(Clone, Copy, Debug)]
struct Lens {
    now: Instant,
    /// Flows seen in fewer epochs are newcomers; whether these are set aside.
    new_until: u8,
    newcomers_aside: bool,
}

impl Lens {
    /// The flow at a place, if there is one with feedback.
    fn flow(self, set: &Set, way: usize, epochs: u8, record: &Record) -> Option<Seen> {
        let feedback = set.heard_ms.get(way).copied()?;
        let new = epochs < self.new_until;
        let alone = record.aside > 0;
        (epochs > 0 && lately(self.now, feedback)).then_some(Seen {
            bytes: set.bytes.get(way).copied()?.into(),
            mean: set.mean.get(way).copied()?.into(),
            new,
            alone,
            aside: alone || (new && self.newcomers_aside),
            defies: !new && record.defies(set.mean.get(way).copied()?),
        })
    }
}

/// Fair shares per epoch in bytes, with the conditions for judging.
#[derive(Clone, Copy, Debug)]
struct Shares {
    /// Of flows that count for the law; newcomers count together as one flow.
    own: u64,
    /// Of each flow that is set aside.
    aside: u64,
    /// True if the queue overflows and a flow has less than half of a share.
    harm: bool,
    /// True if newcomers together exceed their share.
    new_over: bool,
    /// The mean per flow, if a flow has less than half this mean.
    mean: Option<u64>,
}

impl Shares {
    fn are_exceeded(&self, flow: Seen) -> bool {
        if flow.aside {
            flow.bytes > FEW_BYTES && exceeds(flow.bytes, self.aside, BEYOND_ASIDE)
        } else {
            let least = flow.bytes.min(flow.mean);
            let unequal = |mean| flow.defies && exceeds(least, mean, BEYOND);
            let harms = self.harm && exceeds(least, self.own, BEYOND);
            least > FEW_BYTES && (harms || self.mean.is_some_and(unequal))
        }
    }
}

impl Flows {
    /// Judges flows at the end of an epoch of `nanos`, before folding it into the averages.
    pub(in super::super) fn judge(&mut self, now: Instant, nanos: u64) {
        let overflows = exceeds(self.heard.mean_dropped, self.heard.mean, OVERFLOWS);
        let pressed = overflows && self.watch.capacity != [0; 2];
        let brought = core::mem::take(&mut self.watch.bucket.brought);
        let came = core::mem::take(&mut self.watch.bucket.came);
        if !pressed && !self.watch.busy {
            return;
        }
        let epochs = self.watch.reaction_epochs(nanos);
        self.watch.new_until = u8::try_from(epochs / NEW + 1).unwrap_or(u8::MAX);
        let lens = Lens {
            now,
            new_until: self.watch.new_until,
            newcomers_aside: self.watch.newcomers.aside > 0,
        };
        let [running, before] = self.watch.capacity;
        let capacity = u128::from(running.max(before)) * u128::from(nanos) / 1_000_000_000;
        let capacity = u64::try_from(capacity).unwrap_or(u64::MAX);
        let shares = self.shares(lens, capacity, pressed, brought, came);
        self.turn(lens, shares, epochs);
    }

    /// Computes fair shares, if `capacity` bytes could leave. Of the `came` bytes of flows set
    /// aside, `brought` could pass.
    #[cold]
    fn shares(&self, lens: Lens, capacity: u64, pressed: bool, brought: u64, came: u64) -> Shares {
        let each = || {
            let places = self.sets.iter().zip(&self.epochs);
            let places = places.zip(&self.watch.records);
            places.flat_map(move |((set, epochs), records)| {
                let ways = epochs.iter().zip(records).enumerate();
                ways.filter_map(move |(way, (epochs, record))| lens.flow(set, way, *epochs, record))
            })
        };
        let sum = |of: fn(&Seen) -> bool| -> u64 { each().filter(of).map(|flow| flow.bytes).sum() };
        // Flows without a place in the table are also newcomers.
        let unplaced = self.heard.bytes.saturating_sub(sum(|flow| !flow.aside));
        let new = if lens.newcomers_aside {
            0
        } else {
            sum(|flow| flow.new && !flow.aside) + unplaced
        };
        let own = fair_share(capacity, || {
            let known = each().filter(|flow| !flow.aside && !flow.new);
            known.map(|flow| flow.bytes).chain([new])
        });
        let aside = fair_share(brought, || {
            each().filter(|flow| flow.aside).map(|flow| flow.bytes)
        });
        let starved = |flow: Seen| {
            let rate = flow.bytes.max(flow.mean);
            !flow.aside && rate > 0 && rate <= own / 2
        };
        let harm = pressed && own < u64::MAX && each().any(starved);
        let new_over = if lens.newcomers_aside {
            let alone = || each().filter(|flow| flow.alone).map(|flow| flow.bytes);
            let new = came.saturating_sub(alone().sum());
            let share = fair_share(brought, || alone().chain([new]));
            exceeds(new, share, BEYOND_ASIDE)
        } else {
            harm && new > FEW_BYTES && exceeds(new, own, BEYOND)
        };
        let known = || each().filter(|flow| !flow.aside && !flow.new);
        let mean = sum(|flow| !flow.aside && !flow.new) / (known().count() as u64).max(1);
        let few = |flow: Seen| flow.bytes.max(flow.mean) <= mean / 2;
        Shares {
            own,
            aside,
            harm,
            new_over,
            mean: known().any(few).then_some(mean),
        }
    }

    /// Updates all records at the end of an epoch. Responsive flows need `epochs` epochs to
    /// react.
    #[cold]
    fn turn(&mut self, lens: Lens, shares: Shares, epochs: u64) {
        let ruined = exceeds(self.heard.mean_dropped, self.heard.mean, RUINED);
        let weight = if ruined { OVER_RUINED } else { OVER };
        let limit = u8::try_from(epochs * u64::from(OVER)).unwrap_or(u8::MAX);
        let watch = &mut self.watch;
        watch.epochs = watch.epochs.wrapping_add(1);
        let forgives = watch.epochs.is_multiple_of(FORGIVEN_AFTER);
        let (mut acting, mut busy, mut times) = (false, false, 0);
        let mut turn = |record: &mut Record, over: u8, limit: u8| {
            times += u64::from(record.turn(over, limit));
            if forgives {
                record.forgive();
            }
            acting |= record.aside > 0;
            busy |= !record.is_clean();
        };
        let places = self.sets.iter().zip(&self.epochs);
        for ((set, epochs), records) in places.zip(&mut watch.records) {
            let ways = epochs.iter().zip(records).enumerate();
            for (way, (&epochs, record)) in ways.filter(|(_, (epochs, _))| **epochs > 0) {
                let flow = lens.flow(set, way, epochs, record);
                let over = match flow {
                    Some(flow) if shares.are_exceeded(flow) && flow.defies => OVER_RUINED,
                    Some(flow) if shares.are_exceeded(flow) => weight,
                    _ => 0,
                };
                let limit = match flow {
                    // Already set aside as a newcomer.
                    Some(flow) if flow.new && lens.newcomers_aside => u8::MAX,
                    // It was set aside as a newcomer until now, and exceeded the share half of
                    // the time, so it need not return first.
                    _ if lens.newcomers_aside
                        && epochs == lens.new_until
                        && record.over >= epochs =>
                    {
                        PERSISTS
                    }
                    _ => limit,
                };
                turn(record, over, limit);
            }
        }
        let new_over = if shares.new_over { weight } else { 0 };
        turn(&mut watch.newcomers, new_over, limit);
        if acting && !watch.acting {
            watch.bucket = Bucket {
                since: lens.now,
                ..Bucket::default()
            };
        }
        watch.acting = acting;
        watch.busy = busy;
        watch.times += times;
        watch.fresh |= times > 0;
    }
}

/// Whether `bytes` exceed `part` of a share.
fn exceeds(bytes: u64, share: u64, part: (u64, u64)) -> bool {
    u128::from(bytes) * u128::from(part.1) > u128::from(share) * u128::from(part.0)
}

/// The max-min fair share: the maximum per flow such that all flows together do not exceed
/// `capacity`. `u64::MAX` if they need less.
pub(in super::super) fn fair_share<I: Iterator<Item = u64>>(
    capacity: u64,
    flows: impl Fn() -> I,
) -> u64 {
    let (mut share, mut count) = (0u64, 0u64);
    for bytes in flows().filter(|bytes| *bytes > 0) {
        count += 1;
        share = share.saturating_add(bytes);
    }
    if share <= capacity {
        return u64::MAX;
    }
    share = capacity / count.max(1);
    for _ in 0..STEPS {
        let (mut small, mut large) = (0u64, 0u64);
        for bytes in flows() {
            if bytes > share {
                large += 1;
            } else {
                small = small.saturating_add(bytes);
            }
        }
        let next = capacity.saturating_sub(small) / large.max(1);
        if next <= share {
            break;
        }
        share = next;
    }
    share
}
