//! Virtual routers of a receiving host behind a cloud, shared by its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pathmark_cc::{Cloud, CloudAnswer, CloudEstimate, CloudMetrics, Instant, ReceiverClouds};
use pathmark_cc::{Upstream, XcpCarried};
use pathmark_transport::Arrived;

use crate::counters::Counted;
use crate::header::{Body, LastRouter, Packet};

/// Bytes of the headers of IPv4 and UDP, and of IPv6 and UDP, in front of a UDP payload.
const HEADERS_V4: u32 = 28;
const HEADERS_V6: u32 = 48;
/// Maximum number of packets that one header can cover.
const MOST_COVERS: u64 = 64;

/// The virtual routers of a host for the hops between the last XCP routers and itself, if these
/// hops are not XCP routers (XCP-i paper, section III-B). All its connections share them with
/// the program that [measures](Self::tell) these hops.
#[derive(Clone, Debug, Default)]
pub struct HostClouds(Arc<Mutex<ReceiverClouds>>);

impl HostClouds {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    fn all(&self) -> MutexGuard<'_, ReceiverClouds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an estimate of the unused capacity after the router `upstream`, made at `now`
    /// according to the clock of the connections.
    pub fn tell(&self, now: Instant, upstream: Upstream, estimate: &CloudEstimate) {
        self.all().on_estimate(now, upstream, estimate);
    }

    /// Calls `visit` for each router in front of these hops, with the IP bytes that have arrived
    /// from it.
    pub fn visit(&self, visit: &mut dyn FnMut(Upstream, u64)) {
        self.all().visit(visit);
    }

    /// Returns the counters of these clouds.
    pub fn metrics(&self) -> CloudMetrics {
        self.all().metrics()
    }
}

/// The packets of one connection. Packets that crossed a cloud take the shared lock, so that the
/// measuring program knows the bytes that have arrived so far.
#[derive(Debug)]
pub(crate) struct Arrivals {
    host: HostClouds,
    /// Number of the latest packet with a header.
    latest: Option<u64>,
}

impl Arrivals {
    pub(crate) const fn new(host: HostClouds) -> Self {
        Self { host, latest: None }
    }

    /// Lowers the contribution of a packet with this header to the rate that its cloud allows.
    pub(crate) fn lower(
        &mut self,
        header: &Packet<'_>,
        counted: &mut Counted,
        arrived: &Arrived<'_>,
    ) {
        let number = arrived.number;
        // A header covers the packets sent since the previous header, which cannot be more than the
        // packet numbers in between.
        let since = self
            .latest
            .map_or(1, |latest| number.saturating_sub(latest));
        self.latest = Some(self.latest.map_or(number, |latest| latest.max(number)));
        let packets = since.clamp(1, MOST_COVERS);
        if let Some((header, cloud, bytes)) = through(header, packets, arrived) {
            let mut clouds = self.host.all();
            let answer = clouds.on_packet(arrived.now, bytes, &header, cloud);
            drop(clouds);
            let known = matches!(answer.cloud, CloudAnswer::Counted { .. });
            counted.lower(answer.delta, known);
        }
    }
}

/// Returns the fields of the header, the cloud that the packet crossed, and the IP bytes that it
/// covers, limited to `packets` packets. `None` if a router sent it directly to this host, or if
/// the header does not show the cloud.
fn through(
    header: &Packet<'_>,
    packets: u64,
    arrived: &Arrived<'_>,
) -> Option<(XcpCarried, Cloud, u32)> {
    let Body::Full(full) = header.repr().body else {
        return None;
    };
    // TTLs are compared modulo 256, as at routers.
    let hops = header.xcp_ttl().wrapping_sub(arrived.ttl?);
    if hops == 0 || !header.stamped() {
        return None;
    }
    let cloud = Cloud {
        upstream: Upstream::of(full.last.address()?)?,
        hops,
    };
    let headers = match full.last {
        LastRouter::V4(_) => HEADERS_V4,
        LastRouter::V6(_) => HEADERS_V6,
    };
    let one = u32::try_from(arrived.bytes)
        .unwrap_or(u32::MAX)
        .saturating_add(headers);
    let covers = u64::from(full.covers.max(1)).min(packets);
    let bytes = one.saturating_mul(u32::try_from(covers).unwrap_or(1));
    let carried = XcpCarried {
        rtt_us: full.rtt_us,
        x: full.x,
        delta: full.delta,
        covers: full.covers,
        cloud: Some(cloud),
    };
    Some((carried, cloud, bytes))
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
