//! Returning peers: the known rate of the path is requested before the handshake is complete.

use std::sync::Mutex;

use super::*;
use crate::TransportConfig;
use crate::connection::Event;
use crate::connection::tests::fixed_window::{ControllerLog, fixed_window};
use crate::connection::tests::questions::{KIND, signals};
use crate::streams::{Dir, StreamId};

const LATENCY: Duration = Duration::from_millis(10);

const FAR: Instant = Instant::from_millis(1 << 40);

/// A client and a server that are 10 ms apart, and one connection between them.
pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) ends: [Endpoint; 2],
    pub(super) connections: [Option<(ConnectionHandle, Box<Connection>)>; 2],
    pub(super) ended: [Option<Box<Connection>>; 2],
    /// Datagrams with their time of arrival, whether they are for the server, and their source.
    flying: VecDeque<(Instant, usize, Received, Vec<u8>)>,
    /// Calls that the server's controllers received.
    log: Arc<Mutex<ControllerLog>>,
    client: Arc<TransportConfig>,
    token: Vec<u8>,
    /// The client's address, which is the only one with a host.
    pub(super) from: Received,
}

impl Net {
    pub(super) fn new(known_paths: usize) -> Self {
        let (server, log) = fixed_window(1 << 20);
        let (client, _) = fixed_window(1 << 20);
        let mut server = TransportConfig::new(server);
        let mut client = TransportConfig::new(client);
        (server.signals, client.signals) = (signals(&[KIND]), signals(&[KIND]));
        let mut config = super::config(true);
        config.known_paths = known_paths;
        config.server = Some(ServerConfig {
            transport: Arc::new(server),
            crypto: crypto(),
        });
        Self {
            now: NOW,
            ends: [
                Endpoint::new(super::config(false), Random::from_u64(2)),
                Endpoint::new(config, Random::from_u64(3)),
            ],
            connections: [None, None],
            ended: [None, None],
            flying: VecDeque::new(),
            log,
            client: Arc::new(client),
            token: Vec::new(),
            from: from(1),
        }
    }

    pub(super) fn connect(&mut self) {
        let connect = Connect {
            config: Arc::clone(&self.client),
            crypto: crypto(),
            server_name: "server.test".into(),
            remote: from(443).remote,
            local: None,
            token: std::mem::take(&mut self.token),
        };
        self.connections[0] = Some(self.ends[0].connect(self.now, connect).unwrap());
    }

    fn send(&mut self, to: usize, bytes: Vec<u8>) {
        let source = [from(443), self.from][to];
        self.flying
            .push_back((self.now + LATENCY, to, source, bytes));
    }

    /// Sends everything there is, and delivers the next arrival until `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        let mut buffer = vec![0; 20_000];
        for side in [0, 1] {
            let Some((handle, mut connection)) = self.connections[side].take() else {
                continue;
            };
            while let Some(sent) = connection.poll_transmit(self.now, &mut buffer, 10) {
                if side == 0 || sent.remote == self.from.remote {
                    for datagram in buffer[..sent.len].chunks(sent.segment_size) {
                        self.send(1 - side, datagram.to_vec());
                    }
                }
            }
            if self.ends[side].update(self.now, handle, &mut connection) {
                self.connections[side] = Some((handle, connection));
            } else {
                self.ended[side] = Some(connection);
            }
        }
        let deadlines = self.connections.iter().flatten();
        let deadlines = deadlines.filter_map(|(_, connection)| connection.deadline());
        let arrival = self.flying.front().map(|(at, ..)| *at);
        let Some(next) = deadlines.chain(arrival).min().filter(|at| *at <= end) else {
            return false;
        };
        self.now = self.now.max(next);
        for (_, connection) in self.connections.iter_mut().flatten() {
            connection.handle_timeout(self.now);
        }
        while let Some((_, to, source, bytes)) =
            self.flying.pop_front_if(|(at, ..)| *at <= self.now)
        {
            self.arrive(to, source, bytes);
        }
        true
    }

    fn arrive(&mut self, to: usize, received: Received, mut bytes: Vec<u8>) {
        let mut answer = Vec::new();
        match self.ends[to].handle(self.now, &received, &bytes, &mut answer) {
            DatagramEvent::Connection(_) => {
                if let Some((_, connection)) = &mut self.connections[to] {
                    connection.handle_datagram(self.now, received, &mut bytes);
                }
            }
            DatagramEvent::Incoming(incoming) => {
                self.connections[to] = Some(self.ends[to].accept(self.now, incoming).unwrap());
            }
            DatagramEvent::Respond => self.send(1 - to, answer),
            DatagramEvent::Nothing => {}
        }
    }

    /// Connects the client, and lets the server send `bytes`. Returns how often the server
    /// asked for a starting rate before the handshake was complete.
    fn meet(&mut self, bytes: usize) -> u64 {
        *self.log.lock().unwrap() = ControllerLog {
            asks: true,
            ..ControllerLog::default()
        };
        self.connect();
        let mut asked = None;
        let mut left = bytes;
        let mut out: Option<StreamId> = None;
        let mut incoming = None;
        let mut got = 0;
        for _ in 0..100_000 {
            if let Some((_, server)) = &mut self.connections[1]
                && server.is_established()
            {
                asked.get_or_insert(self.log.lock().unwrap().questions);
                let id = *out.get_or_insert_with(|| server.streams().open(Dir::Uni).unwrap());
                while left > 0
                    && let Ok(written) = server.streams().write(id, &vec![7; left.min(50_000)])
                {
                    left -= written;
                }
            }
            if let Some((_, client)) = &mut self.connections[0] {
                while let Some(event) = client.poll_event() {
                    if let Event::NewToken(token) = event {
                        self.token = token.to_vec();
                    }
                }
                incoming = incoming.or_else(|| client.streams().accept(Dir::Uni));
                while let Some(id) = incoming
                    && let Ok(Some(len)) = client.streams().skip(id)
                {
                    got += len as usize;
                }
                if got == bytes && !self.token.is_empty() {
                    client.close(self.now, 0, bytes::Bytes::new());
                }
            }
            if !self.step(FAR) {
                break;
            }
        }
        assert_eq!(got, bytes);
        assert!(self.connections.iter().all(Option::is_none));
        asked.unwrap()
    }
}

#[test]
fn a_server_asks_for_a_client_that_comes_again_with_a_token() {
    let mut net = Net::new(10);
    assert_eq!(net.meet(2_000_000), 0);
    assert_eq!(net.meet(2_000_000), 1);
    let rate = net.log.lock().unwrap().known_rate.unwrap();
    // 1 MiB of window, and more while it moves, per round trip of 20 ms.
    assert!((40_000_000..120_000_000).contains(&rate), "{rate}");
    // If a connection doesn't use the rate, the path is no longer known.
    assert_eq!(net.meet(1000), 1);
    assert_eq!(net.meet(1000), 0);
}

#[test]
fn it_does_not_for_one_without_or_with_a_used_or_forged_token_or_from_elsewhere() {
    let mut net = Net::new(10);
    net.meet(2_000_000);
    let token = std::mem::take(&mut net.token);
    assert_eq!(net.meet(2_000_000), 0, "none");
    net.token = token.clone();
    net.token[20] ^= 1;
    assert_eq!(net.meet(2_000_000), 0, "forged");
    net.token = token.clone();
    assert_eq!(net.meet(2_000_000), 1);
    net.token = token;
    assert_eq!(net.meet(2_000_000), 0, "used");
    net.from.remote.set_ip([192, 0, 2, 8].into());
    assert_eq!(net.meet(2_000_000), 0, "another address");
    let mut net = Net::new(0);
    net.meet(2_000_000);
    assert_eq!(net.meet(2_000_000), 0, "nothing is remembered");
}
