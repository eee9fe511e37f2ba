//! Returning peers: the known rate of the path is requested before the handshake is complete.

use std::sync::Mutex;

use super::*;
use crate::TransportConfig;
use crate::connection::Event;
use crate::connection::tests::fixed_window::{ControllerLog, fixed_window};
use crate::connection::tests::questions::{KIND, signals};
use crate::streams::{Dir, StreamId};

const LATENCY: Duration = Duration::from_millis(10);

/// Two endpoints that are 10 ms apart, and one connection between them.
struct Net {
    now: Instant,
    ends: [Endpoint; 2],
    connections: [Option<(ConnectionHandle, Box<Connection>)>; 2],
    /// Datagrams with their time of arrival, and whether they are for the server.
    flying: VecDeque<(Instant, usize, Vec<u8>)>,
    /// Calls that the server's controllers received.
    log: Arc<Mutex<ControllerLog>>,
    client: Arc<TransportConfig>,
    token: Vec<u8>,
    /// The client's address.
    from: Received,
}

impl Net {
    fn new(known_paths: usize) -> Self {
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
            flying: VecDeque::new(),
            log,
            client: Arc::new(client),
            token: Vec::new(),
            from: from(1),
        }
    }

    /// Sends everything there is, and delivers the next arrival.
    fn step(&mut self) -> bool {
        let mut buffer = vec![0; 20_000];
        for end in [0, 1] {
            let Some((handle, connection)) = &mut self.connections[end] else {
                continue;
            };
            while let Some(transmit) = connection.poll_transmit(self.now, &mut buffer, 10) {
                for datagram in buffer[..transmit.len].chunks(transmit.segment_size) {
                    let arrival = (self.now + LATENCY, 1 - end, datagram.to_vec());
                    self.flying.push_back(arrival);
                }
            }
            if !self.ends[end].update(self.now, *handle, connection) {
                self.connections[end] = None;
            }
        }
        let deadlines = self.connections.iter().flatten();
        let deadlines = deadlines.filter_map(|(_, connection)| connection.deadline());
        let arrival = self.flying.front().map(|(at, ..)| *at);
        let Some(next) = deadlines.chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        for (_, connection) in self.connections.iter_mut().flatten() {
            connection.handle_timeout(self.now);
        }
        while let Some((_, to, bytes)) = self.flying.pop_front_if(|(at, ..)| *at <= self.now) {
            self.arrive(to, bytes);
        }
        true
    }

    fn arrive(&mut self, to: usize, mut bytes: Vec<u8>) {
        let received = match to {
            0 => from(443),
            _ => self.from,
        };
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
            DatagramEvent::Respond | DatagramEvent::Nothing => {}
        }
    }

    /// Connects the client, and lets the server send `bytes`. Returns how often the server
    /// asked for a starting rate before the handshake was complete.
    fn meet(&mut self, bytes: usize) -> u64 {
        let mut connect = connect_to(from(443).remote);
        connect.config = Arc::clone(&self.client);
        connect.token = std::mem::take(&mut self.token);
        *self.log.lock().unwrap() = ControllerLog {
            asks: true,
            ..ControllerLog::default()
        };
        self.connections[0] = Some(self.ends[0].connect(self.now, connect).unwrap());
        let (mut asked, mut incoming, mut left, mut got) = (None, None, bytes, 0);
        let mut out: Option<StreamId> = None;
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
            if !self.step() {
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
    assert_eq!([2_000_000; 2].map(|bytes| net.meet(bytes)), [0, 1]);
    let rate = net.log.lock().unwrap().known_rate.unwrap();
    // 1 MiB of window, and more while it moves, per round trip of 20 ms.
    assert!((40_000_000..120_000_000).contains(&rate), "{rate}");
    // If a connection doesn't use the rate, the path is no longer known.
    assert_eq!([1000; 2].map(|bytes| net.meet(bytes)), [1, 0]);
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
