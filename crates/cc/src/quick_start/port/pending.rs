//! Grants whose traffic hasn't arrived yet, or has only just arrived.
//!
//! ```text
//!   request ───── flight expected ──────────── counts no longer ───── over
//!   0             RTT / 2        5/4 of it     3/2 of it, or 400 ms   3/2 of the stated RTT
//!                                without       after the flight's
//!                                a packet      first packet
//! ```
//!
//! Half an RTT after the flight's first packet, the port compares the bytes that have arrived with
//! the grant. If less than an eighth has arrived, the flow continues without its grant, which no
//! longer counts.
//!
//! The grant is forgotten after six RTTs. Until then, the flow may repeat its question as if for
//! the first time, because the answer may have been lost.
//!
//! Requests state the RTT. The port accepts at most a second, or twice the mean RTT of the flights
//! so far, whichever is larger.

use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::flow_table::FlowTable;
use crate::base::rtt_sketch::STRETCH;
use crate::base::{Duration, Instant};
use crate::quick_start::{
    ANSWER_RTTS, FIRST_WINDOW, GRANTS, LEAST_MEMORY, LEAST_PATIENCE, LOOK_RTTS, MEAN_PART,
    MEMORY_RTTS, PATIENCE_RTTS, REPEAT_TIME, SHOWN_PART, TRUSTED_RTT, UNKNOWN_RTT, WAYS,
};

/// Rates of a grant in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granting {
    pub(super) rate: u64,
    /// Part of the rate that was reported to the port's law.
    pub(super) reported: u64,
    /// Rate from which it was taken.
    pub(super) of: u64,
    /// How often the flow's answer was lost before.
    pub(super) repeats: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    flow: u32,
    source: u32,
    /// The granted rate in bytes per second, and the part that was reported to the port's law.
    pub(super) rate: u64,
    pub(super) reported: u64,
    /// The rate in bytes per second that could be granted at that time.
    pub(super) of: u64,
    pub(super) at: Instant,
    repeats: u32,
    /// RTT stated in the request.
    rtt: Duration,
    /// Arrival of the first packet that can belong to the granted flight, and the bytes within a
    /// round trip from then on.
    first: Option<Instant>,
    bytes: u64,
    /// Time at which to check whether they are a granted flight; `None` after that.
    look_at: Option<Instant>,
    /// Bytes that arrived before the flight could be expected.
    early: u64,
    /// True while it counts as approved.
    counts: bool,
    /// Time after which an unused grant no longer counts.
    patience: Instant,
    counts_until: Instant,
    until: Instant,
    /// True if [`settle`](Pending::settle) has reported its use, either because it wasn't used in
    /// time or with all arrivals.
    judged: bool,
    /// True if `until` has passed, so that later packets aren't part of its flight.
    is_over: bool,
    /// If a flow asks again before this time, the answer may have been lost.
    asks_until: Instant,
}

impl Grant {
    /// Returns true if the grant counts and none of its packets has arrived.
    const fn is_outstanding(&self) -> bool {
        self.counts && self.first.is_none()
    }

    /// Returns the time of the next change that happens without a packet.
    fn next(&self) -> Instant {
        match (self.counts, self.first) {
            (false, _) if self.is_over => self.asks_until,
            (false, _) => self.until,
            (true, None) => self.patience.min(self.counts_until),
            (true, Some(_)) => {
                let look_at = self.look_at.unwrap_or(self.counts_until);
                look_at.min(self.counts_until)
            }
        }
    }

    /// Compares the bytes since the first packet with the grant, once and not before it's time.
    /// Returns the time of the first packet if they are less than an eighth of the expected bytes.
    fn look(&mut self, now: Instant) -> Option<Instant> {
        let first = self.first?;
        self.look_at.take_if(|at| now >= *at)?;
        let elapsed = ns_since(now, first).min(nanos(self.rtt));
        let expected = mul_div(self.rate, elapsed, 1_000_000_000);
        (self.bytes < expected / SHOWN_PART).then_some(first)
    }

    /// Returns the use of the grant so far, at the stated RTT.
    fn settled(&self) -> Settled {
        Settled {
            source: self.source,
            granted: self.rate,
            shown: mul_div(self.bytes, 1_000_000_000, nanos(self.rtt).max(1)),
            outstanding: self.is_outstanding().then_some(self.reported),
            judged: self.judged,
            repeats: self.repeats,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) source: u32,
    /// Granted and used rate in bytes per second.
    pub(crate) granted: u64,
    pub(crate) shown: u64,
    /// If it was outstanding until now, the rate reported to the law in bytes per second.
    pub(crate) outstanding: Option<u64>,
    /// True if its use has been reported before.
    pub(crate) judged: bool,
    /// How often the flow's answer was lost before.
    pub(crate) repeats: u32,
}

/// Table of grants with a fixed size and a few places for each hash of a flow.
#[derive(Debug)]
pub(crate) struct Pending {
    grants: FlowTable<Option<Grant>, { GRANTS / WAYS }, WAYS, 16>,
    /// Places in use.
    used: usize,
    /// Total rates of grants that count, and of those whose traffic hasn't arrived, in bytes per
    /// second.
    counting: u64,
    outstanding: u64,
    /// Time of the next change that happens without a packet.
    next: Instant,
    /// Mean RTT of flights, or 0 if there weren't any.
    mean_ns: u64,
}

impl Pending {
    pub(crate) fn new() -> Self {
        Self {
            grants: FlowTable::new(None),
            used: 0,
            counting: 0,
            outstanding: 0,
            next: Instant::FAR_FUTURE,
            mean_ns: 0,
        }
    }

    /// Returns a place for a grant to `flow`, either a free one or that of a grant that no longer
    /// counts.
    fn place(&mut self, flow: u32) -> Option<&mut Option<Grant>> {
        let rank = |place: &Option<Grant>| match place {
            None => 0,
            Some(grant) if !grant.counts => 1,
            Some(_) => 2,
        };
        let places = self.grants.set_mut(flow).iter_mut();
        let best = places.min_by_key(|place| rank(place));
        best.filter(|place| rank(place) < 2)
    }

    /// Returns true if there is a place for a grant to `flow`.
    pub(crate) fn has_room(&mut self, flow: u32) -> bool {
        self.place(flow).is_some()
    }

    /// Returns the longest RTT that is accepted.
    fn most_rtt(&self) -> Duration {
        TRUSTED_RTT.max(Duration::from_nanos(self.mean_ns.saturating_mul(2)))
    }

    /// Limits a stated RTT to the longest accepted RTT.
    pub(crate) fn believed(&self, rtt: Duration) -> Duration {
        rtt.min(self.most_rtt())
    }

    /// Returns true if a flight with an RTT of `rtt` will arrive while its grant counts, judging by
    /// the RTTs of earlier flights. Requests state the upper end of an octave.
    pub(crate) fn is_plausible(&self, rtt: Duration) -> bool {
        let shown = match self.mean_ns {
            0 => Duration::MAX,
            mean => Duration::from_nanos(mean.saturating_mul(STRETCH)),
        };
        rtt / 2 <= shown.min(self.most_rtt())
    }

    pub(super) fn grant(&self, flow: u32) -> Option<Grant> {
        let mut places = self.grants.set(flow).iter().flatten();
        let own = places.find(|grant| grant.flow == flow && !grant.is_over);
        own.copied()
    }

    /// Lowers the grant of `flow` to at most `rate` bytes per second.
    pub(super) fn lower(&mut self, flow: u32, rate: u64) {
        let mut own = self.grants.set_mut(flow).iter_mut().flatten();
        if let Some(grant) = own.find(|grant| grant.flow == flow) {
            grant.rate = grant.rate.min(rate);
        }
        self.add_up();
    }

    /// Removes the grant of `flow`, which asks again. The flag is true if this is soon enough for
    /// the answer to have been lost.
    pub(crate) fn take(&mut self, now: Instant, flow: u32) -> Option<(Settled, bool)> {
        let mut places = self.grants.set_mut(flow).iter_mut();
        let own = places.find(|place| place.is_some_and(|grant| grant.flow == flow))?;
        let grant = own.take()?;
        self.add_up();
        Some((grant.settled(), now < grant.asks_until))
    }

    /// Adds a grant to `flow`, which doesn't have any.
    pub(crate) fn put(
        &mut self,
        now: Instant,
        flow: u32,
        source: u32,
        granting: Granting,
        rtt: Option<Duration>,
    ) {
        let rtt = rtt.unwrap_or(UNKNOWN_RTT);
        let believed = self.believed(rtt);
        let memory = |rtt: Duration| times(rtt, MEMORY_RTTS.0, MEMORY_RTTS.1).max(LEAST_MEMORY);
        let patience =
            times(believed, PATIENCE_RTTS.0, PATIENCE_RTTS.1).max(believed + LEAST_PATIENCE);
        let grant = Grant {
            flow,
            source,
            rate: granting.rate,
            reported: granting.reported,
            of: granting.of,
            at: now,
            repeats: granting.repeats,
            rtt,
            first: None,
            bytes: 0,
            look_at: None,
            early: 0,
            counts: true,
            patience: now + patience,
            counts_until: now + memory(believed),
            until: now + memory(rtt),
            judged: false,
            is_over: false,
            asks_until: now
                + believed
                    .saturating_mul(ANSWER_RTTS * REPEAT_TIME)
                    .max(LEAST_MEMORY),
        };
        if let Some(place) = self.place(flow) {
            *place = Some(grant);
        }
        self.add_up();
    }

    /// Handles the arrival of `bytes` of `flow`. If a granted flight begins with them, returns the
    /// rate that was reported to the law.
    pub(crate) fn on_bytes(&mut self, now: Instant, flow: u32, bytes: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.count(now, flow, bytes)
    }

    fn count(&mut self, now: Instant, flow: u32, bytes: u64) -> Option<u64> {
        let mut own = self.grants.set_mut(flow).iter_mut().flatten();
        let grant = own.find(|grant| grant.flow == flow && !grant.is_over)?;
        // A stated RTT is rounded up to at most twice its value, and some requests don't state any.
        // Earlier packets belong to the first window. Bytes beyond this belong to the flight, which
        // is counted as it arrives and must not count twice.
        if now < grant.at + grant.rtt / 2 {
            grant.early = grant.early.saturating_add(bytes);
            if grant.early <= FIRST_WINDOW {
                return None;
            }
        }
        let outstanding = grant.is_outstanding();
        let first = *grant.first.get_or_insert(now);
        if now <= first + grant.rtt {
            grant.bytes = grant.bytes.saturating_add(bytes);
        }
        if first != now || !outstanding {
            return None;
        }
        let reported = grant.reported;
        grant.counts_until = grant.counts_until.min(now + LEAST_MEMORY);
        grant.look_at = Some(now + times(grant.rtt, LOOK_RTTS.0, LOOK_RTTS.1));
        self.add_up();
        Some(reported)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns true if [`settle`](Self::settle) has something to do.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Ends grants whose time is over. `over` receives those that weren't used in time, and the use
    /// of the others.
    #[cold]
    pub(crate) fn settle(&mut self, now: Instant, mut over: impl FnMut(Settled)) {
        let mut mean = self.mean_ns;
        // A packet that arrives long after a small grant isn't an RTT sample.
        let most = nanos(self.most_rtt());
        for place in self.grants.all_mut() {
            let Some(grant) = place else { continue };
            let waits = grant.first.is_some() || now < grant.patience;
            if grant.counts && (now >= grant.counts_until || !waits) {
                if grant.first.is_none() {
                    over(grant.settled());
                    grant.judged = true;
                }
                grant.counts = false;
            }
            if now >= grant.until && !grant.is_over {
                if let Some(first) = grant.first {
                    let settled = grant.settled();
                    over(settled);
                    if settled.shown >= grant.rate / SHOWN_PART {
                        let sample = ns_since(first, grant.at).min(most);
                        mean = match mean {
                            0 => sample,
                            mean => mean - mean / MEAN_PART + sample / MEAN_PART,
                        };
                    }
                }
                (grant.is_over, grant.judged) = (true, true);
            }
            if grant.is_over && now >= grant.asks_until {
                *place = None;
            }
        }
        self.mean_ns = mean;
        self.add_up();
    }

    /// Ends a grant of which less than an eighth has arrived. Returns the time of its first packet,
    /// and the rate that was reported to the law.
    #[cold]
    pub(crate) fn take_unused(&mut self, now: Instant) -> Option<(Instant, u64)> {
        let grants = self.grants.all_mut().iter_mut();
        let found = grants.flatten().find_map(|grant| {
            let began = grant.look(now)?;
            grant.counts = false;
            Some((began, grant.reported))
        });
        self.add_up();
        found
    }

    /// Recomputes the sums and the next deadline.
    fn add_up(&mut self) {
        (self.used, self.counting, self.outstanding) = (0, 0, 0);
        self.next = Instant::FAR_FUTURE;
        for grant in self.grants.all().iter().flatten() {
            self.used += 1;
            self.next = self.next.min(grant.next());
            if grant.counts {
                self.counting = self.counting.saturating_add(grant.rate);
            }
            if grant.is_outstanding() {
                self.outstanding = self.outstanding.saturating_add(grant.rate);
            }
        }
    }

    /// Returns the total rate of grants that count, in bytes per second.
    pub(crate) const fn counting(&self) -> u64 {
        self.counting
    }

    /// Returns the part of this rate that belongs to `source`.
    pub(crate) fn of_source(&self, source: u32) -> u64 {
        let own = self.grants.all().iter().flatten();
        let own = own.filter(|grant| grant.counts && grant.source == source);
        own.fold(0, |sum, grant| sum.saturating_add(grant.rate))
    }

    /// Returns the part of this rate whose traffic hasn't arrived yet.
    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding
    }
}

fn times(rtt: Duration, num: u32, den: u32) -> Duration {
    rtt.saturating_mul(num) / den
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    fn granting(rate: u64, reported: u64) -> Granting {
        let (of, repeats) = (rate, 0);
        Granting {
            rate,
            reported,
            of,
            repeats,
        }
    }

    /// A window arrives once per round trip, so the time of the check passes without a packet. With
    /// long RTTs, this is also true for the time until which the grant counts.
    #[test]
    fn a_flow_that_goes_on_without_its_grant_is_found_with_its_next_packet() {
        for rtt in [60, 500, 900] {
            for (bytes, unused) in [(15_000, true), (2_000_000, false)] {
                let mut pending = Pending::new();
                let asked = at(1000);
                let granting = granting(10_000_000, 8_000_000);
                pending.put(asked, 7, 7, granting, Some(ms(rtt)));
                let began = asked + ms(rtt);
                assert_eq!(pending.on_bytes(began, 7, bytes), Some(8_000_000));
                let next = began + ms(rtt);
                assert!(pending.is_due(next));
                pending.settle(next, |_| {});
                let found = unused.then_some((began, 8_000_000));
                assert_eq!(pending.take_unused(next), found, "{rtt} ms, {bytes}");
                assert_eq!(pending.take_unused(next + ms(rtt)), None);
            }
        }
    }

    /// A packet that arrives long after a small grant isn't an RTT sample, so the accepted RTT
    /// remains short.
    #[test]
    fn what_is_believed_grows_by_little_whatever_is_told_and_shown() {
        let mut pending = Pending::new();
        for (turn, most) in [(1, 2000), (2, 2250), (3, 2531)] {
            let asked = at(100_000 * turn);
            let granting = granting(1000, 1000);
            pending.put(asked, 7, 7, granting, Some(ms(16_000)));
            let _ = pending.on_bytes(asked + ms(15_000), 7, 40_000);
            pending.settle(asked + ms(60_000), |_| {});
            assert_eq!(pending.believed(ms(60_000)).as_millis(), most);
        }
    }
}
