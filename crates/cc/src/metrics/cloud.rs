//! Counters of clouds at a port, for reports.

/// Counters of clouds at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudMetrics {
    /// Upstream routers currently remembered.
    pub upstreams: u32,
    /// Upstream routers among these whose cloud is known.
    pub known: u32,
    /// Packets that arrived through a known cloud.
    pub counted: u64,
    /// Packets that arrived through an unknown cloud, which their senders were informed about.
    pub unknown: u64,
    /// Packets whose upstream router couldn't be remembered because there was no room.
    pub refused: u64,
    /// Upstream routers that were forgotten.
    pub forgotten: u64,
    /// How often others were found to keep a cloud's queue full, so that senders had to compete
    /// with them like CUBIC.
    pub crowded: u64,
}
