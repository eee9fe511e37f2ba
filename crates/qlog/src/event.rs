//! The JSON of events.

use pathmark_cc::{ControllerShares, FallbackReason, Feedback, Ruler};
use pathmark_protocols::registry::name_of;
use pathmark_transport::connection::{
    BoundShares, ConnectionError, PathReport, RttHistogram, Stats,
};
use pathmark_transport::observe::TracedRecovery;
use pathmark_transport::{Duration, Instant};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// An event, at a time in milliseconds since the connection began.
#[derive(Serialize)]
pub(crate) struct Event<D> {
    pub(crate) time: f64,
    pub(crate) name: &'static str,
    pub(crate) data: D,
}

/// Returns milliseconds with the precision of microseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_nanos() / 1000) as f64 / 1e3
}

/// Times are milliseconds, sizes bytes, and `pacing_rate` is in bits per second.
#[derive(Serialize)]
pub(crate) struct Recovery {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_variance: Option<f64>,
    pto_count: u32,
    congestion_window: u64,
    bytes_in_flight: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
}

impl From<&TracedRecovery> for Recovery {
    fn from(recovery: &TracedRecovery) -> Self {
        Self {
            min_rtt: recovery.min_rtt.map(milliseconds),
            smoothed_rtt: recovery.smoothed_rtt.map(milliseconds),
            latest_rtt: recovery.latest_rtt.map(milliseconds),
            rtt_variance: recovery.rtt_variation.map(milliseconds),
            pto_count: recovery.probe_timeouts,
            congestion_window: recovery.window,
            bytes_in_flight: recovery.in_flight,
            ssthresh: recovery.ssthresh,
            pacing_rate: recovery.pace.map(|pace| pace.saturating_mul(8)),
        }
    }
}

/// The law that controls the window.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Controller {
    pub(crate) law: &'static str,
    pub(crate) fallback: Option<&'static str>,
}

/// What routers wrote into packets: numbers with their names.
pub(crate) struct RouterFeedback(pub(crate) Feedback);

impl Serialize for RouterFeedback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("protocol", name_of(&self.0).unwrap_or("own"))?;
        let mut outcome = Ok(());
        self.0.describe(|name, number| {
            if outcome.is_ok() {
                outcome = map.serialize_entry(name, &number);
            }
        });
        outcome?;
        map.end()
    }
}

/// The path's state and the connection's counters. The first nine keys are those of the commands'
/// JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    algorithm: &'static str,
    fallback: Option<&'static str>,
    controllers: Controllers,
    bounded_by: Bounds,
    rtt_ms: Distribution,
    packets_lost: u64,
    router_id: Option<u16>,
    start: Option<&'static str>,
    ecn: &'static str,
    mtu: u16,
    passes_shims: bool,
    receive_limited: bool,
    bytes_sent: u64,
    bytes_received: u64,
    packets_sent: u64,
    packets_received: u64,
    packets_spurious: u64,
    probe_timeouts: u64,
    congestion_experienced: u64,
    shims_sent: u64,
    feedback_received: u64,
    feedback_bad: u64,
}

/// The laws that have controlled the window, and the latest changes.
#[derive(Serialize)]
struct Controllers {
    shares: Vec<Share>,
    changes: Vec<Change>,
}

/// Shares of time and bytes of the connection while a law controlled the window for one reason.
#[derive(Serialize)]
struct Share {
    #[serde(flatten)]
    controller: Controller,
    time: f64,
    bytes: f64,
}

#[derive(Serialize)]
struct Change {
    at_s: f64,
    #[serde(flatten)]
    controller: Controller,
}

impl From<&ControllerShares> for Controllers {
    fn from(known: &ControllerShares) -> Self {
        let parts = known.shares();
        let time: f64 = parts.iter().map(|part| part.time.as_secs_f64()).sum();
        let bytes: f64 = parts.iter().map(|part| part.bytes as f64).sum();
        let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        let shares = parts.iter().map(|part| Share {
            controller: part.ruler.into(),
            time: share(part.time.as_secs_f64(), time),
            bytes: share(part.bytes as f64, bytes),
        });
        let changes = known.changes().iter().map(|change| Change {
            at_s: milliseconds(change.at) / 1e3,
            controller: change.ruler.into(),
        });
        Self {
            shares: shares.collect(),
            changes: changes.collect(),
        }
    }
}

/// Round-trip times in milliseconds.
#[derive(Serialize)]
struct Distribution {
    min: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

impl From<&RttHistogram> for Distribution {
    fn from(rtt: &RttHistogram) -> Self {
        let time = |time: Option<Duration>| time.map_or(0.0, milliseconds);
        Self {
            min: time(rtt.min()),
            mean: time(rtt.mean()),
            p50: time(rtt.quantile(500)),
            p99: time(rtt.quantile(990)),
            max: time(rtt.max()),
        }
    }
}

/// Shares of the time in which each limit held the sender back.
#[derive(Serialize)]
struct Bounds {
    application: f64,
    peer: f64,
    streams: f64,
    buffers: f64,
    window: f64,
    router: f64,
}

impl From<BoundShares> for Bounds {
    fn from(shares: BoundShares) -> Self {
        Self {
            application: shares.application,
            peer: shares.peer,
            streams: shares.streams,
            buffers: shares.buffers,
            window: shares.window,
            router: shares.router,
        }
    }
}

impl From<Ruler> for Controller {
    fn from(ruler: Ruler) -> Self {
        Self {
            law: ruler.law,
            fallback: ruler.fallback.map(FallbackReason::name),
        }
    }
}

impl Report {
    pub(crate) fn new(report: &PathReport, stats: &Stats) -> Self {
        Self {
            algorithm: report.controller.ruling,
            fallback: report.controller.fallback.map(FallbackReason::name),
            controllers: (&report.controllers).into(),
            bounded_by: report.bounded_by.into(),
            rtt_ms: (&stats.rtt).into(),
            packets_lost: stats.packets_lost,
            router_id: report.router,
            start: (report.controller.quick_start)
                .filter(|asked| asked.asked > 0)
                .map(|asked| asked.outcome.name()),
            ecn: report.ecn.name(),
            mtu: report.mtu,
            passes_shims: report.passes_shims,
            receive_limited: report.receive_limited,
            bytes_sent: stats.bytes_sent,
            bytes_received: stats.bytes_received,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            packets_spurious: stats.packets_spurious,
            probe_timeouts: stats.probe_timeouts,
            congestion_experienced: stats.congestion_experienced,
            shims_sent: stats.shims_sent,
            feedback_received: stats.feedback_received,
            feedback_bad: stats.feedback_bad,
        }
    }
}

/// The end of a connection (quic-events section 4.3).
#[derive(Serialize)]
pub(crate) struct Closed {
    initiator: &'static str,
    trigger: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<u64>,
    reason: String,
}

impl From<&ConnectionError> for Closed {
    fn from(error: &ConnectionError) -> Self {
        let (initiator, trigger, error_code) = match error {
            ConnectionError::TransportError(error) => ("local", "error", Some(error.code.0)),
            ConnectionError::ConnectionClosed(error) => ("remote", "error", Some(error.code.0)),
            ConnectionError::ApplicationClosed(close) => {
                ("remote", "application", Some(close.error_code.into_inner()))
            }
            ConnectionError::LocallyClosed => ("local", "application", None),
            ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut => {
                ("local", "idle_timeout", None)
            }
            ConnectionError::Reset => ("remote", "stateless_reset", None),
            ConnectionError::VersionMismatch => ("local", "version_mismatch", None),
            _ => ("local", "aborted", None),
        };
        Self {
            initiator,
            trigger,
            error_code,
            reason: error.to_string(),
        }
    }
}

/// The header of a file (main-schema section 5).
#[derive(Serialize)]
pub(crate) struct FileHeader<'a> {
    file_schema: &'static str,
    serialization_format: &'static str,
    title: &'static str,
    trace: TraceHeader<'a>,
}

#[derive(Serialize)]
struct TraceHeader<'a> {
    common_fields: CommonFields<'a>,
    vantage_point: VantagePoint,
    event_schemas: [&'static str; 3],
}

#[derive(Serialize)]
struct CommonFields<'a> {
    group_id: &'a str,
    protocol_types: [&'static str; 1],
    time_format: &'static str,
    reference_time: ReferenceTime<'a>,
}

#[derive(Serialize)]
struct ReferenceTime<'a> {
    clock_type: &'static str,
    epoch: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_clock_time: Option<&'a str>,
}

#[derive(Serialize)]
struct VantagePoint {
    #[serde(rename = "type")]
    side: &'static str,
}

impl<'a> FileHeader<'a> {
    /// Creates the header of a client's or a server's log. `wall_clock_time` is RFC 3339's form of
    /// the time at which it begins.
    pub(crate) const fn new(
        is_client: bool,
        group_id: &'a str,
        wall_clock_time: Option<&'a str>,
    ) -> Self {
        Self {
            file_schema: "urn:ietf:params:qlog:file:sequential",
            serialization_format: "application/qlog+json-seq",
            title: "pathmark",
            trace: TraceHeader {
                common_fields: CommonFields {
                    group_id,
                    protocol_types: ["QUIC"],
                    time_format: "relative_to_epoch",
                    reference_time: ReferenceTime {
                        clock_type: "monotonic",
                        epoch: "unknown",
                        wall_clock_time,
                    },
                },
                vantage_point: VantagePoint {
                    side: if is_client { "client" } else { "server" },
                },
                event_schemas: [
                    "urn:ietf:params:qlog:events:quic-12",
                    "urn:ietf:params:qlog:events:loglevel-13",
                    "urn:x-pathmark:qlog:events",
                ],
            },
        }
    }
}

/// Returns the time of an event of a connection that began at `start`.
pub(crate) fn since(start: Instant, now: Instant) -> f64 {
    milliseconds(now.saturating_since(start))
}
