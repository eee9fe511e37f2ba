//! An XCP port's report.

use crate::base::Duration;

/// An XCP port's state after its last control interval. Rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct XcpLinkMetrics {
    /// Control intervals so far.
    pub intervals: u64,
    /// Length of the running control interval.
    pub interval: Duration,
    /// Mean RTT over the flows' packets, weighted as XCP does.
    pub mean_rtt: Duration,
    /// Capacity that the port reckons with.
    pub capacity: u64,
    /// Rate at which traffic of all kinds arrived.
    pub input: u64,
    /// Capacity not used; negative: more came than can leave.
    pub spare: i64,
    /// Queue that did not drain, in bytes.
    pub persistent_queue: u64,
    /// Aggregate feedback F that followed.
    pub aggregate: i64,
    /// What the running interval may still give.
    pub positive_left: u64,
    /// What the running interval may still take.
    pub negative_left: u64,
    /// Sum of positive feedback written so far.
    pub given: u64,
    /// Sum of negative feedback written so far.
    pub taken: u64,
    /// Packets with a header that left so far.
    pub stamped: u64,
    /// Packets that the policer refused so far.
    pub policed: u64,
}
