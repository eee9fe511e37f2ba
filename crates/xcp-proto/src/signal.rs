//! XCP as a signal of the transport, and the virtual routers of a receiving host behind a cloud,
//! which its connections share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::counters::{Counted, Totals};
use super::header::{Body, Form, LastRouter, Packet, Repr};
use pathmark_cc::{
    Cloud, CloudAnswer, CloudEstimate, CloudMetrics, Countable, Explicit, Feedback, Instant,
    ReceiverClouds, Request, Upstream, XcpCarried, XcpForm,
};
use pathmark_shim::Kind;
use pathmark_transport::{Arrived, BadFeedback, Counters, Ecn, Meter, Signal};

/// Default TTL or hop limit of sent packets.
const USUAL_TTL: u8 = 64;

/// XCP in a shim.
#[derive(Clone, Debug)]
pub struct XcpSignal {
    form: Form,
    ttl: u8,
    host: Option<HostClouds>,
}

impl XcpSignal {
    /// Creates the signal in the full form, for packets sent with a TTL of 64. The form has room
    /// for IPv4 addresses of routers, or for IPv6 addresses if the path uses IPv6.
    pub const fn new() -> Self {
        Self {
            form: Form::V4,
            ttl: USUAL_TTL,
            host: None,
        }
    }

    /// Selects another form. The full form with IPv6 addresses is then also used over IPv4.
    #[must_use]
    pub const fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Sets the TTL with which packets are sent. If it differs from the IP header's, hops without
    /// an XCP router cannot be detected.
    #[must_use]
    pub const fn with_sent_ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Handles arriving packets that crossed hops without XCP routers with the host's virtual
    /// routers.
    #[must_use]
    pub fn with_host_clouds(mut self, host: HostClouds) -> Self {
        self.host = Some(host);
        self
    }
}

impl XcpSignal {
    /// The form of the header for this request: the form that the request names, if any, with room
    /// for the addresses of the path's routers.
    #[inline]
    const fn form_of(&self, request: &Request) -> Form {
        match (request.signal, self.form) {
            (Some(Explicit::Xcp(XcpForm::Full)), form) => full(form, request.ipv6),
            (Some(Explicit::Xcp(XcpForm::Compact)), _) | (_, Form::Compact) => Form::Compact,
            (_, form) => full(form, request.ipv6),
        }
    }
}

/// The full form for a path that uses IPv6 or IPv4, if the configured form is `own`.
#[inline]
const fn full(own: Form, ipv6: bool) -> Form {
    match own {
        Form::V4 | Form::Compact if !ipv6 => Form::V4,
        _ => Form::V6,
    }
}

impl Default for XcpSignal {
    fn default() -> Self {
        Self::new()
    }
}

impl From<XcpForm> for XcpSignal {
    fn from(form: XcpForm) -> Self {
        Self::new().with_form(match form {
            XcpForm::Full => Form::V4,
            XcpForm::Compact => Form::Compact,
        })
    }
}

impl Signal for XcpSignal {
    fn kind(&self) -> u8 {
        Kind::XCP.number()
    }

    fn shim_len(&self) -> usize {
        self.form.len()
    }

    /// Depends on the form that the request names, or the configured one, and on the path's IP
    /// version.
    #[inline]
    fn len_of(&self, request: &Request) -> usize {
        self.form_of(request).len()
    }

    fn longest(&self, ipv6: bool) -> usize {
        full(self.form, ipv6).len()
    }

    fn speaks(&self, wanted: Explicit) -> bool {
        matches!(wanted, Explicit::Xcp(_))
    }

    /// A controller without a request gets a header that routers do not change. A buffer shorter
    /// than [`len_of`](Self::len_of) stays unchanged.
    fn fill(&self, request: &Request, shim: &mut [u8]) {
        // This only fails if there is not enough room.
        let _ = Repr::initial(self.form_of(request), request.xcp.as_ref(), self.ttl).emit(shim);
    }

    fn meter(&self) -> Box<dyn Meter> {
        Box::new(XcpMeter {
            totals: Totals::default(),
            arrivals: self.host.clone().map(Arrivals::new),
        })
    }

    fn difference(
        &self,
        older: Option<&Counters>,
        newer: &Counters,
        sent: &Countable,
    ) -> Result<Feedback, BadFeedback> {
        let read = |counters: &Counters| Totals::decode(counters.as_slice());
        let older = older.map_or(Ok(Totals::default()), read)?;
        let feedback = read(newer)?.since(&older, sent, Some(self.ttl))?;
        Ok(Feedback::Xcp(feedback))
    }
}

/// Counts only packets that carry a header.
#[derive(Debug)]
struct XcpMeter {
    totals: Totals,
    /// Present if the host has virtual routers.
    arrivals: Option<Arrivals>,
}

impl Meter for XcpMeter {
    #[inline]
    fn on_packet(&mut self, arrived: &Arrived<'_>) {
        let Some(Ok(header)) = arrived.shim.map(Packet::parse) else {
            return;
        };
        let congested = arrived.ecn == Ecn::Ce;
        let counted = Counted::read(&header, arrived.bytes, arrived.ttl, congested);
        if let Some(mut counted) = counted {
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.lower(&header, &mut counted, arrived);
            }
            self.totals.add(&counted);
        }
    }

    fn counters(&self) -> Option<Counters> {
        if self.totals.is_empty() {
            return None;
        }
        let mut counters = Counters::new();
        self.totals
            .encode()
            .all(|total| counters.push(total))
            .then_some(counters)
    }
}

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
#[path = "signal_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "host_tests.rs"]
mod host_tests;
