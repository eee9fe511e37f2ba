//! VCP packets at an XCP port: what XCP would tell their flows, said in VCP's codes.
//!
//! An XCP flow that is there for a whole interval is given an equal share of the positive pool and loses of the negative one by its bytes.
//! A VCP flow has the same coming to it. A surplus is LOW, with the r that makes a BISE sender grow by it; a deficit is HIGH and
//! piles up, and once it has reached what a multiplicative decrease takes, it is an OVER. So both kinds grow by equal amounts and shrink
//! in proportion, at an equal rate.
//!
//! Flows are told apart by a hash in a table of fixed size; two in one slot count as one.

use super::efficiency::rate_q16;
use super::fairness::Pools;
use crate::arith::{mul_div, nanos};
use crate::{Duration, VcpCode};

/// Slots; a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;

/// What an OVER takes: an eighth (β = 0.875).
const CUT: u64 = 8;
/// What r = 1 gives per interval: ten times the rate (ε of BISE).
const BISE_EPSILON: u64 = 10;
/// What LOW gives a VCP sender without BISE per interval: a sixteenth (ε = 0.0625).
const PLAIN_LOW: u64 = 16;
/// Packets that a flow is taken to have before it was seen for a whole interval.
const INITIAL_PACKETS: u64 = 10;

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
    /// What could not be taken smoothly, in 2^-16 bytes per second.
    debt: u64,
    /// Surplus of the running interval as a share of the rate, in 2^-16.
    surplus_q16: u64,
    code: VcpCode,
}

const EMPTY: Slot = Slot {
    interval: 0,
    bytes: 0,
    debt: 0,
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
    /// What a flow that was there all the time is given.
    share: u64,
    /// Flows seen in the running interval.
    active: u64,
}

impl Guests {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![EMPTY; SLOTS].into_boxed_slice(),
            interval: 2,
            last_ns: 1,
            share: 0,
            active: 0,
        }
    }

    #[inline]
    fn index(flow_hash: u32) -> usize {
        usize::try_from(flow_hash.wrapping_mul(0x9E37_79B1) >> (32 - SLOT_BITS)).unwrap_or(0)
    }

    /// Flows seen in the interval that ends: each counts like an XCP flow that was there all the time.
    pub(crate) const fn active(&self) -> u64 {
        self.active
    }

    /// An interval of length `last` is over; each flow's share of the next one's positive pool is `share`.
    pub(crate) fn begin(&mut self, last: Duration, share: u64) {
        self.interval += 1;
        self.last_ns = nanos(last).max(1);
        self.share = share;
        self.active = 0;
    }

    /// A packet of a flow arrived.
    #[inline]
    pub(crate) fn count(&mut self, flow_hash: u32, bytes: u32, pools: &mut Pools) {
        let (interval, share, last_ns) = (self.interval, self.share, self.last_ns);
        let Some(slot) = self.slots.get_mut(Self::index(flow_hash)) else {
            return;
        };
        if slot.interval != interval {
            self.active += 1;
            if slot.interval + 1 < interval {
                *slot = EMPTY;
            }
            slot.judge(bytes, share, last_ns, pools);
            slot.interval = interval;
            slot.bytes = 0;
        }
        slot.bytes = slot.bytes.saturating_add(u64::from(bytes));
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

    /// Forgets all flows.
    pub(crate) fn clear(&mut self) {
        self.interval += 2;
        self.active = 0;
        self.share = 0;
    }
}

impl Slot {
    /// A flow's first packet of an interval: settles what the last one's bytes have coming.
    fn judge(&mut self, packet: u32, share: u64, last_ns: u64, pools: &mut Pools) {
        let initial = u64::from(packet).saturating_mul(INITIAL_PACKETS);
        let rate = rate_q16(self.bytes.max(initial), last_ns).max(1);
        let net = pools.settle_flow(share, self.bytes);
        self.surplus_q16 = 0;
        if let Ok(surplus) = u64::try_from(net) {
            let paid = surplus.min(self.debt);
            self.debt -= paid;
            self.surplus_q16 = mul_div(surplus - paid, 1 << 16, rate);
            self.code = VcpCode::Low;
            return;
        }
        self.debt = self.debt.saturating_add(net.unsigned_abs());
        let cut = rate / CUT;
        if self.debt >= cut {
            // What is more than one cut was told for nothing: the next interval measures what is left.
            self.debt = 0;
            self.code = VcpCode::Over;
        } else {
            self.code = VcpCode::High;
        }
    }
}
