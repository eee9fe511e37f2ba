//! State of a port, for reports.

use super::{CloudMetrics, GrantMetrics, XcpLinkMetrics};
use crate::base::Duration;
use crate::signals::VcpCode;

/// State of a port for `show` and results. It must not be used for control.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct LinkMetrics {
    /// Measuring interval.
    pub interval: Duration,
    /// Load factor ρ of the last interval, in 10^-9.
    pub load_ppb: u64,
    /// Code resulting from this load.
    pub code: VcpCode,
    /// BISE's r in 2^-32, if it is running.
    pub r_q32: Option<u64>,
    /// Persistent queue in bytes.
    pub persistent_queue: u64,
    /// Packets sent with each code: none, LOW, HIGH, OVER.
    pub marked: [u64; 4],
    /// Measurements and grants of an XCP port, if the port runs XCP.
    pub xcp: Option<XcpLinkMetrics>,
    /// Counters of requests for a starting rate, if the port handles these.
    pub grants: Option<GrantMetrics>,
    /// Counters of clouds, if the port looks for these.
    pub clouds: Option<CloudMetrics>,
}
