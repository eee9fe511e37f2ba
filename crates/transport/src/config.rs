//! What an application chooses about its connections.

use core::fmt;
use std::sync::Arc;

use pathmark_cc::{Algorithm, Controller};

use crate::datagrams::DatagramsConfig;
use crate::path::{BASE_MTU, LEAST_BASE};
use crate::streams::StreamsConfig;
use crate::wire::packet::MIN_INITIAL_DATAGRAM;
use crate::{Duration, Instant, Signal};

/// Makes a congestion controller for each path of each connection.
///
/// Implemented by every `Fn(Instant, u16) -> Box<dyn Controller>`, so an application can bring its
/// own law.
pub trait ControllerFactory: Send + Sync {
    /// A controller for a new path. `mtu` is the largest datagram so far, in bytes of UDP payload.
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

/// Configuration of a connection; one serves many.
///
/// Fields are public and have sane defaults ([`TransportConfig::new`]); what cannot be is clamped
/// when a connection starts, not refused.
#[derive(Clone)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Makes the congestion controllers.
    pub controller: Arc<dyn ControllerFactory>,
    /// Explicit-feedback protocols that this side can fill and read, the preferred first. Empty:
    /// not one byte differs from plain QUIC.
    pub signals: Vec<Arc<dyn Signal>>,
    /// The connection ends after this time without a packet (the lesser of both sides' rules).
    /// `None` or zero: never. Three probe timeouts of a slow path are waited in any case (RFC 9000
    /// §10.1), each of which counts as this timeout, or 20 s, at most.
    pub max_idle_timeout: Option<Duration>,
    /// The connection ends if its handshake is not complete by then, whatever arrives meanwhile.
    pub handshake_timeout: Duration,
    /// Send a PING after this time of silence, so that the connection outlives idle times. `None`:
    /// do not.
    pub keep_alive: Option<Duration>,
    /// Largest datagram before path MTU discovery, bytes of UDP payload, shim included: what every
    /// path is known to carry. 1200 on the Internet (RFC 9000 §14). More where the network is
    /// known; less, down to 400, only where both ends are configured so and old studies with small
    /// packets are repeated: Initial datagrams then are that small, and servers with another
    /// configuration drop them.
    pub initial_mtu: u16,
    /// Largest datagram that path MTU discovery tries, bytes of UDP payload, shim included. Not
    /// above [`initial_mtu`](Self::initial_mtu): no discovery. `None`: what the interface carries,
    /// as far as the driver knows it, but no more than 8972, which is a packet of 9000 bytes; 1472
    /// where the interface's MTU is unknown.
    pub max_mtu: Option<u16>,
    /// Largest datagram that this side receives, bytes (`max_udp_payload_size`, RFC 9000 §18.2).
    pub max_udp_payload_size: u16,
    /// Mark packets ECT(0) and read the counts that come back (RFC 9000 §13.4), unless a signal
    /// claims the field.
    pub ecn: bool,
    /// Differentiated services code point of all packets of a connection (RFC 2474), below 64 (its
    /// low six bits count). 0: best effort. The driver sets it on Linux only. Answers to strangers
    /// (Retry, resets) leave with 0.
    pub dscp: u8,
    /// Limits and windows of streams.
    pub streams: StreamsConfig,
    /// Unreliable datagrams (RFC 9221): whether this side takes them, and its queues.
    pub datagrams: DatagramsConfig,
    /// Longest time that this side delays an acknowledgement (RFC 9000 §13.2.1). The transport
    /// parameter advertises whole milliseconds, at least one.
    pub max_ack_delay: Duration,
    /// Ranges of packet numbers that an ACK frame of 1-RTT packets has at most, at least 1: the
    /// newest are reported. `None`: as many as there is reason for. Few serve studies of what
    /// selective acknowledgement is worth: what a receiver held back of an older range is never
    /// acknowledged, so its sender repeats it.
    pub max_ack_ranges: Option<usize>,
    /// Connection ids of the peer's that this side stores, at least 2.
    pub active_connection_id_limit: u64,
    /// A client may change its address (RFC 9000 §9). Servers with false send
    /// `disable_active_migration`.
    pub migration: bool,
    /// The rate that paths to these peers are known to carry, in bytes of IP packets per second.
    /// Where the peer's address is validated, a law that asks routers for a starting rate asks for
    /// this one before the handshake is complete: a server with its first flight, a client with its
    /// own if it may send early data there (0-RTT) and the peer advertised the signal for questions
    /// the last time. Nothing is sent at this rate without a grant. `None`: it asks with its first
    /// flight of data.
    pub known_rate: Option<u64>,
    /// 1-RTT packets after which the keys are updated; the cipher's own limits hold besides.
    pub key_update_after: u64,
}

impl TransportConfig {
    /// The defaults, with this way to make controllers.
    #[must_use]
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

    /// Size of the datagrams that begin connections, which prove that a path carries QUIC: 1200
    /// bytes (RFC 9000 §14.1), or what every path is configured to carry if that is less. A server
    /// drops Initial packets in smaller ones.
    pub(crate) fn full_datagram(&self) -> usize {
        MIN_INITIAL_DATAGRAM.min(self.initial_mtu.max(LEAST_BASE).into())
    }
}

impl Default for TransportConfig {
    /// The defaults with the library's choice of a control law, [`Algorithm::default()`], and no
    /// signal: plain QUIC on CUBIC. Routers' answers come in by a signal, and this crate knows no
    /// signal: `pathmark::transport_config` adds those of the law.
    fn default() -> Self {
        let law = Algorithm::default();
        Self::new(Arc::new(move |now: Instant, mtu: u16| {
            law.controller(now, mtu)
        }))
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
