//! The port: virtual routers in front of an XCP controller.

use super::table::Table;
use super::{COVERED_WINDOW, MOST_COVERS};
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::LinkMetrics;
use crate::signals::{
    Answer, Arrival, Carried, Cloud, CloudAnswer, CloudEstimate, Upstream, XcpAnswer, XcpCarried,
};
use crate::xcp::{XcpLink, XcpLinkParams};

/// An XCP-i port.
#[derive(Clone, Debug)]
pub struct XcpILink {
    own: XcpLink,
    table: Table,
    covered: Covered,
    counted: u64,
    unknown: u64,
    refused: u64,
}

impl XcpILink {
    /// Creates a port that starts at `now` and sends `capacity` bytes per second.
    pub fn new(now: Instant, capacity: u64, params: XcpLinkParams) -> Self {
        Self {
            table: Table::new(&params),
            own: XcpLink::new(now, capacity, params),
            covered: Covered::new(now),
            counted: 0,
            unknown: 0,
            refused: 0,
        }
    }

    #[cfg(test)]
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }

    /// The packet for its virtual router, enlarged because all packets that its header stands for
    /// passed through the cloud.
    fn through(&self, packet: &Arrival, header: &XcpCarried) -> Arrival {
        Arrival {
            bytes: packet
                .bytes
                .saturating_mul(self.covered.believed(header.covers)),
            carried: Carried::Xcp(XcpCarried {
                covers: 1,
                cloud: None,
                ..*header
            }),
            ..*packet
        }
    }

    /// Answers a packet that arrived through a cloud and is leaving.
    fn answer(
        &mut self,
        now: Instant,
        packet: &Arrival,
        header: &XcpCarried,
        cloud: Cloud,
        queue: u64,
    ) -> Answer {
        let through = self.through(packet, header);
        let Some(virtual_answer) = self
            .table
            .on_departure(now, cloud.upstream, &through, queue)
        else {
            self.unknown += 1;
            let answer = self.own.on_departure(now, packet, queue);
            return with_cloud(answer, CloudAnswer::Unknown { hops: cloud.hops });
        };
        self.counted += 1;
        let lowered = Arrival {
            carried: Carried::Xcp(XcpCarried {
                delta: virtual_answer.delta.min(header.delta),
                ..*header
            }),
            ..*packet
        };
        let answer = match self.own.on_departure(now, &lowered, queue) {
            Answer::Xcp(answer) => Answer::Xcp(XcpAnswer {
                bounding: answer.bounding || virtual_answer.bounding,
                ..answer
            }),
            other => other,
        };
        with_cloud(answer, CloudAnswer::Counted { hops: cloud.hops })
    }
}

fn with_cloud(answer: Answer, cloud: CloudAnswer) -> Answer {
    match answer {
        Answer::Xcp(answer) => Answer::Xcp(XcpAnswer { cloud, ..answer }),
        other => other,
    }
}

const fn cloud_of(packet: &Arrival) -> Option<(&XcpCarried, Cloud)> {
    match &packet.carried {
        Carried::Xcp(header) => match header.cloud {
            Some(cloud) => Some((header, cloud)),
            None => None,
        },
        _ => None,
    }
}

impl LinkController for XcpILink {
    fn admits(&mut self, now: Instant, arrival: &Arrival) -> bool {
        self.own.admits(now, arrival)
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, queue: u64) {
        self.covered.count(now, arrival);
        if let Some((header, cloud)) = cloud_of(arrival) {
            let through = self.through(arrival, header);
            if !self.table.on_arrival(now, cloud.upstream, &through, queue) {
                self.refused += 1;
            }
        }
        self.own.on_arrival(now, arrival, queue);
    }

    fn on_departure(&mut self, now: Instant, packet: &Arrival, queue: u64) -> Answer {
        match cloud_of(packet) {
            Some((header, cloud)) => self.answer(now, packet, header, cloud, queue),
            None => self.own.on_departure(now, packet, queue),
        }
    }

    fn on_drop(&mut self, now: Instant, packet: &Arrival) {
        self.own.on_drop(now, packet);
    }

    fn on_set_aside(&mut self, now: Instant) {
        self.own.on_set_aside(now);
    }

    fn on_timer(&mut self, now: Instant, queue: u64) {
        self.own.on_timer(now, queue);
    }

    fn deadline(&self) -> Option<Instant> {
        self.own.deadline()
    }

    fn on_capacity(&mut self, now: Instant, bytes_per_second: u64) {
        self.own.on_capacity(now, bytes_per_second);
    }

    fn on_variation(&mut self, wait: Duration) {
        self.own.on_variation(wait);
    }

    fn on_buffer(&mut self, bytes: u64) {
        self.own.on_buffer(bytes);
    }

    fn promised(&self, now: Instant, flow_hash: u32) -> u64 {
        self.own.promised(now, flow_hash)
    }

    fn promised_again(&self, now: Instant, flow_hash: u32) -> u64 {
        self.own.promised_again(now, flow_hash)
    }

    fn room_percent(&self) -> u64 {
        self.own.room_percent()
    }

    fn on_granted(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        self.own.on_granted(now, flow_hash, bytes_per_second);
    }

    fn on_dealt_out(&mut self, now: Instant, flow_hash: u32, bytes_per_second: u64) {
        self.own.on_dealt_out(now, flow_hash, bytes_per_second);
    }

    fn on_grant_over(&mut self, now: Instant, bytes_per_second: u64, came: bool) {
        self.own.on_grant_over(now, bytes_per_second, came);
    }

    fn on_grant_unused(&mut self, now: Instant, began: Instant, bytes_per_second: u64) {
        self.own.on_grant_unused(now, began, bytes_per_second);
    }

    fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.table.on_estimate(now, upstream, estimate);
    }

    fn visit_clouds(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        self.table.visit(visit);
    }

    fn metrics(&self) -> LinkMetrics {
        let (counted, unknown, refused) = (self.counted, self.unknown, self.refused);
        LinkMetrics {
            clouds: Some(self.table.metrics(counted, unknown, refused)),
            ..self.own.metrics()
        }
    }
}

// How many packets a header may stand for, which is limited by the packets without a header.

/// Counts bytes with and without headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    since: Instant,
    all: u64,
    headed: u64,
    most: u16,
}

impl Covered {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            all: 0,
            headed: 0,
            most: MOST_COVERS,
        }
    }

    pub(crate) fn count(&mut self, now: Instant, arrival: &Arrival) {
        if now - self.since >= COVERED_WINDOW {
            self.turn(now);
        }
        let bytes = u64::from(arrival.bytes);
        self.all = self.all.saturating_add(bytes);
        if let Carried::Xcp(_) = arrival.carried {
            self.headed = self.headed.saturating_add(bytes);
        }
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        if self.headed > 0 {
            let most = self.all.div_ceil(self.headed).min(u64::from(MOST_COVERS));
            self.most = u16::try_from(most).unwrap_or(MOST_COVERS);
        }
        (self.since, self.all, self.headed) = (now, 0, 0);
    }

    /// Number of packets that a header with the field `covers` stands for.
    pub(crate) fn believed(&self, covers: u16) -> u32 {
        u32::from(covers.clamp(1, self.most))
    }
}
