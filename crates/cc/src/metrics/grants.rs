//! What a port made of requests for a starting rate, for reports.

/// Counters of a port's requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantMetrics {
    /// Requests looked at.
    pub requests: u64,
    /// Of these, granted at least in part.
    pub granted: u64,
    /// Denied: used and granted rates leave nothing.
    pub denied_busy: u64,
    /// Denied: too many of one source within a second, or of one that left grants unused.
    pub denied_source: u64,
    /// Denied: the port's table of grants is full.
    pub denied_room: u64,
    /// Grants whose traffic did not arrive in time, or of which less than an eighth did.
    pub unused: u64,
    /// Grants of which a part was taken back, for other flows that asked meanwhile.
    pub lowered: u64,
    /// Rate of all grants that count as approved, in bytes per second.
    pub pending: u64,
    /// The part of these whose traffic has not arrived yet.
    pub outstanding: u64,
}
