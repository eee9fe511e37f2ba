//! Polices flows that send more than they state or ignore negative feedback (the XCP Linux paper,
//! section VI-D, asks for this).
//!
//! Two quantities reveal these flows. If a flow sends more than it states, its inter-packet times
//! add up to more than the time that passed. If it ignores negative feedback, its rate differs from
//! the sum of the answers, so the port adds up its answers and compares. Both quantities are token
//! buckets, and packets that exceed them are dropped before they count for anything.
//!
//! The table has a fixed number of entries. If all entries of a flow's set were seen within the
//! last intervals, a new flow passes unpoliced. Flows without XCP headers are not policed.

use crate::base::arith::{mul_div, nanos, ns_since};
use crate::base::flow_table::FlowTable;
use crate::base::{Duration, Instant};
use crate::signals::{XcpAnswer, XcpCarried};
use crate::xcp::params::{rate_q16, x_of};

/// The highest eight bits of the mixed hash select four entries.
type Entries = FlowTable<Entry, 256, 4, 24>;

/// An entry not seen for this many intervals may be reused for another flow.
const STALE: u64 = 8;
/// Slack of rates and times: one part in `SLACK`.
const SLACK: u64 = 4;
/// Additional packets in a bucket: an initial window.
const BURST_PACKETS: u64 = 10;
/// Packets per interval that a flow may always send.
const LEAST_PACKETS: u64 = 2;
/// Number of intervals after which negative feedback must have taken effect.
const DELAY: usize = 2;
/// The allowance drifts up to the sending rate by this part of the difference, because of rounding
/// and lost answers.
const DRIFT_UP: u64 = 32;
/// It drifts down by this part of the unused rate.
const DRIFT_DOWN: u64 = 8;

/// Number of intervals within which a starting flow uses its grant.
const GRANT_INTERVALS: u64 = 3;
/// Assumed size of packets sent with a grant, in bytes.
const GRANT_BYTES: u32 = 1500;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    flow_hash: u32,
    /// The last interval in which the flow was seen; 0: none.
    interval: u64,
    last: Instant,
    /// The rate that results from the answers, in 2^-16 bytes per second.
    allowed: u64,
    /// Until this interval the allowance does not drift downwards, because a granted flight has yet
    /// to arrive.
    kept_until: u64,
    /// Bytes admitted in the current interval.
    bytes: u64,
    /// Given and taken in the current interval, in 2^-16 bytes per second.
    given: u64,
    taken: u64,
    /// Taken in the intervals before, oldest first.
    taken_before: [u64; DELAY],
    /// Tokens in bytes, and in 2^-40 s of inter-packet time.
    tokens: u64,
    x_tokens: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Policer {
    entries: Entries,
    interval: u64,
    started: Instant,
    length: Duration,
    refused: u64,
    /// Index of the last packet's flow.
    latest: usize,
}

impl Policer {
    pub(crate) fn new() -> Self {
        Self {
            entries: Entries::new(Entry::default()),
            interval: STALE + 1,
            started: Instant::ZERO,
            length: Duration::from_millis(50),
            refused: 0,
            latest: 0,
        }
    }

    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) const fn begin(&mut self, length: Duration) {
        self.interval += 1;
        self.length = length;
    }

    /// Begins the next interval, with this length, if the current interval is over.
    pub(crate) fn turn(&mut self, now: Instant, length: Duration) {
        if ns_since(now, self.started) >= nanos(self.length) {
            self.started = now;
            self.begin(length);
        }
    }

    pub(crate) const fn lasts(&mut self, length: Duration) {
        self.length = length;
    }

    /// Index of a flow's entry. The last index is checked first, because a packet often leaves
    /// before another arrives.
    fn find(&mut self, flow_hash: u32) -> Option<usize> {
        let is = |entry: &Entry| entry.interval > 0 && entry.flow_hash == flow_hash;
        if !self.entries.all().get(self.latest).is_some_and(is) {
            self.latest = self.entries.position(flow_hash, is)?;
        }
        Some(self.latest)
    }

    /// True if a packet with an XCP header, or without (`None`), may pass.
    pub(crate) fn admits(
        &mut self,
        now: Instant,
        flow_hash: u32,
        header: Option<&XcpCarried>,
        bytes: u32,
    ) -> bool {
        let (interval, length) = (self.interval, self.length);
        let place = match self.find(flow_hash) {
            None if header.is_none() => return true,
            None => self.claim(now, flow_hash, bytes),
            found => found,
        };
        let admitted = place
            .and_then(|place| self.entries.all_mut().get_mut(place))
            .is_none_or(|entry| entry.admits(now, interval, length, header, bytes));
        self.refused += u64::from(!admitted);
        admitted
    }

    /// Lets the flow start with `rate`, in 2^-16 bytes per second, within the next intervals.
    pub(crate) fn on_granted(&mut self, now: Instant, flow_hash: u32, rate: u64) {
        let place = self
            .find(flow_hash)
            .or_else(|| self.claim(now, flow_hash, GRANT_BYTES));
        if let Some(entry) = place.and_then(|place| self.entries.all_mut().get_mut(place)) {
            entry.allowed = entry.allowed.max(rate);
            entry.kept_until = self.interval + GRANT_INTERVALS;
        }
    }

    /// Claims an entry for a new flow if an entry of its set may be reused.
    #[cold]
    fn claim(&mut self, now: Instant, flow_hash: u32, bytes: u32) -> Option<usize> {
        let (interval, length) = (self.interval, self.length);
        let old = |entry: &Entry| entry.interval + STALE < interval;
        self.latest = self.entries.position(flow_hash, old)?;
        let entry = self.entries.all_mut().get_mut(self.latest)?;
        *entry = Entry::new(now, flow_hash, interval, length, bytes);
        Some(self.latest)
    }

    pub(crate) fn on_answer(&mut self, flow_hash: u32, answer: &XcpAnswer) {
        let place = self.find(flow_hash);
        if let Some(entry) = place.and_then(|place| self.entries.all_mut().get_mut(place)) {
            let size = answer.delta.unsigned_abs();
            let sum = if answer.delta > 0 {
                &mut entry.given
            } else {
                &mut entry.taken
            };
            *sum = sum.saturating_add(size);
        }
    }
}

/// The rate of `packets` packets of `bytes` bytes per interval of `length`.
fn packets_per(length: Duration, packets: u64, bytes: u32) -> u64 {
    rate_q16(packets * u64::from(bytes), nanos(length))
}

impl Entry {
    fn new(now: Instant, flow_hash: u32, interval: u64, length: Duration, bytes: u32) -> Self {
        Self {
            flow_hash,
            interval,
            last: now,
            allowed: packets_per(length, 2 * BURST_PACKETS, bytes),
            tokens: 2 * BURST_PACKETS * u64::from(bytes),
            x_tokens: x_of(length),
            ..Self::default()
        }
    }

    /// Begins a new interval: answers and bytes sent determine the new allowance.
    fn turn(&mut self, interval: u64, length: Duration, bytes: u32) {
        let sent = rate_q16(self.bytes, nanos(length));
        let [oldest, newer] = self.taken_before;
        let mut allowed = self
            .allowed
            .saturating_add(self.given)
            .saturating_sub(oldest);
        if sent > allowed {
            allowed += (sent - allowed) / DRIFT_UP;
        } else if interval > self.kept_until {
            allowed -= (allowed - sent) / DRIFT_DOWN;
        }
        let passed = interval - self.interval;
        self.allowed = allowed.max(packets_per(length, LEAST_PACKETS, bytes));
        self.taken_before = if passed > 1 {
            [0; DELAY]
        } else {
            [newer, self.taken]
        };
        self.interval = interval;
        (self.bytes, self.given, self.taken) = (0, 0, 0);
    }

    fn admits(
        &mut self,
        now: Instant,
        interval: u64,
        length: Duration,
        header: Option<&XcpCarried>,
        bytes: u32,
    ) -> bool {
        if self.interval != interval {
            self.turn(interval, length, bytes);
        }
        let size = u64::from(bytes);
        let elapsed = ns_since(now, self.last).min(2 * nanos(length));
        self.last = now;
        let passed = elapsed + elapsed / SLACK;
        // Grants can take effect within the interval.
        let rate = self.allowed.saturating_add(self.given) >> 16;
        let burst = mul_div(rate, nanos(length) / SLACK, 1_000_000_000) + BURST_PACKETS * size;
        let more = mul_div(rate, passed, 1_000_000_000);
        // For slow flows, the burst covers fractions of a byte.
        self.tokens = self.tokens.saturating_add(more).min(burst.max(self.tokens));
        let x_more = x_of(Duration::from_nanos(passed));
        let x = header.map_or(0, |header| header.x);
        let x_burst = x_of(length) / SLACK + x.min(x_of(length)).saturating_mul(BURST_PACKETS);
        self.x_tokens = self.x_tokens.saturating_add(x_more).min(x_burst);
        if self.tokens < size || self.x_tokens < x.min(x_of(length)) {
            return false;
        }
        self.tokens -= size;
        self.x_tokens -= x.min(x_of(length));
        self.bytes = self.bytes.saturating_add(size);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, header, ms};

    fn granting(delta: i64) -> XcpAnswer {
        XcpAnswer {
            delta,
            bounding: true,
            ..XcpAnswer::default()
        }
    }

    /// Simulates a flow of 1500-byte packets that states 100 packets per interval of 100 ms and
    /// sends `times` as many, for `intervals`. Each packet is answered with `answer` in bytes per
    /// second. Returns the share admitted in the last ten intervals.
    fn admitted(times: u64, intervals: u64, answer: i64) -> f64 {
        let mut policer = Policer::new();
        let header = header(100_000, x_of(ms(1)), 0);
        let (mut sent, mut passed) = (0, 0);
        for interval in 0..intervals {
            policer.begin(ms(100));
            for n in 0..100 * times {
                let now = Instant::from_micros(100_000 * interval + n * 1000 / times);
                let ok = policer.admits(now, 77, Some(&header), 1500);
                if ok {
                    policer.on_answer(77, &granting(answer << 16));
                }
                if interval + 10 >= intervals {
                    sent += 1;
                    passed += u64::from(ok);
                }
            }
        }
        passed as f64 / sent as f64
    }

    #[test]
    fn a_flow_that_does_as_it_says_and_is_told_passes() {
        // Feedback of zero, after feedback that led to this rate.
        let mut policer = Policer::new();
        let header = header(100_000, x_of(ms(1)), 0);
        policer.begin(ms(100));
        assert!(policer.admits(Instant::ZERO, 77, Some(&header), 1500));
        policer.on_answer(77, &granting(1_500_000 << 16));
        for n in 0..10_000u64 {
            if n % 100 == 0 {
                policer.begin(ms(100));
            }
            let now = at(100 + n);
            assert!(policer.admits(now, 77, Some(&header), 1500), "{n}");
            // The flow's packets without a header, and other traffic.
            assert!(policer.admits(now, 78, None, 1500));
        }
        assert_eq!(policer.refused(), 0);
    }

    #[test]
    fn a_flow_that_sends_more_than_it_states_is_cut_to_that() {
        let share = admitted(10, 40, 150_000);
        assert!((0.05..=0.15).contains(&share), "{share}");
    }

    #[test]
    fn a_flow_that_ignores_what_is_taken_is_cut_to_nearly_nothing() {
        // A tenth of its rate is taken per interval.
        let share = admitted(1, 80, -1_500);
        assert!(share <= 0.1, "{share}");
    }

    #[test]
    fn the_table_has_room_for_as_many_as_it_has_and_lets_others_pass() {
        let mut policer = Policer::new();
        let header = header(100_000, 1, 0);
        policer.begin(ms(100));
        for flow in 0..100_000u32 {
            let now = Instant::from_micros(u64::from(flow));
            assert!(policer.admits(now, flow, Some(&header), 1500));
        }
        assert_eq!(policer.refused(), 0);
        assert!(policer.entries.all().iter().all(|e| e.interval > 0));
    }
}
