//! Configuration of connections.

use core::fmt;
use std::sync::Arc;

use pathmark_cc::Controller;

use crate::datagrams::DatagramsConfig;
use crate::observe::TraceFactory;
use crate::path::{BASE_MTU, LEAST_BASE};
use crate::streams::StreamsConfig;
use crate::wire::packet::MIN_INITIAL_DATAGRAM;
use crate::{Duration, Instant, Signal};

/// Creates a congestion controller for each path of each connection.
///
/// Every `Fn(Instant, u16) -> Box<dyn Controller>` implements this trait, so you can bring your own
/// control law by passing a closure.
pub trait ControllerFactory: Send + Sync {
    /// Creates the controller for a new path. `mtu` is the largest datagram that can currently be
    /// sent, in bytes of UDP payload.
    fn build(&self, now: Instant, mtu: u16) -> Box<dyn Controller>;
}

impl<F> ControllerFactory for F
where
    F: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync,
{
    fn build(&self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        self(now, mtu)
    }
}

/// Configuration of a connection. One value can serve many connections.
///
/// All fields are public and start from usable defaults ([`TransportConfig::new`]). A value that is
/// impossible isn't refused: it is clamped when a connection starts.
#[derive(Clone)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Creates the congestion controllers.
    pub controller: Arc<dyn ControllerFactory>,
    /// Explicit-feedback protocols that this side can write and read, in order of preference. If
    /// empty, the connection doesn't differ from plain QUIC by a single byte.
    pub signals: Vec<Arc<dyn Signal>>,
    /// Ends the connection after this time of inactivity; if the peer also sets a timeout, the
    /// shorter one applies. `None` or zero disables it. On a slow path, the connection always waits
    /// for three probe timeouts (RFC 9000 §10.1), each counted as at most this timeout or 20 s,
    /// whichever is longer.
    pub max_idle_timeout: Option<Duration>,
    /// Ends the connection if its handshake isn't complete by then, regardless of any packets
    /// received.
    pub handshake_timeout: Duration,
    /// Sends a PING after this time of silence, so that the connection survives idle periods.
    /// `None` disables it.
    pub keep_alive: Option<Duration>,
    /// Largest datagram to send before path MTU discovery has run, in bytes of UDP payload
    /// including the shim. Every path should be able to carry it, which holds for 1200 on the
    /// Internet (RFC 9000 §14). You can raise it if you know the network; a path that doesn't carry
    /// it is used with 1200 bytes after some losses, unless discovery is disabled. You should lower
    /// it, to no less than 400, only for paths that carry less or for repeating old studies with
    /// small packets, and then at both ends: Initial datagrams will be equally small, and servers
    /// with a different configuration will drop them.
    pub initial_mtu: u16,
    /// Largest datagram that path MTU discovery tries, in bytes of UDP payload including the shim.
    /// Discovery is disabled if this isn't above [`initial_mtu`](Self::initial_mtu). With `None`,
    /// the limit is the interface's MTU if the driver knows it, but at most 8972 (a packet of 9000
    /// bytes), and 1472 otherwise.
    pub max_mtu: Option<u16>,
    /// Largest datagram that this side can receive, in bytes (`max_udp_payload_size`, RFC 9000
    /// §18.2).
    pub max_udp_payload_size: u16,
    /// Marks packets as ECT(0) and evaluates the counts that the peer returns (RFC 9000 §13.4),
    /// unless a signal claims the ECN field.
    pub ecn: bool,
    /// Differentiated services code point of all packets of a connection (RFC 2474), below 64
    /// because only the low six bits are used. 0 means best effort. Drivers currently set it only
    /// on Linux. Packets that the endpoint sends without a connection (Retry, resets) always use 0.
    pub dscp: u8,
    /// Creates a log of each connection's events.
    pub trace: Option<Arc<dyn TraceFactory>>,
    /// Limits and windows of streams.
    pub streams: StreamsConfig,
    /// Unreliable datagrams (RFC 9221): whether this side accepts them, and the bounds of its
    /// queues.
    pub datagrams: DatagramsConfig,
    /// Longest time by which this side delays an acknowledgement (RFC 9000 §13.2.1). The transport
    /// parameter is advertised in whole milliseconds and is at least one.
    pub max_ack_delay: Duration,
    /// Maximum number of packet number ranges in an ACK frame of 1-RTT packets, at least 1; the
    /// newest ranges are reported. `None` reports as many as are useful. A small number helps when
    /// studying the value of selective acknowledgements: an older range that no longer fits is
    /// never acknowledged, so the sender will repeat its data.
    pub max_ack_ranges: Option<usize>,
    /// Number of the peer's connection IDs that this side stores, at least 2.
    pub active_connection_id_limit: u64,
    /// Allows a client to change its address (RFC 9000 §9). If false, servers send
    /// `disable_active_migration`.
    pub migration: bool,
    /// Rate that paths to these peers are known to carry, in bytes of IP packets per second. Once
    /// the peer's address is validated, a law that asks routers for a starting rate requests this
    /// rate before the handshake is complete. A server does so with its first flight; a client can
    /// do so with its own if it may send early data (0-RTT) and the peer advertised the signal for
    /// such questions the last time. Nothing is sent at this rate without a grant. With `None`, the
    /// law asks when sending its first flight of data.
    pub known_rate: Option<u64>,
    /// Number of 1-RTT packets after which the keys are updated. The cipher's own limits also
    /// apply.
    pub key_update_after: u64,
}

impl TransportConfig {
    /// Creates a configuration with default values and the given controller factory.
    pub fn new(controller: Arc<dyn ControllerFactory>) -> Self {
        Self {
            controller,
            signals: Vec::new(),
            max_idle_timeout: Some(Duration::from_secs(30)),
            handshake_timeout: Duration::from_secs(60),
            keep_alive: None,
            initial_mtu: BASE_MTU,
            max_mtu: None,
            max_udp_payload_size: 65_527,
            ecn: true,
            dscp: 0,
            trace: None,
            streams: StreamsConfig::default(),
            datagrams: DatagramsConfig::default(),
            max_ack_delay: Duration::from_millis(25),
            max_ack_ranges: None,
            active_connection_id_limit: 8,
            migration: true,
            known_rate: None,
            key_update_after: u64::MAX,
        }
    }

    /// Size of the datagrams that begin connections and thereby prove that a path carries QUIC:
    /// 1200 bytes (RFC 9000 §14.1), or the configured size of every path if that is less. A server
    /// drops Initial packets in smaller datagrams.
    pub(crate) fn full_datagram(&self) -> usize {
        MIN_INITIAL_DATAGRAM.min(self.initial_mtu.max(LEAST_BASE).into())
    }
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportConfig")
            .field("signals", &self.signals)
            .field("max_idle_timeout", &self.max_idle_timeout)
            .finish_non_exhaustive()
    }
}
