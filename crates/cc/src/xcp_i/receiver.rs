//! A receiver behind a cloud: hops that are not XCP routers lie between the last router and itself
//! (the XCP-i paper, section III-B).
//!
//! It has the virtual routers that a port behind that cloud would have, and no port: requests are
//! lowered before they go back to their senders.

use super::table::Table;
use crate::base::Instant;
use crate::metrics::CloudMetrics;
use crate::signals::{
    Arrival, Carried, Cloud, CloudAnswer, CloudEstimate, Upstream, XcpAnswer, XcpCarried,
};
use crate::xcp::{CloudParams, XcpLinkParams};

/// The virtual routers of a receiver. Its caller [estimates](Self::on_estimate) the clouds.
///
/// It keeps 32 upstream routers, as ports do, and one whose cloud is known takes some 100 kB.
#[derive(Clone, Debug)]
pub struct ReceiverClouds {
    table: Table,
    counted: u64,
    unknown: u64,
    refused: u64,
}

impl Default for ReceiverClouds {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiverClouds {
    /// None known.
    pub fn new() -> Self {
        let clouds = CloudParams {
            measured: true,
            ..CloudParams::default()
        };
        Self {
            table: Table::new(&XcpLinkParams {
                clouds: Some(clouds),
                ..XcpLinkParams::default()
            }),
            counted: 0,
            unknown: 0,
            refused: 0,
        }
    }

    /// A packet came out of `cloud` with this header, which holds the rest of its sender's request.
    /// `bytes` are those of the IP packets that it stands for. The answer's `delta` is what goes
    /// back.
    pub fn on_packet(
        &mut self,
        now: Instant,
        bytes: u32,
        header: &XcpCarried,
        cloud: Cloud,
    ) -> XcpAnswer {
        let (upstream, hops) = (cloud.upstream, cloud.hops);
        let packet = Arrival {
            bytes,
            // Virtual routers have no policer and no VCP flows.
            flow_hash: 0,
            carried: Carried::Xcp(XcpCarried {
                covers: 1,
                cloud: None,
                ..*header
            }),
        };
        if !self.table.on_arrival(now, upstream, &packet, 0) {
            self.refused += 1;
        }
        let Some(answer) = self.table.on_departure(now, upstream, &packet, 0) else {
            self.unknown += 1;
            return XcpAnswer {
                delta: header.delta,
                cloud: CloudAnswer::Unknown { hops },
                ..XcpAnswer::default()
            };
        };
        self.counted += 1;
        XcpAnswer {
            delta: answer.delta.min(header.delta),
            cloud: CloudAnswer::Counted { hops },
            ..answer
        }
    }

    /// What is left of the cloud behind `upstream`, from now on. Nothing, unless packets come from
    /// there.
    pub fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.table.on_estimate(now, upstream, estimate);
    }

    /// Shows each upstream router, with the bytes that have come from it.
    pub fn visit(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        self.table.visit(visit);
    }

    /// Its counters of clouds.
    pub fn metrics(&self) -> CloudMetrics {
        self.table.metrics(self.counted, self.unknown, self.refused)
    }
}
