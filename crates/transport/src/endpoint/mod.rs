//! Many connections behind one socket, without I/O.
//!
//! ```text
//!   datagram ─► handle ─┬─► Connection(handle)   hand it to that connection
//!                       ├─► Incoming             accept, refuse, retry or ignore it
//!                       ├─► Respond              send the answer to the datagram's source
//!                       └─► Nothing
//!   connect, accept ─► (handle, Connection) ─► after each use of the connection: update
//! ```
//!
//! The driver owns the connections. An [`Endpoint`] only keeps the state for finding them: their
//! ids, their first packets and the reset tokens of their peers. It also answers strangers (version
//! negotiation, Retry, stateless reset, refusal), and doesn't hold anything for a client whose
//! first packet can't be opened. All state is bounded by the number of connections and half-open
//! handshakes ([`EndpointConfig`]). When all places are taken, a new client's handshake can replace
//! one of the prefix that holds the most ([`Endpoint::poll_evicted`]).
//!
//! The endpoint skips a shim in front of a datagram to find the id behind it; the connection
//! removes it.

use std::collections::VecDeque;
use std::sync::Arc;

use pathmark_shim::demux::Datagram;
use slab::Slab;

mod admission;
mod config;
mod connections;
mod demux;
mod half_open;
mod known;
mod respond;

#[cfg(test)]
mod crowd_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use admission::{FirstPacket, OpenedFirst};
pub use config::{EndpointConfig, RetryPolicy, ServerConfig};
pub use connections::{AcceptError, Accepted, ClientToStart, Connect, ConnectError, ServerToStart};
pub use half_open::Incoming;

use crate::cid::LOCAL_ID_LEN;
use crate::connection::Received;
use crate::crypto::Random;
use crate::crypto::token::ReplayFilter;
use crate::streams::ReceiveMemory;
use crate::wire::{PacketType, PartialDecode};
use crate::{Duration, Instant};
use config::RetrySwitch;
use demux::{Demux, Drained, GONE};
use half_open::{HalfOpen, Waiting};
use known::KnownPaths;
use respond::RateLimit;

/// Identifies a connection of an endpoint until it is removed. The number can then be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// Tells you how to proceed with a datagram.
#[derive(Debug)]
pub enum DatagramEvent {
    /// It belongs to this connection. Pass it to
    /// [`Connection::handle_datagram`](crate::connection::Connection::handle_datagram).
    Connection(ConnectionHandle),
    /// A client asks for a connection.
    Incoming(Incoming),
    /// Send the answer in the buffer to the datagram's source address, as not ECN-capable.
    Respond,
    /// There's nothing to do.
    Nothing,
}

/// Where a datagram belongs, as far as that is known without opening a first packet.
#[derive(Debug)]
pub enum Sorted {
    /// The destination is known.
    Known(DatagramEvent),
    /// A client's first packet. You should [open](FirstPacket::open) it and then
    /// [admit](Endpoint::admit) it.
    First(FirstPacket),
}

impl From<DatagramEvent> for Sorted {
    fn from(event: DatagramEvent) -> Self {
        Self::Known(event)
    }
}

/// A slot in the table of connections.
#[derive(Debug)]
enum Slot {
    /// Handed out as [`Incoming`], not accepted yet.
    Waiting(Waiting),
    /// Accepted or opened.
    Connection {
        /// The serial number of a client's handshake that is not over yet.
        half_open: Option<u64>,
    },
    /// A connection that was evicted, until its driver has taken the event.
    Evicted,
}

/// Finds the connection for each datagram, and answers datagrams without one. See the
/// [module](self).
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    random: Random,
    demux: Demux,
    drained: Drained,
    slots: Slab<Slot>,
    /// Slots in which a client's handshake is not over.
    half_open: HalfOpen,
    /// [`Slot::Waiting`] in the order in which they expire, with their serial numbers.
    waiting: VecDeque<(ConnectionHandle, u64)>,
    next_serial: u64,
    /// Connections that are [`Slot::Evicted`], for their drivers to take.
    evicted: VecDeque<ConnectionHandle>,
    /// Shared memory for data that connections receive.
    memory: Arc<ReceiveMemory>,
    retry: RetrySwitch,
    used_tokens: ReplayFilter,
    known: KnownPaths,
    resets: RateLimit,
    negotiations: RateLimit,
    refusals: RateLimit,
    stats: EndpointStats,
}

impl Endpoint {
    /// Creates an endpoint without connections. `random` must be unpredictable to others.
    pub fn new(config: EndpointConfig, mut random: Random) -> Self {
        let limit = || RateLimit::new(config.answers_per_second);
        let demux = Demux::new(&mut random);
        let lifetime = config.known_path_lifetime;
        let known = KnownPaths::new(config.known_paths, lifetime, &mut random);
        Self {
            demux,
            drained: Drained::default(),
            random,
            slots: Slab::new(),
            half_open: HalfOpen::default(),
            waiting: VecDeque::new(),
            next_serial: 0,
            evicted: VecDeque::new(),
            memory: Arc::new(ReceiveMemory::new(config.receive_memory)),
            retry: RetrySwitch::new(config.retry),
            used_tokens: ReplayFilter::new(config.new_token_lifetime, config.remembered_tokens),
            known,
            resets: limit(),
            negotiations: limit(),
            refusals: limit(),
            stats: EndpointStats::default(),
            config,
        }
    }

    /// Returns counters since the endpoint was created.
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Changes [`EndpointConfig::receive_memory`]. This also affects connections that are already
    /// open.
    pub fn set_receive_memory(&self, bytes: u64) {
        self.memory.set_limit(bytes);
    }

    /// Changes the part of [`EndpointConfig::receive_memory`] that connections can promise without
    /// having earned it by reading, initially a quarter.
    pub fn set_unearned_memory(&self, bytes: u64) {
        self.memory.set_pool(bytes);
    }

    /// Returns how many bytes of memory received data currently takes, over all connections.
    pub fn receive_memory(&self) -> u64 {
        self.memory.held()
    }

    /// Returns the number of connections, including clients waiting to be accepted.
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of handshakes begun by clients that aren't complete, including failed
    /// handshakes that aren't forgotten yet.
    pub fn half_open(&self) -> usize {
        self.half_open.count()
    }

    /// Returns a connection whose handshake had to make room for another. Call this after each
    /// [`DatagramEvent::Incoming`]. You must then [`Connection::refuse`] the connection, send its
    /// last packets, and call [`update`](Self::update), which ends it.
    ///
    /// [`Connection::refuse`]: crate::connection::Connection::refuse
    pub fn poll_evicted(&mut self) -> Option<ConnectionHandle> {
        self.evicted.pop_front()
    }

    /// Returns true if you can still accept `incoming`: it has neither expired nor had to make
    /// room.
    pub fn is_waiting(&self, incoming: &Incoming) -> bool {
        matches!(
            self.slots.get(incoming.handle.0),
            Some(Slot::Waiting(waiting)) if waiting.serial == incoming.serial
        )
    }

    /// Sets whether to accept connections from now on; with `None`, the endpoint no longer does.
    pub fn set_server(&mut self, server: Option<ServerConfig>) {
        self.config.server = server;
    }

    /// Changes [`EndpointConfig::retry`].
    pub fn set_retry(&mut self, policy: RetryPolicy) {
        self.config.retry = policy;
        self.retry = RetrySwitch::new(policy);
    }

    /// Changes [`EndpointConfig::max_half_open`] and [`EndpointConfig::max_connections`] if a value
    /// is given. Lowering them doesn't affect existing handshakes and connections.
    pub fn set_limits(&mut self, half_open: Option<usize>, connections: Option<usize>) {
        let config = &mut self.config;
        config.max_half_open = half_open.unwrap_or(config.max_half_open);
        config.max_connections = connections.unwrap_or(config.max_connections);
    }

    fn wall(&self, now: Instant) -> Duration {
        self.config
            .epoch
            .saturating_add(now.saturating_since(Instant::ZERO))
    }

    /// Determines how to proceed with a datagram. `answer` is cleared, and filled only for
    /// [`DatagramEvent::Respond`].
    pub fn handle(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        match self.sort(now, received, datagram, answer) {
            Sorted::Known(event) => event,
            Sorted::First(first) => {
                let opened = first.open(received, datagram);
                self.admit(now, received, datagram, opened, |_| false, answer)
            }
        }
    }

    /// Performs the part of [`handle`](Self::handle) that doesn't open any packet.
    pub fn sort(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> Sorted {
        let packet = match Datagram::classify(datagram) {
            Datagram::QuicLong => return self.sort_long(now, received, datagram, answer),
            Datagram::QuicShort => datagram,
            Datagram::Shim(_) => {
                let packet = behind_shim(datagram);
                match Datagram::classify(packet) {
                    Datagram::QuicShort => packet,
                    Datagram::QuicLong => {
                        return self.handle_early(received, datagram, packet).into();
                    }
                    Datagram::Shim(_) | Datagram::Other => return self.foreign().into(),
                }
            }
            Datagram::Other => return self.foreign().into(),
        };
        let Some(dcid) = packet.get(1..).and_then(|rest| rest.first_chunk()) else {
            return self.foreign().into();
        };
        match self.demux.by_id(dcid) {
            Some(handle) => known(handle).into(),
            None => self
                .handle_unknown(now, received, packet, *dcid, answer)
                .into(),
        }
    }

    #[cold]
    fn foreign(&mut self) -> DatagramEvent {
        // [9000 5.2.2 all-others] [9000 10.3 too-small]
        self.stats.dropped_foreign += 1;
        DatagramEvent::Nothing
    }

    /// Handles a short packet whose id isn't (or is no longer) ours. It is either a stateless
    /// reset or requires one in response.
    #[cold]
    fn handle_unknown(
        &mut self,
        now: Instant,
        received: &Received,
        packet: &[u8],
        dcid: [u8; LOCAL_ID_LEN],
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        if let Some(handle) = self.resets(received, packet) {
            return known(handle);
        }
        self.send_reset(now, &dcid, packet.len(), answer)
    }

    /// Handles a packet with a long header behind a shim, which must be early data. It can't begin
    /// a connection.
    #[cold]
    fn handle_early(
        &mut self,
        received: &Received,
        datagram: &[u8],
        packet: &[u8],
    ) -> DatagramEvent {
        let Ok(PartialDecode::Protected(found)) = PartialDecode::new(packet, LOCAL_ID_LEN) else {
            return self.foreign();
        };
        if found.ty != PacketType::ZeroRtt {
            return self.foreign();
        }
        if let Ok(id) = found.dcid.as_slice().try_into()
            && let Some(handle) = self.demux.by_id(id)
        {
            return known(handle);
        }
        match self.demux.by_initial(&found.dcid, received.remote) {
            Some(handle) => self.handle_begun(handle, received, datagram),
            None => {
                self.stats.dropped_early += 1;
                DatagramEvent::Nothing
            }
        }
    }

    fn sort_long(
        &mut self,
        now: Instant,
        received: &Received,
        datagram: &[u8],
        answer: &mut Vec<u8>,
    ) -> Sorted {
        let Ok(found) = PartialDecode::new(datagram, LOCAL_ID_LEN) else {
            return self.odd(received, datagram).into();
        };
        let dcid = found.dcid(datagram);
        if let Ok(id) = dcid.try_into()
            && let Some(handle) = self.demux.by_id(id)
        {
            return known(handle).into();
        }
        let event = match found {
            PartialDecode::Protected(found) => {
                match self.demux.by_initial(&found.dcid, received.remote) {
                    Some(handle) => self.handle_begun(handle, received, datagram),
                    None => match found.ty {
                        PacketType::Initial => {
                            return self.sort_initial(now, received, datagram, found, answer);
                        }
                        PacketType::ZeroRtt => {
                            self.stats.dropped_early += 1;
                            DatagramEvent::Nothing
                        }
                        PacketType::Handshake | PacketType::OneRtt => self.odd(received, datagram),
                    },
                }
            }
            PartialDecode::UnknownVersion(unknown) => match self.resets(received, datagram) {
                Some(handle) => known(handle),
                None => self.negotiate(now, datagram, &unknown, answer),
            },
            // [9000 6.1 none-for-negotiation]
            PartialDecode::Retry(_) | PartialDecode::VersionNegotiation => {
                self.odd(received, datagram)
            }
        };
        event.into()
    }

    /// Handles a packet to the destination id of a client's first packet.
    fn handle_begun(
        &mut self,
        handle: ConnectionHandle,
        received: &Received,
        datagram: &[u8],
    ) -> DatagramEvent {
        match self.slots.get_mut(handle.0) {
            Some(Slot::Connection { .. }) => DatagramEvent::Connection(handle),
            Some(Slot::Waiting(waiting)) => {
                if !waiting.hold(*received, datagram) {
                    self.stats.dropped_waiting += 1;
                }
                DatagramEvent::Nothing
            }
            Some(Slot::Evicted) | None => DatagramEvent::Nothing,
        }
    }
}

fn known(handle: ConnectionHandle) -> DatagramEvent {
    match handle {
        GONE => DatagramEvent::Nothing,
        handle => DatagramEvent::Connection(handle),
    }
}

/// Returns the packet behind a datagram's shim.
fn behind_shim(datagram: &[u8]) -> &[u8] {
    pathmark_shim::frame::declared_len(datagram)
        .ok()
        .and_then(|len| datagram.get(len..))
        .unwrap_or(&[])
}

/// Counters since the endpoint was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Clients' first packets returned as [`Incoming`].
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
