//! Two connections with a link in each direction.

use super::link::Link;
pub(crate) use super::setup::{CLIENT, SERVER, Setup};
use super::*;
use crate::connection::{ApplicationClose, ClientStart, Routing, Transmit};
use crate::wire::TransportError;

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

    /// Returns the code of the violation because of which this end closed the connection.
    #[track_caller]
    pub(crate) fn closed_with(&self) -> Code {
        self.violation().code
    }

    /// Returns the violation because of which this end closed the connection.
    #[track_caller]
    pub(crate) fn violation(&self) -> TransportError {
        match self.error() {
            Some(ConnectionError::TransportError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the code with which the peer closed the connection.
    #[track_caller]
    pub(crate) fn peer_closed_with(&self) -> Code {
        match self.error() {
            Some(ConnectionError::ConnectionClosed(error)) => error.code,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the close of the peer's application.
    #[track_caller]
    pub(crate) fn application_closed_with(&self) -> ApplicationClose {
        match self.error() {
            Some(ConnectionError::ApplicationClosed(close)) => close,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn log(&self) -> ControllerLog {
        self.log.lock().unwrap().clone()
    }

    /// Opens a unidirectional stream.
    pub(crate) fn open(&mut self) -> StreamId {
        self.get().streams().open(Dir::Uni).unwrap()
    }

    /// Writes all of `data` on a new unidirectional stream.
    pub(crate) fn write(&mut self, data: &[u8]) -> StreamId {
        let id = self.open();
        assert_eq!(self.get().streams().write(id, data), Ok(data.len()));
        id
    }

    fn is_confirmed(&self) -> bool {
        let connection = self.connection.as_deref();
        connection.is_some_and(|connection| connection.handshake().is_confirmed())
    }

    fn deadline(&self) -> Option<Instant> {
        self.connection.as_deref().and_then(Connection::deadline)
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

    /// Runs until the client's first datagram has arrived. The server hasn't sent anything yet.
    pub(crate) fn until_server_exists(&mut self) {
        let exists = |pair: &mut Self| pair.server.connection.is_some();
        assert!(self.run_until(Duration::from_secs(1), exists));
    }

    /// Runs until the client has completed the handshake.
    pub(crate) fn until_established(&mut self) {
        assert!(self.is_established_within(Duration::from_secs(1)));
    }

    /// The same for at most `limit`. Returns true if it has completed it.
    pub(crate) fn is_established_within(&mut self, limit: Duration) -> bool {
        self.run_until(limit, |pair| pair.client.get().is_established())
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let now = Instant::from_millis(1);
        let start = ClientStart {
            config: Arc::new(setup.client.clone()),
            crypto: Arc::clone(&setup.client_crypto),
            server_name: setup.server_name.into(),
            remote: SERVER.parse().unwrap(),
            local: None,
            token: setup.token.clone(),
            endpoint_key: Arc::new(NullEndpointKey::new(7)),
            random: Random::from_u64(setup.seed),
        };
        let client = Connection::client(now, start).unwrap();
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

    /// A pair whose handshake is confirmed, without packets in flight.
    pub(crate) fn at_rest(setup: Setup) -> Self {
        let mut pair = Self::connected(setup);
        pair.run(Duration::from_millis(500));
        pair
    }

    pub(crate) fn host(&mut self, client: bool) -> &mut Host {
        match client {
            true => &mut self.client,
            false => &mut self.server,
        }
    }

    /// Drops the datagrams that this selects on their way.
    pub(crate) fn drop_if(&mut self, drops: impl Fn(Instant, &Datagram) -> bool + 'static) {
        self.tap = Some(Box::new(move |now, datagram| {
            if drops(now, datagram) {
                datagram.bytes.clear();
            }
        }));
    }

    /// Gives both directions these faults.
    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.up.faults = faults.clone();
        self.down.faults = faults;
    }

    /// The server takes its memory for received data from `memory`.
    pub(crate) fn share(&mut self, memory: &Arc<ReceiveMemory>) {
        let streams = self.server.get().streams();
        streams.share_memory(Arc::clone(memory));
    }

    /// The client's datagrams come from another address, which only the server notices.
    pub(crate) fn rebind(&mut self, address: &str) {
        self.client.address = address.parse().unwrap();
    }

    /// The client migrates to another address.
    pub(crate) fn migrate(&mut self, address: &str) {
        self.rebind(address);
        let local = self.client.address.ip();
        assert!(self.client.get().migrate(self.now, Some(local)));
    }

    pub(crate) fn connect(&mut self) {
        let done = self.run_until(Duration::from_secs(60), |pair| {
            pair.client.is_confirmed() && pair.server.is_confirmed()
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
        let Some(next) = self.next() else {
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
        let datagram = Datagram::new(&self.server, &self.client, bytes);
        deliver(self.client.get(), self.now, datagram);
        self.client.collect();
    }

    /// Puts a datagram of the client on the link.
    pub(crate) fn send_to_server(&mut self, bytes: Vec<u8>) {
        let datagram = Datagram::new(&self.client, &self.server, bytes);
        self.up.send(self.now, datagram);
    }

    /// Lets both sides send everything.
    pub(crate) fn flush(&mut self) {
        let mut buffer = vec![0; 65536];
        let (now, segments) = (self.now, self.setup.segments);
        for client in [true, false] {
            while let Some(connection) = &mut self.host(client).connection
                && let Some(transmit) = connection.poll_transmit(now, &mut buffer, segments)
            {
                self.send(client, transmit, &buffer);
            }
            self.host(client).collect();
        }
    }

    fn send(&mut self, client: bool, transmit: Transmit, buffer: &[u8]) {
        let host = match client {
            true => &mut self.client,
            false => &mut self.server,
        };
        host.batches.push(transmit);
        for segment in buffer[..transmit.len].chunks(transmit.segment_size) {
            if self.record {
                host.sent.push(segment.to_vec());
            }
            let mut datagram = Datagram {
                from: host.address,
                to: transmit.remote,
                ecn: transmit.ecn,
                bytes: segment.to_vec(),
            };
            if let Some(tap) = &mut self.tap {
                tap(self.now, &mut datagram);
            }
            let link = match transmit.remote == SERVER.parse().unwrap() {
                true => &mut self.up,
                false => &mut self.down,
            };
            if !datagram.bytes.is_empty() {
                link.send(self.now, datagram);
            }
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

    /// Runs for `time` after the client has sent a PING.
    pub(crate) fn ping_and_run(&mut self, time: Duration) {
        self.client.get().ping();
        self.run(time);
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
        let links = [self.up.next(), self.down.next()];
        let deadlines = [self.client.deadline(), self.server.deadline()];
        links.into_iter().chain(deadlines).flatten().min()
    }

    /// Uploads `bytes` on a new unidirectional stream of the client, and checks the server's copy.
    /// Returns how long it took.
    pub(crate) fn upload(&mut self, bytes: usize, limit: Duration) -> Duration {
        self.transfer(true, bytes, limit, |_, _| {})
    }

    /// Connects, and then uploads `bytes` within `limit` seconds.
    pub(crate) fn connect_and_upload(&mut self, bytes: usize, limit: u64) {
        self.connect();
        self.upload(bytes, Duration::from_secs(limit));
    }

    /// Uploads `bytes` within `limit` seconds, and then runs for `time`.
    pub(crate) fn upload_and_run(&mut self, bytes: usize, limit: u64, time: Duration) {
        self.upload(bytes, Duration::from_secs(limit));
        self.run(time);
    }

    /// Transfers `bytes` to or from the server, and checks the copy. Before each step, it passes
    /// the number of bytes that have arrived to `at`. Returns how long it took.
    pub(crate) fn transfer(
        &mut self,
        up: bool,
        bytes: usize,
        limit: Duration,
        mut at: impl FnMut(&mut Self, usize),
    ) -> Duration {
        let begun = self.now;
        let data = pattern(bytes, self.setup.seed);
        let id = self.host(up).open();
        let (mut written, mut finished, mut got) = (0, false, Vec::new());
        let done = self.run_until(limit, |pair| {
            at(pair, got.len());
            let sender = pair.host(up);
            while written < data.len() {
                match sender.get().streams().write(id, &data[written..]) {
                    Ok(n) => written += n,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}: {:?}", sender.error()),
                }
            }
            if written == data.len() && !finished {
                sender.get().streams().finish(id).unwrap();
                finished = true;
            }
            let Some(receiver) = &mut pair.host(!up).connection else {
                return false;
            };
            while receiver.streams().accept(Dir::Uni).is_some() {}
            drain(receiver, id, &mut got)
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
        self.now - begun
    }

    /// Reads a stream of one end until it is finished.
    #[track_caller]
    pub(crate) fn read(&mut self, client: bool, id: StreamId, limit: Duration) -> Vec<u8> {
        let mut got = Vec::new();
        let done = self.run_until(limit, |pair| {
            let reader = pair.host(client).connection.as_mut();
            reader.is_some_and(|reader| drain(reader, id, &mut got))
        });
        assert!(done, "{} bytes: {:?}", got.len(), self.host(client).error());
        got
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
    let mut received = Received::plain(datagram.from);
    (received.ecn, received.ttl) = (datagram.ecn, Some(60));
    connection.handle_datagram(now, received, &mut datagram.bytes);
}
