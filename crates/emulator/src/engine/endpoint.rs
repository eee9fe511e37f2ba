//! One end of a flow: an unchanged connection of the transport, with its application.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_cc::Instant;
use pathmark_transport::TransportConfig;
use pathmark_transport::cid::LOCAL_ID_LEN;
use pathmark_transport::connection::{
    ClientStart, ConnectError, Connection, Received, ServerStart, Transmit,
};
use pathmark_transport::crypto::Random;
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::wire::{PacketType, PartialDecode};

use super::application::{Sink, Source};
use super::measure::Average;
use super::packet::Taken;
use super::tcp::{TcpReceiver, TcpSender};
use super::udp::Emitter;

/// Application protocol of emulated connections.
const PROTOCOL: &[u8] = b"pathmark-emulator";
/// The server name in client connections.
const SERVER_NAME: &str = "emulated";
/// Datagrams per batch, few enough that a batch stays in the cache.
const BATCH: usize = 8;

/// The initial settings of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) config: Arc<TransportConfig>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) seed: u64,
    /// True if it opens the connection, false if it accepts it.
    pub(super) connects: bool,
    /// True if the two ends have been connected before.
    pub(super) known: bool,
}

impl Setup {
    /// Packets arrive unchanged or not at all, so their contents need no verification.
    fn cipher(&self) -> Arc<NullCrypto> {
        let cipher = NullCrypto::new(&[PROTOCOL]).with_light_tags();
        let kinds: Vec<u8> = self.config.signals.iter().map(|s| s.kind()).collect();
        Arc::new(match self.known {
            true => cipher.with_early_data(&kinds),
            false => cipher,
        })
    }
}

/// The application on a connection.
#[derive(Debug)]
pub(super) enum Application {
    /// Sends over a connection.
    Sender(Source),
    /// Receives over a connection.
    Receiver(Sink),
    /// Sends packets without a connection.
    Emitter(Emitter),
    /// Counts the bytes of packets without a connection.
    Counter(u64),
    /// Sends over a TCP of the papers' time.
    TcpSender(Box<TcpSender>),
    /// Receives over it.
    TcpReceiver(TcpReceiver),
}

/// One end of a flow.
pub(super) struct Endpoint {
    setup: Setup,
    application: Application,
    /// When the connection should be opened.
    start: Instant,
    connection: Option<Box<Connection>>,
    window: Average,
}

impl Endpoint {
    /// Creates an endpoint that connects at `start`, or waits for a connection.
    pub(super) fn new(setup: Setup, application: Application, start: Instant) -> Self {
        Self {
            setup,
            application,
            start,
            connection: None,
            window: Average::new(start, 0),
        }
    }

    /// Its peer's address and its own.
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.setup.remote, self.setup.local)
    }

    /// When [`on_time`](Self::on_time) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match (&self.application, &self.connection) {
            (Application::Emitter(emitter), _) => emitter.deadline(),
            (Application::TcpSender(tcp), _) => tcp.deadline(),
            (Application::Counter(_) | Application::TcpReceiver(_), _) => None,
            (_, None) => self.setup.connects.then_some(self.start),
            (Application::Sender(source), Some(connection)) => {
                match (connection.deadline(), source.deadline()) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                }
            }
            (Application::Receiver(_), Some(connection)) => connection.deadline(),
        }
    }

    /// Performs the actions that are due.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection cannot start.
    pub(super) fn on_time(&mut self, now: Instant) -> Result<(), ConnectError> {
        match &mut self.application {
            Application::Emitter(emitter) => {
                emitter.on_time(now);
                return Ok(());
            }
            Application::TcpSender(tcp) => {
                tcp.on_time(now);
                return Ok(());
            }
            _ => {}
        }
        match &mut self.connection {
            Some(connection) => connection.handle_timeout(now),
            None => self.connect(now)?,
        }
        self.react(now);
        Ok(())
    }

    fn connect(&mut self, now: Instant) -> Result<(), ConnectError> {
        if !self.setup.connects {
            return Ok(());
        }
        let start = ClientStart {
            config: Arc::clone(&self.setup.config),
            crypto: self.setup.cipher(),
            server_name: SERVER_NAME.to_owned(),
            remote: self.setup.remote,
            local: Some(self.setup.local.ip()),
            token: Vec::new(),
            endpoint_key: Arc::new(NullEndpointKey::new(self.setup.seed)),
            random: Random::from_u64(self.setup.seed),
        };
        self.connection = Some(Connection::client(now, start)?);
        Ok(())
    }

    /// Handles an arriving datagram.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection cannot start.
    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        taken: Taken,
        datagram: &mut [u8],
    ) -> Result<(), ConnectError> {
        match &mut self.application {
            Application::Counter(bytes) => *bytes += datagram.len() as u64,
            Application::TcpSender(tcp) => tcp.on_datagram(now, datagram),
            Application::TcpReceiver(tcp) => tcp.on_datagram(now, datagram),
            _ => return self.handle_connected(now, taken, datagram),
        }
        Ok(())
    }

    fn handle_connected(
        &mut self,
        now: Instant,
        taken: Taken,
        datagram: &mut [u8],
    ) -> Result<(), ConnectError> {
        if self.connection.is_none() && !self.setup.connects {
            self.connection = self.accept(now, datagram)?;
        }
        if let Some(connection) = &mut self.connection {
            let received = Received {
                remote: self.setup.remote,
                local: Some(self.setup.local.ip()),
                ecn: taken.ecn,
                ttl: Some(taken.ttl),
            };
            connection.handle_datagram(now, received, datagram);
        }
        Ok(())
    }

    /// Creates a connection for a client's first datagram. Its address counts as validated,
    /// because no emulated host spoofs addresses.
    fn accept(
        &self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<Option<Box<Connection>>, ConnectError> {
        let Ok(PartialDecode::Protected(found)) = PartialDecode::new(datagram, LOCAL_ID_LEN) else {
            return Ok(None);
        };
        if found.ty != PacketType::Initial {
            return Ok(None);
        }
        let start = ServerStart {
            config: Arc::clone(&self.setup.config),
            crypto: self.setup.cipher(),
            remote: self.setup.remote,
            local: Some(self.setup.local.ip()),
            destination: found.dcid,
            source: found.scid,
            original_destination: found.dcid,
            retry_source: None,
            validated: true,
            endpoint_key: Arc::new(NullEndpointKey::new(self.setup.seed)),
            random: Random::from_u64(self.setup.seed),
        };
        Ok(Some(Connection::server(now, start)?))
    }

    /// Lets the application react.
    pub(super) fn react(&mut self, now: Instant) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        match &mut self.application {
            Application::Sender(source) => source.react(now, connection),
            Application::Receiver(sink) => sink.react(now, connection),
            _ => {}
        }
    }

    /// Datagrams to send now.
    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let remote = self.setup.remote;
        match &mut self.application {
            Application::Emitter(emitter) => emitter.poll_transmit(remote, buffer, BATCH),
            Application::TcpSender(tcp) => tcp.poll_transmit(now, remote, buffer),
            Application::TcpReceiver(tcp) => tcp.poll_transmit(remote, buffer),
            _ => self.connection.as_mut()?.poll_transmit(now, buffer, BATCH),
        }
    }

    /// The hash of the flow to which packets sent now claim to belong; `own` is that of the
    /// first ones.
    pub(super) fn flow_hash(&self, now: Instant, own: u32) -> u32 {
        match &self.application {
            Application::Emitter(emitter) => emitter.flow_hash(now, own),
            _ => own,
        }
    }

    /// Records time-dependent measurements after everything possible has been sent.
    pub(super) fn settle(&mut self, now: Instant) {
        match (&self.application, &self.connection) {
            (Application::Sender(_), Some(connection)) => {
                self.window.set(now, connection.congestion_window());
            }
            (Application::TcpSender(tcp), _) => self.window.set(now, tcp.window()),
            _ => {}
        }
    }

    /// The connection, once it has started.
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.connection.as_deref()
    }

    /// The receiving application; `None` for senders.
    pub(super) fn sink(&self) -> Option<&Sink> {
        match &self.application {
            Application::Receiver(sink) => Some(sink),
            _ => None,
        }
    }

    /// Bytes delivered to its application.
    pub(super) fn delivered(&self) -> u64 {
        match &self.application {
            Application::Receiver(sink) => sink.delivered(),
            Application::TcpReceiver(tcp) => tcp.delivered(),
            Application::Counter(bytes) => *bytes,
            _ => 0,
        }
    }

    /// When everything had arrived.
    pub(super) fn completed(&self) -> Option<Instant> {
        match &self.application {
            Application::Receiver(sink) => sink.completed(),
            Application::TcpReceiver(tcp) => tcp.completed(),
            _ => None,
        }
    }

    /// The sending TCP; `None` for others.
    pub(super) fn tcp(&self) -> Option<&TcpSender> {
        match &self.application {
            Application::TcpSender(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// Packets sent without a connection; `None` if there is one.
    pub(super) fn datagrams_sent(&self) -> Option<u64> {
        match &self.application {
            Application::Emitter(emitter) => Some(emitter.sent()),
            Application::TcpSender(tcp) => Some(tcp.sent()),
            _ => None,
        }
    }

    /// The congestion window over time.
    pub(super) fn window(&self) -> &Average {
        &self.window
    }
}
