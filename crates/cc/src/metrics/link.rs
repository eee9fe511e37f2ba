//! A port's state, for reports.

use super::{CloudMetrics, GrantMetrics, XcpLinkMetrics};
use crate::base::Duration;
use crate::signals::VcpCode;

/// A port's state, for `show` and results. Not for control.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LinkMetrics {
    /// Measuring interval.
    pub interval: Duration,
    /// Load factor ρ of the last interval in 10^-9.
    pub load_ppb: u64,
    /// The code that follows from it.
    pub code: VcpCode,
    /// BISE's r in 2^-32, if it runs.
    pub r_q32: Option<u64>,
    /// Persistent queue in bytes.
    pub persistent_queue: u64,
    /// Packets that left with each code: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
    /// Measurements and grants of an XCP port, if the port runs XCP.
    pub xcp: Option<XcpLinkMetrics>,
    /// The port's counters of requests for a starting rate, if it handles them.
    pub grants: Option<GrantMetrics>,
    /// The port's counters of clouds, if it looks for them.
    pub clouds: Option<CloudMetrics>,
}
