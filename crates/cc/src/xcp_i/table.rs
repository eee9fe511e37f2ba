//! The upstream routers that packets name, each with the cloud behind it. The table is bounded, and
//! routers are forgotten if no packets arrive from them.
//!
//! Anyone can write any address into a header. An upstream router whose cloud has no estimate keeps
//! its place for a second and can then be replaced, while a router with a known cloud keeps its
//! place as long as its packets arrive. Therefore forged addresses do not push out routers with a
//! working estimate, and a true address finds a place within seconds. A host with an IPv6 prefix of
//! 64 bits can send from any address of this prefix, so at most a quarter of the places are for
//! routers of one prefix without an estimate.
//!
//! **Shared clouds.** Ports that do not know of each other can each have a virtual router for the
//! same link. Each treats the traffic of the others as foreign, and sees the same available
//! bandwidth. Therefore a virtual router leaves a part s of its own flows' rate, and takes a
//! similar part g of the link's capacity C, in addition to equation 1:
//!
//! F = α·BW − β·Q/d + g·C − s·y
//!
//! All take the same rate, but leave more if they have more, so that shares become equal (Chiu and
//! Jain, "Analysis of the increase and decrease algorithms", 1989) within about 1/s = 50 intervals.
//! With g slightly below s, a single virtual router fills (α + g)/(α + s) = 0.998 of the link. N
//! virtual routers keep a queue of (N·g − s)/(N·β) of a bandwidth-delay product, which is at most 8
//! %.

use super::competitor::LossBasedCompetitor;
use super::{
    INACTIVE, MOST_OF_PREFIX, MOST_UPSTREAMS, PATIENCE, SHARED_GIVEN_PPM, SHARED_TAKEN_PPM, WANTS,
};
use crate::base::arith::ns_since;
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::CloudMetrics;
use crate::signals::{Answer, Arrival, Carried, CloudEstimate, Upstream, XcpAnswer};
use crate::xcp::{XcpCapacity, XcpLink, XcpLinkParams};

#[derive(Clone, Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Index of the last packet's entry.
    latest: usize,
    params: XcpLinkParams,
    /// True if the clouds are estimated.
    estimated: bool,
    forgotten: u64,
    crowded: u64,
    /// Time of the last search for inactive entries.
    swept: Instant,
}

#[derive(Clone, Debug)]
struct Entry {
    upstream: Upstream,
    since: Instant,
    last_packet: Instant,
    /// Bytes since the last estimate or the first packet, and the time of this event.
    bytes: u64,
    bytes_since: Instant,
    /// Bytes since the first packet.
    total: u64,
    /// The virtual router, if there has been an estimate.
    link: Option<Box<XcpLink>>,
    /// The capacity left to it, in bytes per second, averaged over a round trip.
    left: u64,
    /// Bytes queued in the cloud.
    queue: u64,
    /// The estimate may be used until this time.
    until: Instant,
    /// Foreign traffic that keeps the cloud's queue full.
    crowd: LossBasedCompetitor,
    /// When a packet last requested more than it was granted.
    refused: Option<Instant>,
}

impl Entry {
    fn is_known(&self, now: Instant) -> bool {
        self.link.is_some() && now <= self.until
    }

    fn may_go(&self, now: Instant) -> bool {
        let hopeless = !self.is_known(now) && now - self.since >= PATIENCE;
        hopeless || !self.is_active(now)
    }

    fn is_active(&self, now: Instant) -> bool {
        now - self.last_packet < INACTIVE
    }
}

/// The amount that the rule for shared clouds adds to the capacity of a virtual router whose flows
/// have `own` bytes per second: (g·C − s·y)/α.
fn shared(params: &XcpLinkParams, capacity: u64, own: i64) -> i64 {
    if capacity == 0 {
        return 0;
    }
    let given = i128::from(capacity) * i128::from(SHARED_GIVEN_PPM);
    let taken = i128::from(own) * i128::from(SHARED_TAKEN_PPM);
    let change = (given - taken).div_euclid(i128::from(params.alpha_ppm.max(1)));
    i64::try_from(change).unwrap_or(0)
}

/// The remaining rate, as an exponential average over a round trip. `before` is the average so far,
/// and `latest` is the rate over the last `elapsed` nanoseconds.
///
/// The packets that an estimate counts before the queue are not the same as those counted behind
/// it, and a header can stand for several packets, so a few packets make a large difference in a
/// short period. A virtual router measures its input over a round trip, too.
fn averaged(before: u64, latest: u64, elapsed: u128, round_trip: Duration) -> u64 {
    let round_trip = round_trip.as_nanos().max(elapsed);
    let kept = u128::from(before) * (round_trip - elapsed);
    let sum = kept + u128::from(latest) * elapsed;
    u64::try_from(sum / round_trip).unwrap_or(u64::MAX)
}

fn nothing(packet: &Arrival) -> XcpAnswer {
    let asked = match &packet.carried {
        Carried::Xcp(header) => header.delta,
        _ => 0,
    };
    XcpAnswer {
        delta: asked.min(0),
        bounding: asked > 0,
        ..XcpAnswer::default()
    }
}

impl Table {
    pub(crate) fn new(params: &XcpLinkParams) -> Self {
        let params = XcpLinkParams {
            overhead: 0,
            capacity: XcpCapacity::Port,
            police: false,
            whole: false,
            ..params.clone()
        };
        Self {
            estimated: params
                .clouds
                .is_some_and(|clouds| clouds.measured || clouds.exact.is_some()),
            entries: Vec::with_capacity(MOST_UPSTREAMS),
            latest: 0,
            params,
            forgotten: 0,
            crowded: 0,
            swept: Instant::ZERO,
        }
    }

    fn find(&mut self, upstream: Upstream) -> Option<&mut Entry> {
        let at_hand = |entry: &Entry| entry.upstream == upstream;
        if !self.entries.get(self.latest).is_some_and(at_hand) {
            self.latest = self.entries.iter().position(at_hand)?;
        }
        self.entries.get_mut(self.latest)
    }

    /// True for the paper's virtual routers, for which the port's own queue counts.
    fn is_published(&self) -> bool {
        self.params.clouds.is_some_and(|clouds| clouds.published)
    }

    /// The entry of an upstream router that sent a packet, or `None` if there is no room for it.
    fn enter(&mut self, now: Instant, upstream: Upstream) -> Option<&mut Entry> {
        if self.find(upstream).is_none() {
            self.insert(now, upstream)?;
        }
        self.find(upstream)
    }

    #[cold]
    fn insert(&mut self, now: Instant, upstream: Upstream) -> Option<()> {
        let entry = Entry {
            upstream,
            since: now,
            last_packet: now,
            bytes: 0,
            bytes_since: now,
            total: 0,
            link: None,
            left: 0,
            queue: 0,
            until: now,
            crowd: LossBasedCompetitor::default(),
            refused: None,
        };
        let of_prefix = |kept: &Entry| {
            upstream.prefix().is_some() && kept.upstream.prefix() == upstream.prefix()
        };
        let strangers = |kept: &&Entry| of_prefix(kept) && !kept.is_known(now);
        let crowded = self.entries.iter().filter(strangers).count() >= MOST_OF_PREFIX;
        if !crowded && self.entries.len() < MOST_UPSTREAMS {
            self.entries.push(entry);
            return Some(());
        }
        let mut entries = self.entries.iter_mut();
        let going = entries.find(|kept| kept.may_go(now) && (!crowded || of_prefix(kept)))?;
        *going = entry;
        self.forgotten += 1;
        Some(())
    }

    /// Counts a packet from an upstream router. False if there is no room for this router.
    pub(crate) fn on_arrival(
        &mut self,
        now: Instant,
        upstream: Upstream,
        arrival: &Arrival,
        queue: u64,
    ) -> bool {
        if now - self.swept >= INACTIVE {
            self.sweep(now);
        }
        let published = self.is_published();
        let Some(entry) = self.enter(now, upstream) else {
            return false;
        };
        entry.last_packet = now;
        entry.bytes = entry.bytes.saturating_add(u64::from(arrival.bytes));
        entry.total = entry.total.saturating_add(u64::from(arrival.bytes));
        if let Some(link) = &mut entry.link {
            let queue = if published { queue } else { entry.queue };
            link.on_arrival(now, arrival, queue);
        }
        true
    }

    /// The virtual router's answer to a departing packet, or `None` if its cloud is not known.
    /// While the first estimate is awaited, nothing is given.
    pub(crate) fn on_departure(
        &mut self,
        now: Instant,
        upstream: Upstream,
        packet: &Arrival,
        queue: u64,
    ) -> Option<XcpAnswer> {
        let (estimated, published) = (self.estimated, self.is_published());
        let entry = self.find(upstream)?;
        let Some(link) = &mut entry.link else {
            let awaited = estimated && now - entry.since < PATIENCE;
            return awaited.then(|| nothing(packet));
        };
        if now > entry.until || entry.crowd.is_there() {
            return None;
        }
        let queue = if published { queue } else { entry.queue };
        match link.on_departure(now, packet, queue) {
            Answer::Xcp(answer) => {
                if answer.bounding {
                    entry.refused = Some(now);
                }
                Some(answer)
            }
            _ => None,
        }
    }

    /// Records an estimate of the cloud behind `upstream`. Ignored unless packets arrive from this
    /// router.
    pub(crate) fn on_estimate(
        &mut self,
        now: Instant,
        upstream: Upstream,
        estimate: &CloudEstimate,
    ) {
        let (params, published) = (&self.params, self.is_published());
        let Some(entry) = self
            .entries
            .iter_mut()
            .find(|entry| entry.upstream == upstream)
        else {
            return;
        };
        if published {
            entry.until = now + estimate.valid_for;
            let capacity = estimate.capacity.max(1);
            let link = entry
                .link
                .get_or_insert_with(|| Box::new(XcpLink::new(now, capacity, params.clone())));
            link.set_spare(estimate.available);
            return;
        }
        let elapsed = u128::from(ns_since(now, entry.bytes_since).max(1));
        let own = u128::from(entry.bytes) * 1_000_000_000 / elapsed;
        let own = i64::try_from(own).unwrap_or(i64::MAX);
        // Traffic on another path does not share the link.
        let most = i64::try_from(estimate.capacity).unwrap_or(i64::MAX);
        let shared = shared(params, estimate.capacity, own.min(most));
        let left = own
            .saturating_add(estimate.available)
            .saturating_add(shared);
        let left = left.max(1).unsigned_abs();
        let left = match &entry.link {
            Some(link) if now <= entry.until => {
                averaged(entry.left, left, elapsed, link.mean_rtt())
            }
            _ => left,
        };
        (entry.bytes, entry.bytes_since, entry.left) = (0, now, left);
        entry.queue = estimate.queue;
        entry.until = now + estimate.valid_for;
        let link = entry
            .link
            .get_or_insert_with(|| Box::new(XcpLink::new(now, left, params.clone())));
        link.on_capacity(now, left);
        let want = entry.refused.is_some_and(|at| now - at < WANTS);
        if entry.crowd.learn(now, estimate, own, want, link.mean_rtt()) {
            self.crowded += 1;
        }
    }

    /// Calls `visit` for each upstream router, with the number of bytes received from it.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        for entry in &self.entries {
            visit(entry.upstream, entry.total);
        }
    }

    /// Removes upstream routers without packets, even if no other router needs the place.
    #[cold]
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let before = self.entries.len();
        self.entries.retain(|entry| entry.is_active(now));
        self.latest = 0;
        let gone = before - self.entries.len();
        self.forgotten = self.forgotten.saturating_add(gone as u64);
    }

    /// The counters, including the numbers of packets counted, unknown, and without room.
    pub(crate) fn metrics(&self, counted: u64, unknown: u64, refused: u64) -> CloudMetrics {
        let known = self.entries.iter().filter(|entry| entry.link.is_some());
        let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
        CloudMetrics {
            upstreams: count(self.entries.len()),
            known: count(known.count()),
            counted,
            unknown,
            refused,
            forgotten: self.forgotten,
            crowded: self.crowded,
        }
    }

    #[cfg(test)]
    pub(crate) fn link(&self, upstream: Upstream) -> Option<&XcpLink> {
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.upstream == upstream)?
            .link
            .as_deref()
    }
}
