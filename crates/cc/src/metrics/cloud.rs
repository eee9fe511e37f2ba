//! A port's counters of clouds, for reports.

/// A port's counters of clouds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudMetrics {
    /// Upstream routers that are kept.
    pub upstreams: u32,
    /// Those of them whose cloud is known.
    pub known: u32,
    /// Packets that came through a cloud that is known …
    pub counted: u64,
    /// … and through one that is not; their senders received that.
    pub unknown: u64,
    /// Packets among the latter for whose upstream router there was no room.
    pub refused: u64,
    /// Upstream routers that were forgotten.
    pub forgotten: u64,
    /// Times that others were found to keep a cloud's queue full, so that senders were left to
    /// share it with them as CUBIC does.
    pub crowded: u64,
}
