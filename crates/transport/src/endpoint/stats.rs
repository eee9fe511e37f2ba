//! Statistics about datagrams, mainly those without a connection.

/// Counters since the endpoint was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Clients' first packets returned as [`Incoming`](super::Incoming).
    pub incoming: u64,
    /// Retry packets sent.
    pub retries_sent: u64,
    /// Version Negotiation packets sent.
    pub version_negotiations_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Connections refused by the application or because of a bad Retry token.
    pub refusals_sent: u64,
    /// Datagrams dropped because they weren't QUIC packets, or this endpoint had no use for them.
    pub dropped_foreign: u64,
    /// 0-RTT packets dropped because their client's first packet hadn't arrived. They are never
    /// kept until it does.
    pub dropped_early: u64,
    /// Short packets dropped because their id was unknown and they were too short for answering
    /// with a reset.
    pub dropped_unknown: u64,
    /// Initial packets dropped because their datagram had less than 1200 bytes (or less than the
    /// server's [`TransportConfig::initial_mtu`](crate::TransportConfig::initial_mtu), if that is
    /// lower), or because an id was too short.
    pub dropped_short_initials: u64,
    /// Initial packets dropped because they couldn't be opened.
    pub dropped_forged_initials: u64,
    /// Handshakes evicted to make room for clients holding fewer.
    pub evicted: u64,
    /// Initial packets dropped because the limit on handshakes or connections was reached.
    pub dropped_full: u64,
    /// Datagrams dropped because too many were already held for a connection waiting to be
    /// accepted.
    pub dropped_waiting: u64,
    /// Messages from the kernel (a single datagram or a train) whose control messages were
    /// truncated. Their TTL, ECN field or destination are unknown; trains of unknown segment size
    /// were dropped. Set by the driver, otherwise 0.
    pub cut_off: u64,
    /// Datagrams for connections. Set by the driver, otherwise 0.
    pub received: u64,
    /// Datagrams among [`received`](Self::received) that were opened by the connections' own tasks,
    /// possibly on other cores, instead of by the task that reads the socket. Set by the driver,
    /// otherwise 0.
    pub handed_over: u64,
    /// Answers withheld because of the limit on answers per second.
    pub answers_withheld: u64,
    /// Tokens refused because they were forged, expired, issued to another address, or already
    /// used.
    pub tokens_refused: u64,
    /// Connections that expired because they were neither accepted nor refused in time.
    pub expired: u64,
}
