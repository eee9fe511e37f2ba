//! The result of a run. Its JSON form is a stable interface for other programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use pathmark_transport::observe::{ControllerPart, ControllerTurn, Controllers, Distribution};

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// All measurements of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of its generators.
    pub seed: u64,
    /// Length of the run in simulated time, seconds.
    pub simulated_s: f64,
    /// Real time that it took, seconds.
    pub wall_s: f64,
    /// Packets that entered a link.
    pub packets: u64,
    /// Events that the engine handled; 0 for a run in real time.
    pub events: u64,
    /// Jain's index over the goodputs of the active flows, each over its lifetime.
    pub jain: f64,
    /// Mean of Jain's index over windows of 20 of the longest round trips (at least 1 s). Each
    /// window compares the connections that were active all through it; `None` if no window had
    /// two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jain_windows: Option<f64>,
    /// The flows in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// The links in the order of the scenario.
    pub links: Vec<LinkResult>,
    /// The same for each measuring window of the scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowResult>,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// The sender's congestion controller.
    pub algorithm: String,
    /// Node of the sender.
    pub from: String,
    /// Node of the receiver.
    pub to: String,
    /// When it started, seconds.
    pub start_s: f64,
    /// Application bytes to transfer; `None` if it ran until its stop.
    pub bytes_requested: Option<u64>,
    /// Application bytes delivered to the receiver's application, in order, each once.
    pub bytes_delivered: u64,
    /// Whether all requested bytes arrived.
    pub completed: bool,
    /// Seconds from its start, including the handshake, to its last byte.
    pub completion_s: Option<f64>,
    /// When each number of bytes in the scenario's `milestones` was reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub milestones: Vec<Milestone>,
    /// When the scenario's `stop` ended it, seconds; `None` if it completed before, or ran to the
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_s: Option<f64>,
    /// Delivered bits per second from its start to its last byte, to its stop, or to the end.
    pub goodput_bps: f64,
    /// Packets sent; `None` if the stack does not report it.
    pub packets_sent: Option<u64>,
    /// Packets that the sender declared lost.
    pub packets_lost: Option<u64>,
    /// Retransmitted application bytes.
    pub bytes_retransmitted: Option<u64>,
    /// Probe timeouts; for a paper's sender or a TCP, retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Round-trip times in milliseconds.
    pub rtt_ms: Option<Distribution>,
    /// Congestion window in bytes.
    pub cwnd_bytes: Option<MeanMax>,
    /// The laws that controlled its window; `None` if there is no connection, or its stack does
    /// not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<Controllers>,
    /// Why standard congestion control determines its window at the end, if its law uses router
    /// feedback: `no-answer`, `no-estimate`, `plain-hop`, `ttl-rewritten`, `hidden-hop`,
    /// `ecn-mark`, `loss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Its requests for a starting rate, if its law sends them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_start: Option<QuickStartResult>,
}

/// The time at which a flow reached a number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Milestone {
    /// Application bytes, in order.
    pub bytes: u64,
    /// Seconds from the flow's start, including the handshake; `None` if they did not all
    /// arrive.
    pub after_s: Option<f64>,
}

/// Outcome of a flow's requests for a starting rate. Rates in bits of IP packets per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuickStartResult {
    /// Requests sent.
    pub asked: u64,
    /// Rate of the last request.
    pub wanted_bps: f64,
    /// The rate that was approved and used; 0 for none.
    pub granted_bps: f64,
    /// Requests that were denied, not answered, or answered without a valid proof.
    pub denied: u64,
    /// Of these, sent again because the packet was lost.
    #[serde(default)]
    pub repeated: u64,
    /// Of these, answered with more than the requested rate.
    pub above: u64,
    /// Of these, from a path on which not every hop answered.
    pub partial: u64,
    /// Of these, with a wrong nonce.
    pub forged: u64,
    /// Answers or uses that were too late.
    pub late: u64,
    /// Grants that were given up because of a loss.
    pub revoked: u64,
    /// Grants that routers lowered in favour of other requests.
    #[serde(default)]
    pub lowered: u64,
    /// Outcome of the last request: `used`, `denied`, `revoked`, and so on.
    #[serde(default)]
    pub outcome: String,
}

/// One direction of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Its name; the other direction of a duplex link is called `NAME.reverse`.
    pub name: String,
    /// Its rate in bits per second at the end; `None` for an unlimited one.
    pub rate_bps: Option<f64>,
    /// IP bytes sent divided by the rate's integral over time.
    pub utilization: Option<f64>,
    /// End of the first RTT-long window with a utilization of at least 0.8, seconds.
    pub time_to_80_s: Option<f64>,
    /// The queue in packets, weighted by time.
    pub queue_packets: QueueStats,
    /// The queue as the time to drain it, milliseconds, weighted by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<QueueStats>,
    /// Packets that the queue dropped.
    pub drops: u64,
    /// Packets lost randomly on the wire.
    pub random_losses: u64,
    /// Packets lost in restarts of its router: waiting ones, and those that arrived meanwhile.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restart_losses: u64,
    /// Number of times that flows were set aside because they continued to exceed their share of
    /// an overflowing queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times_set_aside: u64,
    /// The link controller's state.
    #[serde(default)]
    pub controller: BTreeMap<String, serde_json::Value>,
}

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStats {
    /// Mean over all of the time.
    pub mean: f64,
    /// Mean over the time in which the queue was not empty.
    pub mean_nonempty: f64,
    /// Not exceeded during 99 % of the time.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Time-weighted mean, and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanMax {
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
}

/// A measuring window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowResult {
    /// Its start, seconds.
    pub from_s: f64,
    /// Its end, seconds.
    pub to_s: f64,
    /// Jain's index over the goodputs in the window.
    pub jain: f64,
    /// The flows' goodputs in the window.
    pub flows: Vec<WindowFlow>,
    /// The links in the window.
    pub links: Vec<WindowLink>,
}

impl WindowResult {
    /// Total bits per second of all flows whose names match `wanted`: their bytes divided by the
    /// window's length. Goodputs of flows that run at different times cannot be added.
    pub fn together(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        let flows = self.flows.iter().filter(|flow| wanted(&flow.name));
        let bytes: u64 = flows.map(|flow| flow.bytes).sum();
        let seconds = self.to_s - self.from_s;
        if seconds > 0.0 {
            bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}

impl RunResult {
    /// Total bits per second of these flows: their delivered bytes, divided by the time from the
    /// first start to the last end. Rates over lifetimes cannot be added if flows run at
    /// different times.
    pub fn together<'a>(&self, flows: impl Iterator<Item = &'a FlowResult>) -> f64 {
        let (mut bytes, mut first, mut last) = (0u64, f64::INFINITY, 0f64);
        for flow in flows {
            bytes = bytes.saturating_add(flow.bytes_delivered);
            first = first.min(flow.start_s);
            let completed = flow.completion_s.map(|seconds| flow.start_s + seconds);
            last = last.max(completed.or(flow.stopped_s).unwrap_or(self.simulated_s));
        }
        if last > first {
            bytes as f64 * 8.0 / (last - first)
        } else {
            0.0
        }
    }
}

/// A flow in a measuring window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowFlow {
    /// Its name.
    pub name: String,
    /// Delivered bits per second, over its active part of the window.
    pub goodput_bps: f64,
    /// Bytes delivered in the window.
    #[serde(default)]
    pub bytes: u64,
    /// Packets that the sender declared lost in the window; `None` if the stack does not report
    /// it.
    #[serde(default)]
    pub lost: Option<u64>,
}

/// A link in a measuring window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowLink {
    /// Its name.
    pub name: String,
    /// As in [`LinkResult`].
    pub utilization: Option<f64>,
    /// As in [`LinkResult`].
    pub queue_packets: QueueStats,
    /// Packets that the queue dropped in the window.
    pub drops: u64,
}

/// Jain's index of fairness (Jain, Chiu, Hawe, DEC-TR-301, 1984): (Σx)² / (n·Σx²) over the flows'
/// rates, 1 if all are equal, 1/n if one has everything. 1 if there are no flows or no rates.
pub fn jain(rates: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares > 0.0 {
        sum * sum / (count * squares)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert!((jain([5.0; 7]) - 1.0).abs() < 1e-12);
        assert!((jain([1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain([1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-12);
        assert!((jain([]) - 1.0).abs() < 1e-12);
        assert!((jain([0.0]) - 1.0).abs() < 1e-12);
    }
}
