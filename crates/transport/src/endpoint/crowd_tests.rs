//! Many clients that begin handshakes without completing them, and an honest one among them, in
//! virtual time.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use super::testing::*;
use super::*;
use crate::connection::Connection;
use crate::crypto::null::NullEndpointKey;

const SERVER: &str = "192.0.2.100:443";
const HONEST: &str = "203.0.113.1:1";
const SECOND: Duration = Duration::from_secs(1);

struct Datagram {
    to_server: bool,
    /// The client's address.
    client: SocketAddr,
    bytes: Vec<u8>,
}

/// A server that accepts all clients, which are at the same distance.
struct World {
    now: Instant,
    latency: Duration,
    server: Endpoint,
    accepted: HashMap<ConnectionHandle, Box<Connection>>,
    honest: Option<(Endpoint, ConnectionHandle, Box<Connection>)>,
    /// By time of arrival, and a number that preserves the order.
    under_way: BTreeMap<(Instant, u64), Datagram>,
    sent: u64,
    /// Numbers of the handshakes begun by slow clients.
    begun: u64,
}

impl World {
    fn new(latency: Duration, retry: RetryPolicy) -> Self {
        let mut config = config(true);
        config.retry = retry;
        Self {
            now: NOW,
            latency,
            server: Endpoint::new(config, Random::from_u64(1)),
            accepted: HashMap::new(),
            honest: None,
            under_way: BTreeMap::new(),
            sent: 0,
            begun: 0,
        }
    }

    fn send(&mut self, to_server: bool, client: SocketAddr, bytes: Vec<u8>) {
        self.sent += 1;
        let datagram = Datagram {
            to_server,
            client,
            bytes,
        };
        let at = (self.now + self.latency, self.sent);
        self.under_way.insert(at, datagram);
    }

    /// A hundred clients at each of six addresses begin one more handshake each.
    fn begin_slow(&mut self) {
        for n in 0..600u16 {
            let ip = IpAddr::from([198, 51, 100, (n % 6) as u8]);
            self.begun += 1;
            let hello = hello(self.begun, &[]);
            self.send(true, SocketAddr::new(ip, 1000 + n), hello);
        }
    }

    fn begin_honest(&mut self) {
        let mut config = config(false);
        config.key = std::sync::Arc::new(NullEndpointKey::new(5));
        let mut endpoint = Endpoint::new(config, Random::from_u64(77));
        let connect = connect_to(SERVER.parse().unwrap());
        let (handle, connection) = endpoint.connect(self.now, connect).unwrap();
        self.honest = Some((endpoint, handle, connection));
        self.flush();
    }

    /// Sends everything that connections have to send.
    fn flush(&mut self) {
        let mut buffer = vec![0; 65_536];
        let mut out = Vec::new();
        let now = self.now;
        let mut drain = |connection: &mut Connection, to_server| {
            while let Some(sent) = connection.poll_transmit(now, &mut buffer, 10) {
                let client = match to_server {
                    true => HONEST.parse().unwrap(),
                    false => sent.remote,
                };
                let datagrams = buffer[..sent.len].chunks(sent.segment_size);
                out.extend(datagrams.map(|bytes| (to_server, client, bytes.to_vec())));
            }
        };
        let server = &mut self.server;
        self.accepted.retain(|handle, connection| {
            if connection.deadline().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            drain(connection, false);
            server.update(now, *handle, connection)
        });
        if let Some((endpoint, handle, connection)) = &mut self.honest {
            if connection.deadline().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            drain(connection, true);
            endpoint.update(now, *handle, connection);
        }
        for (to_server, client, bytes) in out {
            self.send(to_server, client, bytes);
        }
    }

    fn arrive(&mut self, mut datagram: Datagram) {
        let mut received = Received::plain(datagram.client);
        if !datagram.to_server {
            if datagram.client == HONEST.parse().unwrap() {
                received.remote = SERVER.parse().unwrap();
                let (_, _, connection) = self.honest.as_mut().unwrap();
                connection.handle_datagram(self.now, received, &mut datagram.bytes);
            } else if let Ok(PartialDecode::Retry(retry)) = PartialDecode::new(&datagram.bytes, 8) {
                // Slow clients prove their address, and then send nothing more.
                self.begun += 1;
                let token = &datagram.bytes[retry.token.clone()];
                let bytes = initial(&*crypto(), &retry.scid, &id(self.begun), token, 1200);
                self.send(true, datagram.client, bytes);
            }
            return;
        }
        let mut answer = Vec::new();
        let server = &mut self.server;
        let event = server.handle(self.now, &received, &datagram.bytes, &mut answer);
        match event {
            DatagramEvent::Connection(handle) => {
                let connection = self.accepted.get_mut(&handle).unwrap();
                connection.handle_datagram(self.now, received, &mut datagram.bytes);
                self.server.route(self.now, handle, connection);
            }
            DatagramEvent::Incoming(incoming) => {
                while let Some(handle) = self.server.poll_evicted() {
                    let connection = self.accepted.get_mut(&handle).unwrap();
                    connection.refuse(self.now);
                }
                let (handle, connection) = self.server.accept(self.now, incoming).unwrap();
                self.accepted.insert(handle, connection);
            }
            DatagramEvent::Respond => self.send(false, datagram.client, answer),
            DatagramEvent::Nothing => {}
        }
    }

    /// Lets time pass, until the next arrival or by a few milliseconds.
    fn run(&mut self, time: Duration, until: impl Fn(&Self) -> bool) {
        let end = self.now + time;
        while self.now < end && !until(&*self) {
            while let Some(entry) = self.under_way.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let datagram = entry.remove();
                self.arrive(datagram);
            }
            self.flush();
            assert!(self.server.half_open() <= 512);
            let step = self.now + Duration::from_millis(25);
            let next = self.under_way.keys().next().map_or(step, |(at, _)| *at);
            self.now = step.min(next);
        }
    }

    fn honest_is_in(&self) -> bool {
        let honest = self.honest.as_ref();
        honest.is_some_and(|(_, _, connection)| connection.handshake().is_confirmed())
    }
}

/// Returns how long an honest client's handshake takes.
fn wait(latency: Duration, retry: RetryPolicy, crowd: bool) -> Duration {
    let mut world = World::new(latency, retry);
    for _ in 0..4 {
        if crowd {
            world.begin_slow();
        }
        world.run(SECOND, |_| false);
    }
    assert_eq!(world.server.half_open(), if crowd { 512 } else { 0 });
    let begin = world.now;
    world.begin_honest();
    while !world.honest_is_in() {
        assert!(world.now - begin < 60 * SECOND, "kept out");
        if crowd {
            world.begin_slow();
        }
        world.run(SECOND, World::honest_is_in);
    }
    world.now - begin
}

#[test]
fn slow_handshakes_from_six_addresses_keep_a_seventh_waiting_two_seconds_at_most() {
    for latency in [5, 750].map(Duration::from_millis) {
        for retry in [
            RetryPolicy::Automatic { half_open: 128 },
            RetryPolicy::Never,
        ] {
            let calm = wait(latency, retry, false);
            let crowded = wait(latency, retry, true);
            let most = calm + 2 * SECOND;
            assert!(crowded <= most, "{retry:?}: {crowded:?}, {calm:?}");
        }
    }
}

#[test]
fn a_crowd_that_goes_leaves_nothing_behind() {
    let mut world = World::new(Duration::from_millis(5), RetryPolicy::Never);
    for _ in 0..3 {
        world.begin_slow();
        world.run(SECOND, |_| false);
    }
    assert!(world.server.stats().evicted > 0);
    world.run(70 * SECOND, |world| world.server.connections() == 0);
    assert_eq!(world.server.connections(), 0);
    assert_eq!(world.server.half_open(), 0);
    assert_eq!((world.server.demux.len(), world.accepted.len()), (0, 0));
}

/// RFC 9000 §10.2.2: a connection that its peer closed takes no place and is dropped
/// immediately. Late packets for it aren't answered, not even a duplicate first packet, but
/// later such packets are treated as unknown.
#[test]
fn what_is_late_for_a_connection_that_its_peer_closed_is_dropped() {
    let mut world = World::new(Duration::from_millis(5), RetryPolicy::Never);
    world.begin_honest();
    let (_, first) = world.under_way.first_key_value().unwrap();
    let first = first.bytes.clone();
    world.run(SECOND, |_| false);
    assert!(world.honest_is_in() && world.server.connections() == 1);
    let (_, _, client) = world.honest.as_mut().unwrap();
    let mut late = vec![0; 1200];
    client.ping();
    let len = client.poll_transmit(world.now, &mut late, 1).unwrap().len;
    late.truncate(len);
    client.close(world.now, 0, bytes::Bytes::new());
    world.flush();
    world.run(SECOND, |world| world.server.connections() == 0);
    assert!(world.accepted.is_empty());
    let known = world.server.demux.len();
    assert!(known > 8 && world.server.drained.len() == 1);
    let received = Received::plain(HONEST.parse().unwrap());
    let event = |world: &mut World, datagram: &[u8]| {
        let mut answer = Vec::new();
        let server = &mut world.server;
        server.handle(world.now, &received, datagram, &mut answer)
    };
    for datagram in [&late, &first] {
        let dropped = event(&mut world, datagram);
        assert!(matches!(dropped, DatagramEvent::Nothing));
    }
    // Old ids are forgotten eventually, even while other connections begin and end.
    world.begin_slow();
    world.run(SECOND, |_| false);
    world.run(70 * SECOND, |world| world.accepted.is_empty());
    assert_eq!(world.server.demux.len(), 0);
    assert_eq!(world.server.drained.len(), 0);
    assert!(matches!(event(&mut world, &late), DatagramEvent::Respond));
    let begins = event(&mut world, &first);
    assert!(matches!(begins, DatagramEvent::Incoming(_)));
}
