//! Report about an XCP port.

use crate::base::Duration;

/// State of an XCP port after its last control interval. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct XcpLinkMetrics {
    /// Completed control intervals.
    pub intervals: u64,
    /// Length of the current control interval.
    pub interval: Duration,
    /// Mean RTT over the flows' packets, weighted as XCP does.
    pub mean_rtt: Duration,
    /// Capacity used in calculations.
    pub capacity: u64,
    /// Rate at which traffic of all kinds arrived.
    pub input: u64,
    /// Unused capacity. If negative, more traffic arrived than can be sent.
    pub spare: i64,
    /// Queue that didn't drain, in bytes.
    pub persistent_queue: u64,
    /// Resulting aggregate feedback F.
    pub aggregate: i64,
    /// Positive feedback that the current interval can still give.
    pub positive_left: u64,
    /// Negative feedback that the current interval can still give.
    pub negative_left: u64,
    /// Sum of positive feedback written so far.
    pub given: u64,
    /// Sum of negative feedback written so far.
    pub taken: u64,
    /// Packets with a header sent so far.
    pub stamped: u64,
    /// Packets refused by the policer so far.
    pub policed: u64,
}
