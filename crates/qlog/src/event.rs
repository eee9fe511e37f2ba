//! The JSON of events.

use pathmark_cc::{FallbackReason, Feedback};
use pathmark_protocols::registry::name_of;
use pathmark_transport::connection::{ConnectionError, PathReport, Stats};
use pathmark_transport::crypto::Side;
use pathmark_transport::observe::{Controllers, Distribution, TracedRecovery};
use pathmark_transport::{Duration, Instant};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

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

/// Returns the path's state and the connection's counters. Keys that the commands' JSON also has
/// mean the same.
pub(crate) fn report(report: &PathReport, stats: &Stats) -> Value {
    let asked = report
        .controller
        .quick_start
        .filter(|asked| asked.asked > 0);
    json!({
        "algorithm": report.controller.ruling,
        "fallback": report.controller.fallback.map(FallbackReason::name),
        "controllers": Controllers::from(&report.controllers),
        "bounded_by": report.bounded_by,
        "rtt_ms": Distribution::from(&stats.rtt),
        "packets_lost": stats.packets_lost,
        "router_id": report.router,
        "start": asked.map(|asked| asked.outcome.name()),
        "ecn": report.ecn.name(),
        "mtu": report.mtu,
        "passes_shims": report.passes_shims,
        "receive_limited": report.receive_limited,
        "bytes_sent": stats.bytes_sent,
        "bytes_received": stats.bytes_received,
        "packets_sent": stats.packets_sent,
        "packets_received": stats.packets_received,
        "packets_spurious": stats.packets_spurious,
        "probe_timeouts": stats.probe_timeouts,
        "congestion_experienced": stats.congestion_experienced,
        "shims_sent": stats.shims_sent,
        "feedback_received": stats.feedback_received,
        "feedback_bad": stats.feedback_bad,
    })
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

/// Returns the header of a client's or a server's log (main-schema section 5). `wall_clock_time` is
/// RFC 3339's form of the time at which it begins.
pub(crate) fn file_header(side: Side, group_id: &str, wall_clock_time: Option<&str>) -> Value {
    let mut reference_time = json!({ "clock_type": "monotonic", "epoch": "unknown" });
    if let Some(time) = wall_clock_time {
        reference_time["wall_clock_time"] = time.into();
    }
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": "pathmark",
        "trace": {
            "common_fields": {
                "group_id": group_id,
                "protocol_types": ["QUIC"],
                "time_format": "relative_to_epoch",
                "reference_time": reference_time,
            },
            "vantage_point": { "type": if side.is_client() { "client" } else { "server" } },
            "event_schemas": [
                "urn:ietf:params:qlog:events:quic-12",
                "urn:ietf:params:qlog:events:loglevel-13",
                "urn:x-pathmark:qlog:events",
            ],
        },
    })
}

/// Returns the time of an event of a connection that began at `start`.
pub(crate) fn since(start: Instant, now: Instant) -> f64 {
    milliseconds(now.saturating_since(start))
}
