//! The sender's report about the path, which the receiver gets after a file's hash.

use serde::{Deserialize, Serialize};

use pathmark_cc::Feedback;
use pathmark_emulator::result::{Controllers, Distribution};
use pathmark_protocols::registry::name_of;

use pathmark::{Connection, PathReport};
use pathmark_transport::connection::BoundShares;

/// The sending side of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SenderReport {
    /// The congestion controller that was active at the end.
    pub(crate) algorithm: String,
    /// The laws that were active during the connection. Older senders report none.
    #[serde(default)]
    pub(crate) controllers: Controllers,
    /// The explicit feedback that controlled it: `vcp`, `xcp`, or nothing.
    pub(crate) feedback: Option<String>,
    /// Packets declared lost during the whole connection.
    pub(crate) packets_lost: u64,
    /// Round-trip times in milliseconds.
    pub(crate) rtt_ms: Distribution,
    /// Shares of the time in which each limit applied.
    pub(crate) bounded_by: BoundShares,
    /// The reason why router feedback doesn't set the window, although the law uses it:
    /// `no-answer`, `no-estimate`, `plain-hop`, `ttl-rewritten`, `hidden-hop`, `ecn-mark`,
    /// `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<String>,
    /// The state of ECN on the path: `capable` if marks survive, the reason why packets are sent
    /// without ECN (`dropped`, `all-ce`, `bleached`, `remarked`, `backwards`, `missing`),
    /// `testing` or `unknown` before the first answer, or `off`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) ecn: String,
    /// The router that limits the flow, if routers answer.
    pub(crate) router_id: Option<u16>,
    /// The starting rate that routers approved and that was used, in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approved_bps: Option<f64>,
    /// The result of the last request for a starting rate, if the law sent one: `used`,
    /// `denied`, `revoked`, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<String>,
    /// Whether the sender knew the path's rate from an earlier connection, and requested it from
    /// routers before the handshake was complete.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(crate) known_path: bool,
}

/// Returns the name of the explicit feedback that controls the path, or with which it started.
fn feedback_kind(report: &PathReport) -> Option<&'static str> {
    let steers = |seen: &Feedback| report.controller.explicit && !seen.is_answer();
    let steering = report.feedback.as_ref().filter(|seen| steers(seen));
    steering.and_then(name_of).or_else(|| {
        let started = report.controller.quick_start?;
        (started.granted > 0).then_some("quick-start")
    })
}

impl SenderReport {
    pub(crate) fn of(connection: &Connection) -> Self {
        let (report, stats) = (connection.path_report(), connection.stats());
        let asked = report.controller.quick_start;
        Self {
            algorithm: report.controller.ruling.to_owned(),
            controllers: (&report.controllers).into(),
            feedback: feedback_kind(&report).map(ToOwned::to_owned),
            fallback: report
                .controller
                .fallback
                .map(|reason| reason.name().to_owned()),
            packets_lost: stats.packets_lost,
            rtt_ms: (&stats.rtt).into(),
            bounded_by: report.bounded_by,
            ecn: report.ecn.name().to_owned(),
            router_id: report.router,
            approved_bps: asked
                .filter(|asked| asked.granted > 0)
                .map(|asked| asked.granted as f64 * 8.0),
            start: asked
                .filter(|asked| asked.asked > 0)
                .map(|asked| asked.outcome.name().to_owned()),
            known_path: report.known_path,
        }
    }

    /// Explains which limits held back the sender: `router 7 93 %, the application 7 %`.
    pub(crate) fn explain(&self) -> String {
        let router = match self.router_id {
            Some(id) => format!("router {id}"),
            None => "the routers".to_owned(),
        };
        let window = format!("the window of {}", self.algorithm);
        let shares = self.bounded_by.sorted().map(|(share, name)| {
            let what = match name {
                "router" => &router,
                "window" => &window,
                "peer" => "the receiver's flow control",
                "streams" => "the peer's limit of streams",
                "buffers" => "the sender's buffers",
                _ => "the application",
            };
            (share, what)
        });
        shares
            .iter()
            .filter(|(share, _)| *share >= 0.005)
            .map(|(share, what)| format!("{what} {:.0} %", share * 100.0))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
