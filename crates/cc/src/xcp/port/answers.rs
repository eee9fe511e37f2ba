//! How a port answers a packet.

use super::XcpLink;
use super::overflow::Overflow;
use super::sums::x_of_window;
use crate::signals::{VcpAnswer, VcpCarried, VcpCode, XcpAnswer, XcpCarried};
use crate::xcp::fixed::rate_q16;
use crate::xcp::params::RTT_SPREAD;
use crate::xcp::window_form::WindowForm;

impl XcpLink {
    #[inline]
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

    #[inline]
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
#[inline]
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
