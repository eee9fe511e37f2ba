//! VCP packets at an XCP port: expresses XCP's feedback for their flows in VCP's codes.
//!
//! An XCP flow that is active for a whole interval gets an equal share of the positive pool and a
//! share of the negative pool according to its bytes. A VCP flow should get the same. Therefore the
//! port computes the rate that an XCP flow would have instead, the due rate, and compares it with
//! the flow's measured rate. A flow below its due rate gets LOW, with the r that makes a BISE
//! sender grow by half of the difference. A flow more than a sixteenth above it gets OVER, which
//! takes an eighth. Between them the code is HIGH, under which senders keep their additive
//! increase.
//!
//! The effect of a code becomes visible a round trip after the port wrote it, and complete after
//! another round trip. Rates are therefore compared once per *look*: the code is sent in its first
//! interval, then the flow's round trip passes, and the last interval is measured. A sender that
//! received LOW during the whole look would continue growing before its rate is measured, and would
//! end at several times the due rate, so it receives HIGH after the first interval. A flow more
//! than a third above its due rate receives OVER during the entire look, because senders cut only
//! once per interval and round trip.
//!
//! A hash in a table of fixed size identifies a flow, and flows in the same slot count as one flow.

use super::controllers::Pools;
use super::sums::WeightedRtt;
use crate::base::arith::{micros, mul_div, nanos, ns_since};
use crate::base::flow_table::FlowTable;
use crate::base::{Duration, Instant};
use crate::signals::VcpCode;
use crate::xcp::params::{rate_q16, x_of};

/// The highest ten bits of the mixed hash select a slot.
type Slots = FlowTable<Slot, 1024, 1, 22>;

/// The smallest interval that VCP packets carry, half of VCP's usual interval. Longer intervals are
/// the port's own.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of intervals in which a look waits for a round trip, whatever RTT the flow
/// states.
const LONGEST_WAIT: u64 = 8;
/// Number of additional intervals of a look: the first carries the code, and the last is measured.
const STATED_AND_MEASURED: u64 = 2;
/// A rate that exceeds the due rate by more than this part of itself is OVER.
const TOO_MUCH: u64 = 16;
/// The due rate is between 1/`SPREAD` and `SPREAD` times the flow's rate, because a flow that does
/// not use its due rate loses it.
const SPREAD: u64 = 2;
/// Factor by which an unused due rate shrinks per look.
const UNUSED: (u64, u64) = (3, 4);
/// Twice the growth for r = 1 per look, which is ten times the rate (ε of BISE), because the r sent
/// covers half of the difference.
const BISE_EPSILON: u64 = 20;
/// A VCP sender without BISE grows by this part of its rate per interval under LOW (ε = 0.0625).
const PLAIN_LOW: u64 = 16;
/// A rate that exceeds the due rate by more than this part of the due rate is OVER for a whole
/// look.
const FAR_TOO_MUCH: u64 = 3;
/// Window in packets that a flow is assumed to have before it has been seen for a whole interval.
const INITIAL_PACKETS: u64 = 10;
/// A flow seen again after more than this many intervals counts as a new flow; a flow seen less
/// often than every interval counts for the intervals between.
const STALE: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VcpMark {
    pub(crate) code: VcpCode,
    /// r of a BISE sender, in 2^-16; 65 535 means 1.
    pub(crate) r: u16,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The interval to which `bytes` belongs.
    interval: u64,
    bytes: u64,
    /// Start of the current part of a look, and the bytes since then.
    since: Instant,
    seen: u64,
    /// Completed parts of the current look, out of `parts`. The last part is measured.
    part: u64,
    parts: u64,
    /// The rate that an XCP flow would have, in 2^-16 bytes per second.
    due: u64,
    /// Given minus taken, in 2^-16 bytes per second.
    given: i64,
    /// The missing rate, as a share of the flow's rate in 2^-16.
    surplus_q16: u64,
    code: VcpCode,
    /// Number of parts of a look that carry the code; the others carry HIGH.
    reported_for: u64,
}

const EMPTY: Slot = Slot {
    interval: 0,
    bytes: 0,
    since: Instant::ZERO,
    seen: 0,
    part: 0,
    parts: STATED_AND_MEASURED + 1,
    due: 0,
    given: 0,
    surplus_q16: 0,
    code: VcpCode::Low,
    reported_for: 1,
};

#[derive(Clone, Debug)]
pub(crate) struct VcpFlows {
    slots: Slots,
    interval: u64,
    /// Length of the last interval in ns.
    last_ns: u64,
    advertised: Duration,
    /// The share of a flow that was active during the whole interval.
    share: u64,
    /// Number of flows seen in the current interval, number of these flows that stated an RTT, and
    /// sum of these RTTs in µs.
    active: u64,
    stating: u64,
    rtts_us: u64,
}

impl VcpFlows {
    pub(crate) fn new() -> Self {
        Self {
            slots: Slots::new(EMPTY),
            interval: STALE + 1,
            last_ns: 1,
            advertised: LEAST_INTERVAL,
            share: 0,
            active: 0,
            stating: 0,
            rtts_us: 0,
        }
    }

    /// Number of flows seen in the current interval, each of which counts as an XCP flow that was
    /// active during the whole interval.
    pub(crate) const fn active(&self) -> u64 {
        self.active
    }

    /// RTTs of the flows, each weighted like that of an XCP flow active for `elapsed`.
    pub(crate) fn rtts(&self, elapsed: Duration) -> WeightedRtt {
        let x = u128::from(x_of(elapsed));
        WeightedRtt {
            x: u128::from(self.stating) * x,
            x_rtt: u128::from(self.rtts_us) * x,
        }
    }

    pub(crate) const fn stated_interval(&self) -> Duration {
        self.advertised
    }

    /// Ends an interval of length `last`; the next interval has length `next`, and each flow's
    /// share of its positive pool is `share`.
    pub(crate) fn begin(&mut self, last: Duration, next: Duration, share: u64) {
        self.interval += 1;
        self.last_ns = nanos(last).max(1);
        self.advertised = next.max(LEAST_INTERVAL);
        self.share = share;
        (self.active, self.stating, self.rtts_us) = (0, 0, 0);
    }

    /// Counts an arriving packet of a flow. Returns the net change: given minus taken.
    pub(crate) fn count(
        &mut self,
        now: Instant,
        flow_hash: u32,
        bytes: u32,
        rtt: Option<Duration>,
        pools: &mut Pools,
    ) -> i64 {
        let interval = self.interval;
        let mut net = 0;
        let slot = self.slots.get_mut(flow_hash);
        if slot.interval != interval {
            let (share, advertised) = (self.share, nanos(self.advertised));
            let passed = interval - slot.interval;
            if passed > STALE {
                *slot = Slot::new(now, bytes, self.last_ns);
                let rate = slot.due;
                net = slot.settle(share, pools);
                slot.judge(rate);
            } else {
                net = slot.settle(share.saturating_mul(passed), pools);
                slot.turn(now, advertised, rtt.map_or(0, nanos));
            }
            let times = passed.min(STALE);
            self.active += times;
            if let Some(rtt) = rtt {
                self.stating += times;
                self.rtts_us = self.rtts_us.saturating_add(micros(rtt) * times);
            }
            slot.interval = interval;
            slot.bytes = 0;
        }
        slot.bytes = slot.bytes.saturating_add(u64::from(bytes));
        slot.seen = slot.seen.saturating_add(u64::from(bytes));
        net
    }

    /// Counts a packet without a request, with [`count`](Self::count), if another packet of its
    /// flow carried a request lately. A VCP sender controlled by CUBIC puts requests on few packets
    /// only.
    pub(crate) fn count_silent(
        &mut self,
        now: Instant,
        flow_hash: u32,
        bytes: u32,
        pools: &mut Pools,
    ) -> i64 {
        if self.interval - self.slots.get(flow_hash).interval <= STALE {
            self.count(now, flow_hash, bytes, None, pools)
        } else {
            0
        }
    }

    /// The mark of the flow's packets during this interval.
    pub(crate) fn mark(&self, flow_hash: u32, bise: bool) -> VcpMark {
        let slot = self.slots.get(flow_hash);
        let (r, reported_for) = match (slot.code, bise) {
            // Without BISE, LOW gives a sixteenth per interval, so the number of LOW intervals
            // makes up half of the difference.
            (VcpCode::Low, false) => {
                let step = (1 << 16) / PLAIN_LOW;
                (0, (slot.surplus_q16 + step / 2) / step)
            }
            _ => (slot.surplus_q16 / BISE_EPSILON, slot.reported_for),
        };
        VcpMark {
            code: if slot.part < reported_for {
                slot.code
            } else {
                VcpCode::High
            },
            r: u16::try_from(r).unwrap_or(u16::MAX),
        }
    }

    /// Given minus taken for a flow seen lately, and at least 0, in 2^-16 bytes per second.
    pub(crate) fn given(&self, flow_hash: u32) -> i64 {
        let slot = self.slots.get(flow_hash);
        if self.interval - slot.interval <= STALE {
            slot.given.max(0)
        } else {
            0
        }
    }

    /// Returns the same amount and counts it as taken back.
    pub(crate) fn take_back(&mut self, flow_hash: u32) -> i64 {
        let given = self.given(flow_hash);
        self.slots.get_mut(flow_hash).given -= given;
        given
    }

    pub(crate) fn clear(&mut self) {
        self.interval += STALE + 1;
        (self.active, self.stating, self.rtts_us) = (0, 0, 0);
        self.share = 0;
    }
}

impl Slot {
    fn new(now: Instant, packet: u32, last_ns: u64) -> Self {
        let initial = u64::from(packet).saturating_mul(INITIAL_PACKETS);
        Self {
            since: now,
            due: rate_q16(initial, last_ns),
            ..EMPTY
        }
    }

    /// Settles a flow at its first packet of an interval: the share and the bytes of the last
    /// interval change the due rate.
    fn settle(&mut self, share: u64, pools: &mut Pools) -> i64 {
        let net = pools.settle_flow(share, self.bytes);
        self.due = self.due.saturating_add_signed(net);
        self.given = self.given.saturating_add(net);
        net
    }

    /// Compares rates if a look is over. Packets carry an interval of `advertised` ns, and the
    /// flow's round trip is `rtt` ns (0 if unknown).
    fn turn(&mut self, now: Instant, advertised: u64, rtt: u64) {
        let passed = ns_since(now, self.since);
        // Intervals begin with packets, so they can differ slightly in length.
        if passed < advertised - advertised / 8 {
            return;
        }
        let rate = rate_q16(self.seen, passed).max(1);
        self.since = now;
        self.seen = 0;
        self.part += 1;
        if rtt > 0 {
            let wait = rtt.div_ceil(advertised.max(1));
            self.parts = STATED_AND_MEASURED + wait.clamp(1, LONGEST_WAIT);
        }
        if self.part < self.parts {
            return;
        }
        self.part = 0;
        if self.due > rate.saturating_mul(SPREAD) {
            let less = mul_div(self.due, UNUSED.0, UNUSED.1);
            self.due = less.max(rate.saturating_mul(SPREAD));
        }
        self.due = self.due.max(rate / SPREAD);
        self.judge(rate);
    }

    /// Chooses the code that brings the flow from `rate` to the due rate.
    fn judge(&mut self, rate: u64) {
        let rate = rate.max(1);
        self.surplus_q16 = 0;
        if let Some(missing) = self.due.checked_sub(rate) {
            self.surplus_q16 = mul_div(missing, 1 << 16, rate);
            self.code = VcpCode::Low;
            self.reported_for = 1;
        } else if rate - self.due > rate / TOO_MUCH {
            self.code = VcpCode::Over;
            let far = rate - self.due > self.due / FAR_TOO_MUCH;
            self.reported_for = if far { u64::MAX } else { 1 };
        } else {
            self.code = VcpCode::High;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_ask_with_few_packets_are_told_by_all_that_they_send() {
        let (mut guests, mut pools) = (VcpFlows::new(), Pools::default());
        let interval = Duration::from_millis(100);
        for n in 0..40 {
            guests.begin(interval, interval, 0);
            for packet in 0..64 {
                let now = Instant::from_micros(n * 100_000 + packet * 1500);
                let _ = guests.count(now, 1, 1500, None, &mut pools);
                let _ = match packet {
                    0 => guests.count(now, 2, 1500, None, &mut pools),
                    _ => guests.count_silent(now, 2, 1500, &mut pools),
                };
                let _ = guests.count_silent(now, 3, 1500, &mut pools);
            }
            assert!(n == 0 || guests.active() == 2, "one never asks");
            assert_eq!(guests.mark(1, true), guests.mark(2, true));
        }
        assert_eq!(guests.mark(2, true).code, VcpCode::Over);
    }

    /// Codes, interval by interval, of the packets of a flow whose due rate is always above its
    /// rate.
    fn reported_in_turn(rtt: Option<Duration>, bise: bool) -> Vec<VcpCode> {
        let (mut guests, interval) = (VcpFlows::new(), Duration::from_millis(100));
        let in_interval = |n: u64| {
            let mut pools = Pools::new(1 << 40, 0, 1, 1);
            guests.begin(interval, interval, 1 << 34);
            for packet in 0..20 {
                let now = Instant::from_micros(n * 100_000 + packet * 5000);
                let _ = guests.count(now, 1, 1500, rtt, &mut pools);
            }
            guests.mark(1, bise).code
        };
        (0..18).map(in_interval).collect()
    }

    /// The effect of a code becomes visible after a round trip, so the flow stops growing until its
    /// rate is measured.
    #[test]
    fn a_flow_grows_in_one_interval_of_a_look_that_lasts_for_its_round_trip() {
        let runs = |codes: &[VcpCode]| -> Vec<usize> {
            let lows = codes.iter().enumerate();
            let lows = lows.filter(|(_, code)| **code == VcpCode::Low);
            let at: Vec<usize> = lows.map(|(n, _)| n).collect();
            at.windows(2).map(|pair| pair[1] - pair[0]).collect()
        };
        for (rtt, look) in [(None, 3), (Some(20), 3), (Some(100), 3), (Some(400), 6)] {
            let codes = reported_in_turn(rtt.map(Duration::from_millis), true);
            assert!(!codes.contains(&VcpCode::Over), "{codes:?}");
            let apart = runs(&codes);
            assert!(apart.len() >= 2, "{rtt:?}: {codes:?}");
            let later = apart.get(1..).unwrap();
            assert!(later.iter().all(|n| *n == look), "{rtt:?}: {codes:?}");
        }
        // The same with an absurdly long stated round trip.
        let codes = reported_in_turn(Some(Duration::from_secs(3600)), true);
        assert!(runs(&codes).contains(&10), "{codes:?}");
        // A sixteenth per interval is too little growth to wait for.
        let codes = reported_in_turn(None, false);
        assert!(runs(&codes).iter().all(|n| *n == 1), "{codes:?}");
    }
}
