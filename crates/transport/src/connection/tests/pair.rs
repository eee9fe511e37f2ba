//! Two connections with a link in each direction.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::fixed_window::ControllerLog;
use super::link::{Datagram, Link};
pub(crate) use super::setup::{CLIENT, SERVER, Setup};
use crate::connection::{
    ClientStart, Connection, ConnectionError, Event, Received, Routing, ServerStart, Transmit,
};
use crate::crypto::Random;
use crate::crypto::null::NullEndpointKey;
use crate::streams::{Dir, ReadError, StreamId, WriteError};
use crate::wire::{ConnectionId, PacketType, PartialDecode};
use crate::{Duration, Ecn, Instant};

/// One end: a connection and the packets that it has sent so far.
pub(crate) struct Host {
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) address: SocketAddr,
    pub(crate) events: Vec<Event>,
    pub(crate) ids: Vec<ConnectionId>,
    /// IDs of short packets that arrived and aren't among those.
    pub(crate) unknown: Vec<ConnectionId>,
    /// Every datagram sent, if recording.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) batches: Vec<Transmit>,
    pub(crate) log: Arc<Mutex<ControllerLog>>,
}

impl Host {
    pub(crate) fn get(&mut self) -> &mut Connection {
        self.connection.as_mut().unwrap()
    }

    pub(crate) fn has(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }

    pub(crate) fn error(&self) -> Option<ConnectionError> {
        self.connection.as_ref().and_then(|c| c.error().cloned())
    }

    pub(crate) fn log(&self) -> ControllerLog {
        self.log.lock().unwrap().clone()
    }

    fn collect(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_event() {
            self.events.push(event);
        }
        while let Some(routing) = connection.poll_routing() {
            match routing {
                Routing::Add(id) => self.ids.push(id),
                Routing::Remove(id) => self.ids.retain(|known| *known != id),
                Routing::ResetTokens => {}
            }
        }
    }
}

/// Reads and changes datagrams in flight.
pub(crate) type Tap = Box<dyn FnMut(Instant, &mut Datagram)>;

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Host,
    pub(crate) server: Host,
    /// From client to server.
    pub(crate) up: Link,
    /// From server to client.
    pub(crate) down: Link,
    /// The server's Retry, if the client got one: original destination ID, and the Retry's source
    /// ID.
    pub(crate) retried: Option<(ConnectionId, ConnectionId)>,
    setup: Setup,
    /// Number of steps since time last advanced.
    still: u32,
    pub(crate) record: bool,
    /// Applied to each datagram in flight.
    pub(crate) tap: Option<Tap>,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    /// Runs until the client has the connection ID that the server chose.
    pub(crate) fn until_client_has_id(&mut self) {
        let known = |pair: &mut Self| {
            let client = pair.client.get();
            client.sources.handshake.parameters_mut().peer_id_known
        };
        assert!(self.run_until(Duration::from_secs(1), known));
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let now = Instant::from_millis(1);
        let client = Connection::client(
            now,
            ClientStart {
                config: Arc::new(setup.client.clone()),
                crypto: Arc::clone(&setup.client_crypto),
                server_name: setup.server_name.into(),
                remote: SERVER.parse().unwrap(),
                local: None,
                token: setup.token.clone(),
                endpoint_key: Arc::new(NullEndpointKey::new(7)),
                random: Random::from_u64(setup.seed),
            },
        )
        .unwrap();
        let host = |connection, address: &str, log: &Arc<Mutex<ControllerLog>>| Host {
            connection,
            address: address.parse().unwrap(),
            events: Vec::new(),
            ids: Vec::new(),
            unknown: Vec::new(),
            sent: Vec::new(),
            batches: Vec::new(),
            log: Arc::clone(log),
        };
        Self {
            now,
            client: host(Some(client), CLIENT, &setup.client_log),
            server: host(None, SERVER, &setup.server_log),
            up: Link::new(setup.latency, setup.seed),
            down: Link::new(setup.latency, setup.seed ^ 0xdead_beef),
            retried: None,
            setup,
            still: 0,
            record: false,
            tap: None,
        }
    }

    /// A pair whose handshake is confirmed.
    pub(crate) fn connected(setup: Setup) -> Self {
        let mut pair = Self::with(setup);
        pair.connect();
        pair
    }

    pub(crate) fn connect(&mut self) {
        let done = self.run_until(Duration::from_secs(60), |pair| {
            pair.client
                .connection
                .as_deref()
                .is_some_and(|connection| connection.handshake().is_confirmed())
                && pair
                    .server
                    .connection
                    .as_deref()
                    .is_some_and(|connection| connection.handshake().is_confirmed())
        });
        assert!(
            done,
            "no handshake with seed {}: {:?} {:?} {:?} {:?}",
            self.setup.seed,
            self.client.error(),
            self.server.error(),
            self.client.get().stats(),
            self.server.connection.as_deref().map(Connection::stats),
        );
    }

    /// Sends all packets, delivers those that have arrived, and fires timers that are due. Returns
    /// false if nothing is in flight.
    pub(crate) fn step(&mut self) -> bool {
        self.flush();
        let next = [
            self.up.next(),
            self.down.next(),
            self.client
                .connection
                .as_deref()
                .and_then(Connection::deadline),
            self.server
                .connection
                .as_deref()
                .and_then(Connection::deadline),
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(next) = next else {
            return false;
        };
        self.still = if next > self.now { 0 } else { self.still + 1 };
        assert!(self.still < 1000, "time stands still at {:?}", self.now);
        self.now = self.now.max(next);
        let now = self.now;
        for host in [&mut self.client, &mut self.server] {
            if let Some(connection) = &mut host.connection
                && connection.deadline().is_some_and(|at| at <= now)
            {
                connection.handle_timeout(now);
            }
        }
        while let Some(datagram) = self.up.arrive(now) {
            self.deliver_to_server(datagram);
        }
        while let Some(datagram) = self.down.arrive(now) {
            let client = &mut self.client;
            if datagram.to == client.address
                && let Some(connection) = &mut client.connection
            {
                if let Ok(PartialDecode::Protected(found)) = PartialDecode::new(&datagram.bytes, 8)
                    && found.ty == PacketType::OneRtt
                    && !client.ids.contains(&found.dcid)
                {
                    client.unknown.push(found.dcid);
                }
                deliver(connection, now, datagram);
                client.collect();
            }
        }
        true
    }

    fn deliver_to_server(&mut self, datagram: Datagram) {
        if self.server.connection.is_none() {
            let Ok(PartialDecode::Protected(found)) = PartialDecode::new(&datagram.bytes, 8) else {
                return;
            };
            let start = ServerStart {
                config: Arc::new(self.setup.server.clone()),
                crypto: Arc::clone(&self.setup.server_crypto),
                remote: datagram.from,
                local: None,
                destination: found.dcid,
                source: found.scid,
                original_destination: self.retried.map_or(found.dcid, |(original, _)| original),
                retry_source: self.retried.map(|(_, retry)| retry),
                validated: self.setup.validated || self.retried.is_some(),
                endpoint_key: Arc::new(NullEndpointKey::new(8)),
                random: Random::from_u64(self.setup.seed + 1000),
            };
            self.server.connection = Some(Connection::server(self.now, start).unwrap());
        }
        let now = self.now;
        deliver(self.server.get(), now, datagram);
        if self.server.get().stats().packets_received == 0 {
            // Damaged in flight. An endpoint doesn't begin a connection with a packet that it can't
            // decrypt.
            self.server.connection = None;
            return;
        }
        self.server.collect();
    }

    /// Delivers a datagram to the client that the server didn't send.
    pub(crate) fn send_to_client(&mut self, bytes: Vec<u8>) {
        let datagram = Datagram {
            from: self.server.address,
            to: self.client.address,
            ecn: Ecn::NotEct,
            bytes,
        };
        deliver(self.client.get(), self.now, datagram);
        self.client.collect();
    }

    /// Lets both sides send everything.
    pub(crate) fn flush(&mut self) {
        let mut buffer = vec![0; 65536];
        for client in [true, false] {
            let host = if client {
                &mut self.client
            } else {
                &mut self.server
            };
            loop {
                let segments = self.setup.segments;
                let Some(connection) = &mut host.connection else {
                    break;
                };
                let Some(transmit) = connection.poll_transmit(self.now, &mut buffer, segments)
                else {
                    break;
                };
                send(
                    &mut self.up,
                    &mut self.down,
                    self.now,
                    host,
                    transmit,
                    &buffer,
                    self.record,
                    &mut self.tap,
                );
            }
            host.collect();
        }
    }

    /// Runs until `done`, for at most `limit` of virtual time. Returns true if it was done.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let end = self.now + limit;
        loop {
            if done(self) {
                return true;
            }
            if self.now >= end || !self.step() {
                return false;
            }
        }
    }

    /// Runs for `time`, or until nothing is in flight.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next().is_some_and(|at| at <= end) && self.step() {}
        self.now = end.max(self.now);
        self.flush();
    }

    fn next(&mut self) -> Option<Instant> {
        self.flush();
        [
            self.up.next(),
            self.down.next(),
            self.client
                .connection
                .as_deref()
                .and_then(Connection::deadline),
            self.server
                .connection
                .as_deref()
                .and_then(Connection::deadline),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Uploads `bytes` on a new unidirectional stream of the client, and checks the server's copy.
    pub(crate) fn upload(&mut self, bytes: usize, limit: Duration) {
        let data = pattern(bytes, self.setup.seed);
        let id = self.client.get().streams().open(Dir::Uni).unwrap();
        let mut written = 0;
        let mut got = Vec::new();
        let mut finished = false;
        let done = self.run_until(limit, |pair| {
            while written < data.len() {
                match pair.client.get().streams().write(id, &data[written..]) {
                    Ok(n) => written += n,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}: {:?}", pair.client.error()),
                }
            }
            if written == data.len() && !finished {
                pair.client.get().streams().finish(id).unwrap();
                finished = true;
            }
            if let Some(server) = &mut pair.server.connection {
                while server.streams().accept(Dir::Uni).is_some() {}
                drain(server, id, &mut got)
            } else {
                false
            }
        });
        assert!(
            done,
            "{} of {bytes} bytes arrived after {limit:?}: {:?} {:?} {:?}",
            got.len(),
            self.client.error(),
            self.server.error(),
            self.client.get().stats(),
        );
        assert!(got == data, "bytes differ");
    }
}

/// Reads all available data. Returns true at the end of the stream.
pub(crate) fn drain(connection: &mut Connection, id: StreamId, into: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 16 * 1024];
    loop {
        match connection.streams().read(id, &mut chunk) {
            Ok(Some(n)) => into.extend_from_slice(&chunk[..n]),
            Ok(None) => return true,
            Err(ReadError::Blocked | ReadError::Closed) => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns bytes that don't repeat early.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 7) as u8)
        .collect()
}

fn deliver(connection: &mut Connection, now: Instant, mut datagram: Datagram) {
    let received = Received {
        remote: datagram.from,
        local: None,
        ecn: datagram.ecn,
        ttl: Some(60),
    };
    connection.handle_datagram(now, received, &mut datagram.bytes);
}

#[expect(clippy::too_many_arguments, reason = "disjoint borrows of a pair")]
fn send(
    up: &mut Link,
    down: &mut Link,
    now: Instant,
    host: &mut Host,
    transmit: Transmit,
    buffer: &[u8],
    record: bool,
    tap: &mut Option<Tap>,
) {
    host.batches.push(transmit);
    for segment in buffer[..transmit.len].chunks(transmit.segment_size) {
        if record {
            host.sent.push(segment.to_vec());
        }
        let mut datagram = Datagram {
            from: host.address,
            to: transmit.remote,
            ecn: transmit.ecn,
            bytes: segment.to_vec(),
        };
        if let Some(tap) = tap {
            tap(now, &mut datagram);
        }
        let link = if transmit.remote == SERVER.parse().unwrap() {
            &mut *up
        } else {
            &mut *down
        };
        if !datagram.bytes.is_empty() {
            link.send(now, datagram);
        }
    }
}
