//! What became of datagrams, above all of those that were for no connection.

/// Counters of an endpoint, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Clients' first packets that were handed out as [`Incoming`](super::Incoming).
    pub incoming: u64,
    /// Retry packets sent.
    pub retries_sent: u64,
    /// Version Negotiation packets sent.
    pub version_negotiations_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Connections refused, by the application or for a bad Retry token.
    pub refusals_sent: u64,
    /// Dropped: no QUIC packet, or one that this endpoint has no use for.
    pub dropped_foreign: u64,
    /// Dropped: 0-RTT packets of clients whose first packet has not come. None are kept for it.
    pub dropped_early: u64,
    /// Dropped: short packets with an unknown id and no room for a reset in answer.
    pub dropped_unknown: u64,
    /// Dropped: Initial packets in datagrams of less than 1200 bytes (or than
    /// [`TransportConfig::initial_mtu`](crate::TransportConfig::initial_mtu) of the server, if that
    /// is less), or with too short an id.
    pub dropped_short_initials: u64,
    /// Dropped: Initial packets that do not open.
    pub dropped_forged_initials: u64,
    /// Handshakes that had to make room for those of clients who held fewer.
    pub evicted: u64,
    /// Dropped: Initial packets beyond the bound on handshakes or connections.
    pub dropped_full: u64,
    /// Dropped: more datagrams than are held for a connection that waits to be accepted.
    pub dropped_waiting: u64,
    /// Messages from the kernel, of one datagram or a train of them, whose control messages were
    /// cut off: their TTL, ECN field or destination are not known, and trains of unknown segments
    /// were dropped. From the driver; 0 without it.
    pub cut_off: u64,
    /// Datagrams for connections. From the driver; 0 without it.
    pub received: u64,
    /// Those of [`received`](Self::received) that the connections' own tasks opened, on whatever
    /// core they ran, and not the task that reads the socket. From the driver; 0 without it.
    pub handed_over: u64,
    /// Not sent: answers beyond the bound on answers per second.
    pub answers_withheld: u64,
    /// Tokens of clients that were forged, expired, of another address, or used before.
    pub tokens_refused: u64,
    /// Connections that were neither accepted nor refused in time.
    pub expired: u64,
}
