//! What tests of ports share: packets, an owner that records, a port of two classes, a law.

use pathmark_cc::{
    Answer, Arrival, Carried, Duration, Ecn, Instant, LinkController, LinkMetrics, VcpCarried,
    VcpCode,
};

use crate::port::Port;
use crate::queue::{DropTail, Limit, Owner, Queued};
use crate::separation::Separation;
use crate::shaper::Shaper;
use crate::stats::DropCause;

pub(crate) const VCP: Carried = Carried::Vcp(VcpCarried {
    code: VcpCode::Low,
    min_rtt: None,
    bise: false,
    carries_r: true,
});

/// A packet of the flow with this number.
pub(crate) fn packet(flow: u32, bytes: u32, carried: Carried) -> Arrival {
    Arrival {
        bytes,
        flow_hash: flow.wrapping_mul(0x85EB_CA6B),
        carried,
    }
}

/// A foreign packet in a queue since this time.
pub(crate) fn queued(id: u32, bytes: u32, since: Instant) -> Queued<u32> {
    Queued {
        packet: id,
        arrival: packet(0, bytes, Carried::Foreign),
        frame: bytes,
        packets: 1,
        since,
    }
}

/// A port of two drop-tail classes that share `limit`, with this rate in bytes per second.
pub(crate) fn separated(rate: u64, limit: Limit) -> Port<u32> {
    let queue = || Box::new(DropTail::new(limit));
    let queues = Separation::new(queue(), queue(), limit);
    Port::separated(Instant::ZERO, queues, Shaper::new(Some(rate)))
}

/// Records marks and drops. The two low bits of a packet's number are its ECN field.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) marks: Vec<(u32, Answer)>,
    pub(crate) ce: Vec<u32>,
    pub(crate) drops: Vec<(u32, DropCause)>,
}

impl Owner<u32> for Log {
    fn mark(&mut self, packet: &mut u32, answer: &Answer) {
        self.marks.push((*packet, *answer));
    }
    fn ecn(&self, packet: &u32) -> Ecn {
        Ecn::from_bits(packet.to_be_bytes()[3])
    }
    fn mark_ce(&mut self, packet: &mut u32) {
        self.ce.push(*packet);
    }
    fn dropped(&mut self, packet: u32, cause: DropCause) {
        self.drops.push((packet, cause));
    }
}

/// A law that gives every packet the same answer.
#[derive(Debug)]
pub(crate) struct Steady {
    pub(crate) interval: Duration,
    pub(crate) answer: Answer,
    /// Only one packet in so many is admitted.
    pub(crate) admits_one_in: u32,
    pub(crate) seen: u32,
}

impl LinkController for Steady {
    fn admits(&mut self, _: Instant, _: &Arrival) -> bool {
        self.seen = self.seen.wrapping_add(1);
        self.seen.is_multiple_of(self.admits_one_in)
    }
    fn on_arrival(&mut self, _: Instant, _: &Arrival, _: u64) {}
    fn on_departure(&mut self, _: Instant, _: &Arrival, _: u64) -> Answer {
        self.answer
    }
    fn on_timer(&mut self, _: Instant, _: u64) {}
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_capacity(&mut self, _: Instant, _: u64) {}
    fn metrics(&self) -> LinkMetrics {
        let mut metrics = LinkMetrics::default();
        metrics.interval = self.interval;
        metrics
    }
}
