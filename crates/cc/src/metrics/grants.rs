//! Counters of a port's requests for a starting rate, for reports.

/// Counters of a port's requests for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantMetrics {
    /// Requests processed.
    pub requests: u64,
    /// Requests granted at least partially.
    pub granted: u64,
    /// Requests denied because used and granted rates didn't leave any capacity.
    pub denied_busy: u64,
    /// Requests denied because their source sent too many within a second, or left grants unused.
    pub denied_source: u64,
    /// Requests denied because the port's table of grants was full.
    pub denied_room: u64,
    /// Grants whose traffic didn't arrive in time, or amounted to less than an eighth.
    pub unused: u64,
    /// Grants partially withdrawn in favour of other flows that asked meanwhile.
    pub lowered: u64,
    /// Total rate of all grants that currently count as approved, in bytes per second.
    pub pending: u64,
    /// Part of this rate whose traffic hasn't arrived yet.
    pub outstanding: u64,
}
