//! The start of traffic on an idle port: the first grants, recorded until they are used.

use crate::base::arith::mul_div;
use crate::xcp::fixed::to_q16;

/// The part of the capacity that an idle port gives in its first interval. It can safely be more
/// than α because all grants together, including later ones, do not exceed the capacity.
const FIRST_SHARE: (u64, u64) = (4, 5);
/// The start is over once this part of the grants has arrived.
const ARRIVED: (i128, i128) = (19, 20);
/// The start is also over after this number of intervals of full length, if flows do not use their
/// grants.
const INTERVALS: u32 = 3;

/// Grants of the first interval in 2^-16 bytes per second, for `capacity` bytes per second.
pub(crate) fn first(capacity: u64) -> u64 {
    mul_div(to_q16(capacity), FIRST_SHARE.0, FIRST_SHARE.1)
}

/// A start that is not over: most of the grants have yet to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Total given minus total taken at the beginning of the start, in 2^-16 bytes per second.
    net: i128,
    intervals: u32,
    full: u32,
    /// Whether all headers so far are from the same flow.
    heard: Heard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    None,
    One(u32),
    Several,
}

impl Start {
    pub(crate) const fn new(net: i128) -> Self {
        Self {
            net,
            intervals: 0,
            full: 0,
            heard: Heard::None,
        }
    }

    #[inline]
    pub(crate) fn hear(&mut self, flow: u32) {
        self.heard = match self.heard {
            Heard::None => Heard::One(flow),
            Heard::One(one) if one == flow => return,
            _ => Heard::Several,
        };
    }

    /// True if everything was given to `flow`.
    pub(crate) fn is_alone(&self, flow: u32) -> bool {
        self.heard == Heard::One(flow)
    }

    /// Given minus taken since the start began; `net` is the current total.
    pub(crate) const fn promised(&self, net: i128) -> i128 {
        net - self.net
    }

    /// Ends an interval with `input`, which had its full length (`full`) or was still growing to
    /// it. So far the port has given `net` more than it has taken. Returns `Some` with the first
    /// interval's share of the capacity that is neither used nor promised, or with `total` if that
    /// is more, as far as there is room. Returns `None` if the start is over.
    pub(crate) fn within(
        &mut self,
        total: i64,
        capacity: u64,
        input: u64,
        net: i128,
        full: bool,
    ) -> Option<i64> {
        let promised = self.promised(net);
        self.intervals += 1;
        self.full += u32::from(full);
        let arrived = i128::from(input) * ARRIVED.1 >= promised * ARRIVED.0;
        if arrived && self.intervals > 1 || total < 0 || self.full >= INTERVALS {
            return None;
        }
        let room = i128::from(capacity) - promised.max(i128::from(input));
        let room = i64::try_from(room.max(0)).unwrap_or(i64::MAX);
        let share = i128::from(room) * i128::from(FIRST_SHARE.0) / i128::from(FIRST_SHARE.1);
        Some(total.max(i64::try_from(share).unwrap_or(0)).min(room))
    }
}
