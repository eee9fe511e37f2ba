//! VCP packets at an XCP port: what XCP would tell their flows, said in VCP's codes.
//!
//! An XCP flow that is there for a whole interval is given an equal share of the positive pool and
//! loses of the negative one by its bytes. A VCP flow has the same coming to it: the port keeps the
//! rate that an XCP flow in its place would have, and compares it with the rate that the flow has.
//! Less is LOW, with the r that makes a BISE sender grow by half of what is missing; more than a
//! sixteenth above it is OVER, which takes an eighth; between them it is HIGH, under which senders
//! add what they add. A VCP sender answers more slowly than an XCP sender, so rates are compared
//! once per *look*: at least VCP's usual interval, half of which is left for the last code to take
//! effect. That is also the interval that its packets are told.
//!
//! Flows are told apart by a hash in a table of fixed size; two in one slot count as one.

use super::efficiency::rate_q16;
use super::fairness::Pools;
use crate::arith::{mul_div, nanos, ns_since};
use crate::{Duration, Instant, VcpCode};

/// Slots; a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;

/// A look lasts for two control intervals, and for VCP's usual interval at least.
const LEAST_LOOK: Duration = Duration::from_millis(200);
/// A rate above what is due by this part of itself is OVER.
const TOO_MUCH: u64 = 16;
/// What is due is at least this part of the rate, and at most so many times it, as a flow that does
/// not use it loses it …
const SPREAD: u64 = 2;
/// … by a quarter per look.
const UNUSED: (u64, u64) = (3, 4);
/// What r = 1 gives per look: ten times the rate (ε of BISE); half of what is due is told.
const BISE_EPSILON: u64 = 20;
/// What LOW gives a VCP sender without BISE per look: a sixteenth (ε = 0.0625).
const PLAIN_LOW: u64 = 16;
/// Packets that a flow is taken to have before it was seen for a whole interval.
const INITIAL_PACKETS: u64 = 10;
/// A flow seen again after so many intervals is another one; one seen less often counts for the
/// intervals between.
const STALE: u64 = 4;

/// What a VCP packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) code: VcpCode,
    /// r of a BISE sender, in 2^-16, 65 535 standing for 1.
    pub(crate) r: u16,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The interval to which `bytes` belongs.
    interval: u64,
    bytes: u64,
    /// When the running half of a look began, and what came since.
    since: Instant,
    seen: u64,
    /// It is the half that is measured.
    measuring: bool,
    /// The rate that an XCP flow would have, in 2^-16 bytes per second.
    due: u64,
    /// What it was given more than taken, in 2^-16 bytes per second.
    given: i64,
    /// What is missing, as a share of the rate, in 2^-16.
    surplus_q16: u64,
    code: VcpCode,
}

const EMPTY: Slot = Slot {
    interval: 0,
    bytes: 0,
    since: Instant::ZERO,
    seen: 0,
    measuring: false,
    due: 0,
    given: 0,
    surplus_q16: 0,
    code: VcpCode::Low,
};

/// VCP flows at the port.
#[derive(Clone, Debug)]
pub(crate) struct Guests {
    slots: Box<[Slot]>,
    /// Number of the running interval.
    interval: u64,
    /// Length of the last one in ns.
    last_ns: u64,
    look: Duration,
    /// What a flow that was there all the time is given.
    share: u64,
    /// Flows seen in the running interval.
    active: u64,
}

impl Guests {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; SLOTS].into_boxed_slice(),
            interval: STALE + 1,
            last_ns: 1,
            look: LEAST_LOOK,
            share: 0,
            active: 0,
        }
    }

    #[inline]
    fn index(flow_hash: u32) -> usize {
        usize::try_from(flow_hash.wrapping_mul(0x9E37_79B1) >> (32 - SLOT_BITS)).unwrap_or(0)
    }

    /// Flows seen in the interval that ends: each counts like an XCP flow that was there all the
    /// time.
    pub(crate) const fn active(&self) -> u64 {
        self.active
    }

    /// The interval that packets are told.
    pub(crate) const fn look(&self) -> Duration {
        self.look
    }

    /// An interval of length `last` is over; each flow's share of the next one's positive pool is
    /// `share`.
    pub(crate) fn begin(&mut self, last: Duration, next: Duration, share: u64) {
        self.interval += 1;
        self.last_ns = nanos(last).max(1);
        self.look = (2 * next).max(LEAST_LOOK);
        self.share = share;
        self.active = 0;
    }

    /// A packet of a flow arrived. Returns what that takes from the pools: given, less what is
    /// taken.
    #[inline]
    pub(crate) fn count(
        &mut self,
        now: Instant,
        flow_hash: u32,
        bytes: u32,
        pools: &mut Pools,
    ) -> i64 {
        let interval = self.interval;
        let mut net = 0;
        if let Some(slot) = self.slots.get_mut(Self::index(flow_hash)) {
            if slot.interval != interval {
                let (share, look) = (self.share, nanos(self.look));
                let passed = interval - slot.interval;
                if passed > STALE {
                    *slot = Slot::new(now, bytes, self.last_ns);
                    let rate = slot.due;
                    net = slot.settle(share, pools);
                    slot.judge(rate);
                } else {
                    net = slot.settle(share.saturating_mul(passed), pools);
                    slot.turn(now, look);
                }
                self.active += passed.min(STALE);
                slot.interval = interval;
                slot.bytes = 0;
            }
            slot.bytes = slot.bytes.saturating_add(u64::from(bytes));
            slot.seen = slot.seen.saturating_add(u64::from(bytes));
        }
        net
    }

    /// A packet arrived that asks nothing: it counts as [`count`](Self::count) says if others of
    /// its flow asked lately, for a VCP sender whose window is CUBIC's asks with few.
    #[inline]
    pub(crate) fn count_silent(
        &mut self,
        now: Instant,
        flow_hash: u32,
        bytes: u32,
        pools: &mut Pools,
    ) -> i64 {
        let slot = self.slots.get(Self::index(flow_hash));
        if slot.is_some_and(|slot| self.interval - slot.interval <= STALE) {
            self.count(now, flow_hash, bytes, pools)
        } else {
            0
        }
    }

    /// What the flow's packets are told during this interval.
    #[inline]
    pub(crate) fn told(&self, flow_hash: u32, bise: bool) -> Told {
        let Some(slot) = self.slots.get(Self::index(flow_hash)) else {
            return Told {
                code: VcpCode::High,
                r: 0,
            };
        };
        if slot.code != VcpCode::Low || bise {
            let r = slot.surplus_q16 / BISE_EPSILON;
            return Told {
                code: slot.code,
                r: u16::try_from(r).unwrap_or(u16::MAX),
            };
        }
        // Without BISE a LOW gives what it gives: it is said if at least half of that is due.
        let enough = slot.surplus_q16 >= (1 << 16) / (2 * PLAIN_LOW);
        Told {
            code: if enough { VcpCode::Low } else { VcpCode::High },
            r: 0,
        }
    }

    /// What a flow that was seen lately was given more than taken, in 2^-16 bytes per second.
    pub(crate) fn given(&self, flow_hash: u32) -> i64 {
        let slot = self.slots.get(Self::index(flow_hash));
        slot.filter(|slot| self.interval - slot.interval <= STALE)
            .map_or(0, |slot| slot.given.max(0))
    }

    /// The same, which counts as taken back from now on.
    pub(crate) fn take_back(&mut self, flow_hash: u32) -> i64 {
        let given = self.given(flow_hash);
        if let Some(slot) = self.slots.get_mut(Self::index(flow_hash)) {
            slot.given = slot.given.saturating_sub(given);
        }
        given
    }

    /// Forgets all flows.
    pub(crate) fn clear(&mut self) {
        self.interval += STALE + 1;
        self.active = 0;
        self.share = 0;
    }
}

impl Slot {
    /// A flow's first packet.
    fn new(now: Instant, packet: u32, last_ns: u64) -> Self {
        let initial = u64::from(packet).saturating_mul(INITIAL_PACKETS);
        Self {
            since: now,
            due: rate_q16(initial, last_ns),
            ..EMPTY
        }
    }

    /// A flow's first packet of an interval: what the last one's bytes have coming changes the rate
    /// that is due.
    fn settle(&mut self, share: u64, pools: &mut Pools) -> i64 {
        let net = pools.settle_flow(share, self.bytes);
        self.due = self.due.saturating_add_signed(net);
        self.given = self.given.saturating_add(net);
        net
    }

    /// Compares rates, if a look is over.
    fn turn(&mut self, now: Instant, look: u64) {
        let passed = ns_since(now, self.since);
        if passed < look / 2 {
            return;
        }
        let rate = rate_q16(self.seen, passed).max(1);
        self.since = now;
        self.seen = 0;
        self.measuring = !self.measuring;
        if self.measuring {
            return;
        }
        if self.due > rate.saturating_mul(SPREAD) {
            let less = mul_div(self.due, UNUSED.0, UNUSED.1);
            self.due = less.max(rate.saturating_mul(SPREAD));
        }
        self.due = self.due.max(rate / SPREAD);
        self.judge(rate);
    }

    /// The code that brings the flow from `rate` to what is due.
    fn judge(&mut self, rate: u64) {
        let rate = rate.max(1);
        self.surplus_q16 = 0;
        if let Some(missing) = self.due.checked_sub(rate) {
            self.surplus_q16 = mul_div(missing, 1 << 16, rate);
            self.code = VcpCode::Low;
        } else if rate - self.due > rate / TOO_MUCH {
            self.code = VcpCode::Over;
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
        let (mut guests, mut pools) = (Guests::new(), Pools::default());
        let interval = Duration::from_millis(100);
        for n in 0..40 {
            guests.begin(interval, interval, 0);
            for packet in 0..64 {
                let now = Instant::from_micros(n * 100_000 + packet * 1500);
                let _ = guests.count(now, 1, 1500, &mut pools);
                let _ = match packet {
                    0 => guests.count(now, 2, 1500, &mut pools),
                    _ => guests.count_silent(now, 2, 1500, &mut pools),
                };
                let _ = guests.count_silent(now, 3, 1500, &mut pools);
            }
            assert!(n == 0 || guests.active() == 2, "one never asks");
            assert_eq!(guests.told(1, true), guests.told(2, true));
        }
        assert_eq!(guests.told(2, true).code, VcpCode::Over);
    }
}
