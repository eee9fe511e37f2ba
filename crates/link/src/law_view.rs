//! A control law's state, as printed by `vcp-router show --json` and in results.

use std::collections::BTreeMap;

use pathmark_cc::{CloudMetrics, GrantMetrics, LinkMetrics, VcpCode, XcpLinkMetrics};
use serde::Serialize;

/// The state of a port's control law. Without a law, every field is absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LawView {
    /// Its name with options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub law: Option<String>,
    /// Measuring or control interval in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<f64>,
    /// Load of the last interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Code: `none`, `low`, `high`, `over`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// BISE's r, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r: Option<f64>,
    /// Persistent queue in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_queue_bytes: Option<u64>,
    /// Packets that left with each code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub marked: BTreeMap<&'static str, u64>,
    /// Values of XCP ports.
    #[serde(flatten)]
    pub xcp: Option<XcpView>,
    /// The handling of requests for a starting rate, if the port examines them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<GrantsView>,
    /// The handling of clouds, if the port looks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clouds: Option<CloudsView>,
}

/// An XCP-i port's handling of clouds, which consist of hops without XCP routers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CloudsView {
    /// XCP routers or senders before clouds that the port keeps.
    pub upstreams: u32,
    /// Those whose cloud has an estimate.
    pub known: u32,
    /// Packets that crossed a cloud with an estimate.
    pub counted: u64,
    /// Packets that crossed a cloud without an estimate, which their answers reported.
    pub unknown: u64,
    /// Among the latter, those for whose upstream router there was no room.
    pub refused: u64,
    /// Upstream routers that were replaced by others.
    pub forgotten: u64,
    /// Times that foreign traffic was found to keep a cloud's queue full; senders then share it
    /// with this traffic as CUBIC does.
    pub crowded: u64,
}

/// A port's handling of requests for a starting rate.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GrantsView {
    /// Requests that were examined.
    pub requests: u64,
    /// Of these, granted at least in part.
    pub granted: u64,
    /// Denied because the used and granted capacity leaves nothing.
    pub denied_busy: u64,
    /// Denied because of too many requests from one source within a second.
    pub denied_source: u64,
    /// Denied because no more grants can be stored.
    pub denied_room: u64,
    /// Grants whose traffic did not arrive in time.
    pub unused: u64,
    /// Grants that were reduced in favour of later requests.
    pub lowered: u64,
    /// Rate of all grants that are still reserved, in bits per second.
    pub pending_bps: f64,
    /// The part of this rate whose traffic has not arrived yet.
    pub outstanding_bps: f64,
}

/// An XCP port's measurements and feedback. Rates are in bits per second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct XcpView {
    /// Mean round-trip time of the traffic, milliseconds.
    pub mean_rtt_ms: f64,
    /// Capacity that the port uses.
    pub capacity_bps: f64,
    /// Rate at which traffic of all kinds arrived in the last interval.
    pub input_bps: f64,
    /// Capacity unused in it; negative if more arrived than can leave.
    pub spare_bps: f64,
    /// Resulting change of rate over all flows.
    pub feedback_bps: f64,
    /// Positive feedback that the current interval can still give.
    pub positive_left_bps: f64,
    /// Negative feedback that the current interval can still give.
    pub negative_left_bps: f64,
    /// All positive feedback so far.
    pub given_bps: f64,
    /// All negative feedback so far.
    pub taken_bps: f64,
    /// Packets with a header that have left so far.
    pub stamped: u64,
    /// Those whose flow the policer restricts.
    pub policed: u64,
}

const CODES: [VcpCode; 4] = [VcpCode::None, VcpCode::Low, VcpCode::High, VcpCode::Over];

/// A code's name in reports.
pub const fn code_name(code: VcpCode) -> &'static str {
    match code {
        VcpCode::None => "none",
        VcpCode::Low => "low",
        VcpCode::High => "high",
        VcpCode::Over => "over",
    }
}

impl LawView {
    /// Creates the view of `metrics` of the law with this name.
    pub fn new(law: Option<String>, metrics: &LinkMetrics) -> Self {
        let marked = CODES.iter().zip(metrics.marked);
        Self {
            law,
            interval_ms: Some(metrics.interval.as_nanos() as f64 / 1e6),
            load: Some(metrics.load_ppb as f64 / 1e9),
            code: Some(code_name(metrics.code)),
            r: metrics.r_q32.map(|r| r as f64 / 4_294_967_296.0),
            persistent_queue_bytes: Some(metrics.persistent_queue),
            marked: marked.map(|(code, n)| (code_name(*code), n)).collect(),
            xcp: metrics.xcp.as_ref().map(XcpView::new),
            grants: metrics.grants.as_ref().map(GrantsView::new),
            clouds: metrics.clouds.as_ref().map(CloudsView::new),
        }
    }
}

impl CloudsView {
    const fn new(metrics: &CloudMetrics) -> Self {
        Self {
            upstreams: metrics.upstreams,
            known: metrics.known,
            counted: metrics.counted,
            unknown: metrics.unknown,
            refused: metrics.refused,
            forgotten: metrics.forgotten,
            crowded: metrics.crowded,
        }
    }
}

impl GrantsView {
    fn new(metrics: &GrantMetrics) -> Self {
        Self {
            requests: metrics.requests,
            granted: metrics.granted,
            denied_busy: metrics.denied_busy,
            denied_source: metrics.denied_source,
            denied_room: metrics.denied_room,
            unused: metrics.unused,
            lowered: metrics.lowered,
            pending_bps: metrics.pending as f64 * 8.0,
            outstanding_bps: metrics.outstanding as f64 * 8.0,
        }
    }
}

impl XcpView {
    fn new(metrics: &XcpLinkMetrics) -> Self {
        let bits = |bytes: u64| bytes as f64 * 8.0;
        let signed = |bytes: i64| bytes as f64 * 8.0;
        Self {
            mean_rtt_ms: metrics.mean_rtt.as_nanos() as f64 / 1e6,
            capacity_bps: bits(metrics.capacity),
            input_bps: bits(metrics.input),
            spare_bps: signed(metrics.spare),
            feedback_bps: signed(metrics.aggregate),
            positive_left_bps: bits(metrics.positive_left),
            negative_left_bps: bits(metrics.negative_left),
            given_bps: bits(metrics.given),
            taken_bps: bits(metrics.taken),
            stamped: metrics.stamped,
            policed: metrics.policed,
        }
    }
}
