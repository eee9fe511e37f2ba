//! How a port answers a packet.

use super::XcpLink;
use super::sums::x_of_window;
use crate::base::arith::mul_div;
use crate::signals::{VcpAnswer, VcpCarried, VcpCode, XcpAnswer, XcpCarried};
use crate::xcp::params::{RTT_SPREAD, WindowForm, rate_q16, to_q16};

impl XcpLink {
    pub(super) fn answer(&mut self, flow_hash: u32, header: &XcpCarried, bytes: u32) -> XcpAnswer {
        self.totals.stamped += 1;
        let x = if self.waking && self.params.guard {
            x_of_window(header, self.interval)
        } else {
            self.sums.x_granted(header, bytes)
        };
        if x == 0 {
            // A header without a window is granted nothing.
            return XcpAnswer {
                delta: header.delta.min(0),
                bounding: header.delta > 0,
                ..XcpAnswer::default()
            };
        }
        let stands_for = self.sums.settles_for(header, bytes);
        let new = self
            .known
            .as_ref()
            .is_some_and(|known| !known.is_known(flow_hash));
        let most = if new { self.newcomers.left() } else { u64::MAX };
        // A flow gives back at most its current rate, whatever RTT it states.
        let wanted = if header.delta < 0 && self.params.guard {
            let rtt_us = u64::from(header.rtt_us).max(self.mean_rtt_us / RTT_SPREAD);
            header.delta.max(-whole_rate(stands_for, rtt_us))
        } else {
            header.delta
        };
        let mut settled = self.pools.settle_within(wanted, x, stands_for, most);
        settled.delta = settled.delta.min(header.delta);
        if new {
            self.newcomers.take(settled.delta);
        }
        self.totals.add(settled.delta);
        let delta = if self.params.whole {
            whole_packets(settled.delta, header.rtt_us, bytes).min(header.delta)
        } else {
            settled.delta
        };
        XcpAnswer {
            delta,
            bounding: settled.bounding,
            ..XcpAnswer::default()
        }
    }

    pub(super) fn answer_guest(&self, flow_hash: u32, carried: &VcpCarried) -> VcpAnswer {
        let mut mark = self
            .vcp_flows
            .mark(flow_hash, carried.bise && carried.carries_r);
        if self.overflow != Overflow::No {
            mark.code = VcpCode::Over;
        }
        let load = self.seen.load_128;
        VcpAnswer {
            code: mark.code,
            r: carried.carries_r.then_some(mark.r),
            t_rho_ms: VcpAnswer::whole_millis(self.vcp_flows.stated_interval()),
            load_128: load,
            translated: true,
            ..VcpAnswer::default()
        }
    }
}

/// A packet's part of its flow's rate, spread over a round trip, in 2^-16 bytes per second.
fn whole_rate(bytes: u64, rtt_us: u64) -> i64 {
    rate_q16(bytes, rtt_us * 1000).cast_signed()
}

/// The nearest rate change to `delta` that changes the window by whole packets.
#[cold]
fn whole_packets(delta: i64, rtt_us: u32, bytes: u32) -> i64 {
    let form = WindowForm {
        rtt_us,
        ..WindowForm::default()
    };
    let packets = form.feedback_q12(delta, bytes).saturating_add(1 << 11) >> 12;
    WindowForm {
        feedback_q12: packets.saturating_mul(1 << 12),
        ..form
    }
    .delta(bytes)
}

// The start of traffic on an idle port: the first grants, recorded until they are used.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    No,
    /// In the current interval.
    Now,
    /// In the previous interval: nothing is given until an interval without drops has passed.
    Before,
}

impl Overflow {
    pub(crate) const fn turn(self) -> Self {
        match self {
            Self::Now => Self::Before,
            Self::Before | Self::No => Self::No,
        }
    }
}
