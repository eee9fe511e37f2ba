//! A receiver behind a cloud, with hops between the last router and itself that are not XCP routers
//! (the XCP-i paper, section III-B).
//!
//! It has the virtual routers that a port behind the cloud would have, but no port: requests are
//! lowered before they are returned to their senders.

use super::table::Table;
use crate::base::Instant;
use crate::metrics::CloudMetrics;
use crate::signals::{
    Arrival, Carried, Cloud, CloudAnswer, CloudEstimate, Upstream, XcpAnswer, XcpCarried,
};
use crate::xcp::{CloudParams, XcpLinkParams};

/// The virtual routers of a receiver. The caller [estimates](Self::on_estimate) the clouds.
///
/// Up to 32 upstream routers are stored, as in ports, and each router with a known cloud needs
/// about 100 kB.
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
    /// Creates the state without any upstream routers.
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

    /// Handles a packet that arrived from `cloud` with this header, which contains the rest of its
    /// sender's request. `bytes` is the size of all IP packets that it stands for. The answer's
    /// `delta` should be returned to the sender.
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

    /// Records an estimate of the capacity left in the cloud behind `upstream`. Ignored unless
    /// packets arrive from this router.
    pub fn on_estimate(&mut self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.table.on_estimate(now, upstream, estimate);
    }

    /// Calls `visit` for each upstream router, with the number of bytes received from it.
    pub fn visit(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        self.table.visit(visit);
    }

    /// The counters of clouds.
    pub fn metrics(&self) -> CloudMetrics {
        self.table.metrics(self.counted, self.unknown, self.refused)
    }
}
