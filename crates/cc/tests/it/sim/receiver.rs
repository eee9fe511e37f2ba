//! The receiving half of a flow: counts arrivals, and reports them in acknowledgements.

use pathmark_cc::{Duration, Instant, VcpCode, VcpFeedback, XcpFeedback};

use super::flow::Flow;
use super::hop::Packet;

/// Time that the receiver waits for a second packet.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// The fields of an ACK packet: ranges as a list of newly arrived numbers, and the counters.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(super) arrived: Vec<u64>,
    /// How long the last of them had waited.
    pub(super) held: Duration,
    pub(super) counters: VcpFeedback,
    pub(super) xcp: XcpFeedback,
    pub(super) order: u64,
}

#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) pending: Vec<u64>,
    /// When the last of them arrived.
    pub(super) arrived: Instant,
    pub(super) counters: VcpFeedback,
    pub(super) xcp: XcpFeedback,
    pub(super) acks: u64,
    pub(super) bytes: u64,
}

impl Flow {
    /// Counts a packet; `Some` asks for an ACK timer.
    pub(crate) fn deliver(&mut self, now: Instant, packet: &Packet) -> Option<Duration> {
        let receiver = &mut self.receiver;
        receiver.arrived = now;
        receiver.bytes += self.app_bytes;
        let slot = (now.as_nanos() / 100_000_000) as usize;
        if self.delivered_slots.len() <= slot {
            self.delivered_slots.resize(slot + 1, 0);
        }
        self.delivered_slots[slot] += self.app_bytes;
        if self.completed.is_none() && self.config.bytes.is_some_and(|all| receiver.bytes >= all) {
            self.completed = Some(now - self.config.start_at());
        }
        if self.config.constant.is_some() {
            return None;
        }
        if let Some(shim) = packet.shim {
            let code = if shim.hops == 0 && !self.ecn {
                VcpCode::None
            } else {
                shim.carried.code
            };
            let counters = &mut receiver.counters;
            counters.packets[code as usize] += 1;
            counters.bytes[code as usize] += self.mtu;
            if self.ecn {
                counters.sum_r += u64::from(code == VcpCode::Low) << 16;
                receiver.pending.push(packet.number);
                return (receiver.pending.len() == 1).then_some(ACK_DELAY);
            }
            if code == VcpCode::Low {
                counters.sum_r += match shim.r {
                    None | Some(u16::MAX) => 65_536,
                    Some(r) => u64::from(r),
                };
            }
            counters.t_rho = shim.t_rho;
            counters.hops = shim.hops;
            counters.bise = shim.carried.bise;
            counters.carried_r = shim.r.is_some();
            counters.load_128 = shim.load_128;
        }
        if let Some(xcp) = packet.xcp
            && xcp.carried.covers > 0
        {
            let counters = &mut receiver.xcp;
            counters.packets += 1;
            counters.bytes += self.mtu;
            if xcp.stamped {
                counters.stamped += 1;
                counters.delta += xcp.carried.delta;
            }
        }
        receiver.pending.push(packet.number);
        (receiver.pending.len() == 1).then_some(ACK_DELAY)
    }

    pub(crate) fn acks_sent(&self) -> u64 {
        self.receiver.acks
    }

    pub(crate) fn make_ack(&mut self, now: Instant, force: bool) -> Option<Box<Ack>> {
        let receiver = &mut self.receiver;
        let enough = receiver.pending.len() >= 2 || (force && !receiver.pending.is_empty());
        if !enough {
            return None;
        }
        receiver.acks += 1;
        Some(Box::new(Ack {
            arrived: std::mem::take(&mut receiver.pending),
            held: now - receiver.arrived,
            counters: receiver.counters,
            xcp: receiver.xcp,
            order: receiver.acks,
        }))
    }
}

pub(super) fn difference(older: &VcpFeedback, newer: &VcpFeedback) -> VcpFeedback {
    let mut feedback = *newer;
    for code in 0..4 {
        feedback.packets[code] -= older.packets[code];
        feedback.bytes[code] -= older.bytes[code];
    }
    feedback.sum_r -= older.sum_r;
    feedback
}

pub(super) fn xcp_difference(older: &XcpFeedback, newer: &XcpFeedback) -> XcpFeedback {
    XcpFeedback {
        delta: newer.delta - older.delta,
        packets: newer.packets - older.packets,
        stamped: newer.stamped - older.stamped,
        bytes: newer.bytes - older.bytes,
        ..*newer
    }
}
