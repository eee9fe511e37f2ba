//! Transport settings with the recommended congestion control, and quinn's setters.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_protocols::signals;
use pathmark_transport::{self as core, ControllerFactory, Duration, VarInt};

/// Settings of connections. One value can serve many connections.
///
/// [`default`](Self::default) is the recommended configuration, with the congestion control `auto`
/// and the signals by which it asks routers. You can call quinn's setters, or change the fields of
/// [`pathmark_transport::TransportConfig`], to which this dereferences.
#[derive(Clone, Debug)]
pub struct TransportConfig(Arc<core::TransportConfig>);

impl TransportConfig {
    /// Creates settings with this congestion control, and with the signal by which it asks routers.
    /// They also offer the other signals that travel in shims, so that each side can use its own
    /// congestion control.
    pub fn of(algorithm: &Algorithm) -> Self {
        let law = algorithm.clone();
        let mut config = Self::new(Arc::new(move |now, mtu| law.controller(now, mtu)));
        config.signals = signals::offered_by(algorithm);
        if algorithm.is_granted() {
            config.streams = config.streams.with_room_for_grants();
        }
        config
    }

    /// Creates settings with a controller of your own and no signal, so that the connection sends
    /// plain QUIC.
    pub fn new(controller: Arc<dyn ControllerFactory>) -> Self {
        core::TransportConfig::new(controller).into()
    }

    pub(super) fn shared(&self) -> Arc<core::TransportConfig> {
        Arc::clone(&self.0)
    }

    /// Sets `streams.max_bidi_streams`.
    pub fn max_concurrent_bidi_streams(&mut self, streams: VarInt) -> &mut Self {
        self.streams.max_bidi_streams = streams.into_inner();
        self
    }

    /// Sets `streams.max_uni_streams`.
    pub fn max_concurrent_uni_streams(&mut self, streams: VarInt) -> &mut Self {
        self.streams.max_uni_streams = streams.into_inner();
        self
    }

    /// Sets `max_idle_timeout`.
    pub fn max_idle_timeout(&mut self, timeout: Option<IdleTimeout>) -> &mut Self {
        self.max_idle_timeout = timeout.map(|timeout| timeout.0);
        self
    }

    /// Sets `keep_alive`.
    pub fn keep_alive_interval(&mut self, interval: Option<Duration>) -> &mut Self {
        self.keep_alive = interval;
        self
    }

    /// Sets `streams.initial_stream_window`. It only grows if `streams.max_window` is larger.
    pub fn stream_receive_window(&mut self, bytes: VarInt) -> &mut Self {
        self.streams.initial_stream_window = bytes.into_inner();
        self
    }

    /// Limits all windows to this many bytes: sets `streams.initial_connection_window` and
    /// `streams.max_window`.
    pub fn receive_window(&mut self, bytes: VarInt) -> &mut Self {
        self.streams.initial_connection_window = bytes.into_inner();
        self.streams.max_window = bytes.into_inner();
        self
    }

    /// Sets `streams.max_send_buffer`.
    pub fn send_window(&mut self, bytes: u64) -> &mut Self {
        self.streams.max_send_buffer = bytes;
        self
    }

    /// Sets `datagrams.receive_bytes`. With `None`, the peer can't send datagrams.
    pub fn datagram_receive_buffer_size(&mut self, bytes: Option<usize>) -> &mut Self {
        self.datagrams.receive_bytes = bytes.unwrap_or(0);
        self
    }

    /// Sets `datagrams.send_bytes`.
    pub fn datagram_send_buffer_size(&mut self, bytes: usize) -> &mut Self {
        self.datagrams.send_bytes = bytes;
        self
    }

    /// Sets `controller`, and removes all signals, as in [`new`](Self::new).
    pub fn congestion_controller_factory(
        &mut self,
        factory: Arc<dyn ControllerFactory>,
    ) -> &mut Self {
        self.controller = factory;
        self.signals.clear();
        self
    }

    /// Sets [`initial_mtu`](core::TransportConfig::initial_mtu).
    pub fn initial_mtu(&mut self, bytes: u16) -> &mut Self {
        self.initial_mtu = bytes;
        self
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self::of(&Algorithm::default())
    }
}

impl Deref for TransportConfig {
    type Target = core::TransportConfig;

    fn deref(&self) -> &core::TransportConfig {
        &self.0
    }
}

impl DerefMut for TransportConfig {
    fn deref_mut(&mut self) -> &mut core::TransportConfig {
        Arc::make_mut(&mut self.0)
    }
}

impl From<core::TransportConfig> for TransportConfig {
    fn from(config: core::TransportConfig) -> Self {
        Self(Arc::new(config))
    }
}

impl From<Arc<core::TransportConfig>> for TransportConfig {
    fn from(config: Arc<core::TransportConfig>) -> Self {
        Self(config)
    }
}

impl From<Arc<Self>> for TransportConfig {
    fn from(config: Arc<Self>) -> Self {
        Self::clone(&config)
    }
}

/// How long a connection may be idle: up to 2^62 − 1 milliseconds. Parts of a millisecond count as
/// a whole one, and zero means forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdleTimeout(Duration);

/// Takes milliseconds.
impl From<VarInt> for IdleTimeout {
    fn from(milliseconds: VarInt) -> Self {
        Self(Duration::from_millis(milliseconds.into_inner()))
    }
}

impl TryFrom<std::time::Duration> for IdleTimeout {
    type Error = core::wire::varint::TooLarge;

    fn try_from(timeout: std::time::Duration) -> Result<Self, Self::Error> {
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
        let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        Ok(VarInt::from_u64(milliseconds)?.into())
    }
}
