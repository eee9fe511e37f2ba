//! Metrics of runs, as named in `[[paper]]` and `[[plot]]`.

use serde::Deserialize;

/// A metric that is compared with a paper. Metrics of links refer to the link used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Metric {
    /// Mean completion time of the flows, seconds.
    Completion,
    /// Median completion time of the flows, seconds.
    CompletionMedian,
    /// 95th percentile of the flows' completion times, seconds: the smallest value that 95 % do
    /// not exceed.
    CompletionP95,
    /// Total goodput of the flows.
    Goodput,
    /// Total goodput of the flows in the last measuring window.
    LateGoodput,
    /// Jain's index over the flows' goodputs.
    Jain,
    /// Packets that the flows lost.
    Lost,
    /// Packets that the link's queue dropped.
    Drops,
    /// Packets that the link's queue dropped, in relation to those that the flows sent and it
    /// didn't drop.
    OverTransmission,
    /// Utilization of the link.
    Utilization,
    /// Utilization of the link in the last measuring window.
    LateUtilization,
    /// When the link was first used to 80 %, seconds after the first flow's start.
    #[serde(rename = "time-to-80")]
    TimeTo80,
    /// Mean queue, packets.
    Queue,
    /// Mean queue while it is not empty, packets.
    QueueNonempty,
    /// Longest queue, packets.
    QueueMax,
    /// Largest congestion window of a flow, bytes.
    WindowMax,
}
