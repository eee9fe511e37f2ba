//! Stateless resets, and the rate limit on answers.

use core::net::SocketAddr;

use super::*;
use crate::connection::ConnectionError;
use crate::crypto::ResetToken;

#[test]
fn unknown_short_packet_is_reset_by_something_shorter() {
    // [9000 10.3 reset-amplification] [9000 10.3.3 smaller] [9000 10.3 short-form]
    // [9000 10.3 too-small] [9000 10.3.2 one-length]
    let mut endpoint = server();
    for len in 22..200 {
        let mut packet = vec![0x41; len];
        packet[1..9].copy_from_slice(&[9; 8]);
        let reset = answer(&mut endpoint, 1, &packet);
        assert!(reset.len() < len && reset.len() >= 21);
        assert_eq!(reset[0] & 0xc0, 0x40);
        let token = ResetToken::derive(&*endpoint.config.key, &[9; 8]);
        assert_eq!(ResetToken::at_end_of(&reset), Some(token));
    }
    nothing(&mut endpoint, 1, &[0x41; 21]);
}

#[test]
fn two_endpoints_do_not_reset_each_other_for_ever() {
    // [9000 10.3.3 smaller]
    let (mut a, mut b) = (server(), Endpoint::new(config(true), Random::from_u64(2)));
    let mut packet = vec![0x41; 1500];
    let mut rounds = 0;
    while let (DatagramEvent::Respond, reset) = handle(&mut a, 1, &packet) {
        packet = reset;
        core::mem::swap(&mut a, &mut b);
        rounds += 1;
    }
    assert!(rounds < 60, "{rounds}");
}

#[test]
fn answers_to_strangers_are_limited() {
    let mut endpoint = server();
    let mut answered = |_: &i32| {
        let event = handle(&mut endpoint, 1, &[0x41; 100]).0;
        matches!(event, DatagramEvent::Respond)
    };
    assert_eq!((0..5000).filter(&mut answered).count(), 1000);
    assert_eq!(endpoint.stats().answers_withheld, 4000);
}

#[test]
fn reset_for_a_connection_reaches_it_from_its_peers_address_only() {
    // [9000 10.3 any-form] [9000 10.3.1 compared] [9000 10.3.1 tokens-in-use]
    let mut endpoint = server();
    let client = incoming(&mut endpoint, 1, &hello(1, &[]));
    let (handle_of_client, _connection) = endpoint.accept(NOW, client).unwrap();
    let token = ResetToken::new([0xab; 16]);
    let key = std::sync::Arc::clone(&endpoint.config.key);
    let known = [(from(1).remote, token)];
    let demux = &mut endpoint.demux;
    demux.set_tokens(&*key, handle_of_client, known.into_iter());
    let bytes = [0xab; 16];
    let reset = [&[0x52; 30][..], &bytes].concat();
    // A reset may also have a long header: of version 1, of another version, or of a Handshake
    // packet.
    let handshake = [&[0xe0, 0, 0, 0, 1, 1, 7, 1, 8, 25][..], &[0; 9], &bytes].concat();
    let long = |first: u8, version: u8| {
        let mut long = vec![first, 0, 0, 0, version, 4, 1, 2, 3, 4, 0];
        long.resize(40, 0x40);
        long.extend([0xab; 16]);
        long
    };
    let forms = [(0xf0, 1), (0xc0, 9), (0x80, 1), (0xc0, 0)];
    let mut longs = forms.map(|(first, version)| long(first, version)).to_vec();
    longs.push(handshake);
    for form in [reset.clone()].iter().chain(&longs) {
        assert_eq!(found(&mut endpoint, 1, form), handle_of_client);
    }
    for form in &longs {
        nothing(&mut endpoint, 2, form);
    }
    answer(&mut endpoint, 2, &reset);
    endpoint.remove(handle_of_client);
    answer(&mut endpoint, 1, &reset);
    assert_eq!(endpoint.demux.len(), 0);
}

/// A client and a server, each with its endpoint, connected through the client's address.
struct Two {
    now: Instant,
    server: Endpoint,
    at_server: Option<(ConnectionHandle, Box<Connection>)>,
    client: Endpoint,
    at_client: Option<(ConnectionHandle, Box<Connection>)>,
    /// The source address of the client's datagrams.
    address: SocketAddr,
}

const CLIENT_KEY: u64 = 5;

impl Two {
    /// A client and a server that have exchanged their connection ids.
    fn connected() -> Self {
        let mut client = Self::client(1);
        let connect = connect_to(from(443).remote);
        let at_client = client.connect(NOW, connect).unwrap();
        let mut two = Self {
            now: NOW,
            server: server(),
            at_server: None,
            client,
            at_client: Some(at_client),
            address: from(1).remote,
        };
        two.run();
        assert!(two.accepted().handshake().is_confirmed());
        two
    }

    /// The client's endpoint after its restart number `seed`.
    fn client(seed: u64) -> Endpoint {
        let mut config = config(false);
        config.key = std::sync::Arc::new(NullEndpointKey::new(CLIENT_KEY));
        Endpoint::new(config, Random::from_u64(seed))
    }

    fn accepted(&mut self) -> &mut Connection {
        &mut self.at_server.as_mut().unwrap().1
    }

    /// Sends a PING to the client.
    fn ping(&mut self) {
        self.accepted().ping();
        self.run();
    }

    fn begun(&mut self) -> &mut Connection {
        &mut self.at_client.as_mut().unwrap().1
    }

    /// The client sends a packet, so that the server migrates to its address.
    fn follow(&mut self) {
        self.begun().ping();
        self.run();
        let address = self.address;
        assert_eq!(self.accepted().remote_address(), address);
    }

    /// Lets both send and receive for a while.
    fn run(&mut self) {
        let end = self.now + Duration::from_millis(100);
        while self.now < end {
            self.now += Duration::from_millis(1);
            self.step();
        }
    }

    fn step(&mut self) {
        let (now, address) = (self.now, self.address);
        let up = sent(now, &mut self.client, &mut self.at_client);
        for (_, mut datagram) in up {
            let (server, known) = (&mut self.server, &mut self.at_server);
            let received = Received::plain(address);
            let mut answer = Vec::new();
            match server.handle(now, &received, &datagram, &mut answer) {
                DatagramEvent::Incoming(incoming) => {
                    *known = Some(server.accept(now, incoming).unwrap());
                }
                DatagramEvent::Connection(_) => {
                    let connection = &mut known.as_mut().unwrap().1;
                    connection.handle_datagram(now, received, &mut datagram);
                }
                DatagramEvent::Respond | DatagramEvent::Nothing => {}
            }
        }
        let down = sent(now, &mut self.server, &mut self.at_server);
        for (to, mut datagram) in down.into_iter().filter(|(to, _)| *to == address) {
            let received = from(443);
            let mut answer = Vec::new();
            match self.client.handle(now, &received, &datagram, &mut answer) {
                DatagramEvent::Connection(_) => {
                    self.begun().handle_datagram(now, received, &mut datagram);
                }
                DatagramEvent::Respond => {
                    let received = Received::plain(to);
                    let event = self.server.handle(now, &received, &answer, &mut Vec::new());
                    if let DatagramEvent::Connection(_) = event {
                        let connection = &mut self.at_server.as_mut().unwrap().1;
                        connection.handle_datagram(now, received, &mut answer);
                    }
                }
                DatagramEvent::Incoming(_) | DatagramEvent::Nothing => {}
            }
        }
    }
}

/// Returns the datagrams of a connection, with their destinations.
fn sent(
    now: Instant,
    endpoint: &mut Endpoint,
    connection: &mut Option<(ConnectionHandle, Box<Connection>)>,
) -> Vec<(SocketAddr, Vec<u8>)> {
    let Some((handle, connection)) = connection else {
        return Vec::new();
    };
    if connection.deadline().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    let mut buffer = vec![0; 65_536];
    let mut all = Vec::new();
    while let Some(sent) = connection.poll_transmit(now, &mut buffer, 10) {
        let datagrams = buffer[..sent.len].chunks(sent.segment_size);
        all.extend(datagrams.map(|datagram| (sent.remote, datagram.to_vec())));
    }
    endpoint.update(now, *handle, connection);
    all
}

/// A client's host restarts with the same key and answers the server's packets with stateless
/// resets. This works wherever a NAT had moved the client before, and for any id that the
/// server uses.
#[test]
fn a_client_that_has_forgotten_resets_its_connection_from_where_it_is_now() {
    for rebound in [false, true] {
        let mut two = Two::connected();
        // The first id of a client has no token.
        let now = two.now;
        assert!(two.begun().migrate(now, None));
        two.address.set_port(2);
        two.follow();
        if rebound {
            two.address.set_port(3);
            two.follow();
        }
        two.client = Two::client(2);
        two.at_client = None;
        two.ping();
        let reason = two.accepted().error().cloned();
        assert_eq!(reason, Some(ConnectionError::Reset), "{rebound}");
        two.server.remove(two.at_server.take().unwrap().0);
        assert_eq!(two.server.demux.len(), 0);
    }
}

/// An attacker's copy of a packet migrates a connection until validation of the new address
/// fails. The client hasn't moved, but has restarted.
#[test]
fn a_forged_address_keeps_no_reset_away() {
    let mut two = Two::connected();
    let now = two.now;
    assert!(two.begun().migrate(now, None));
    two.address.set_port(2);
    two.follow();
    let (home, mut elsewhere) = (two.address, two.address);
    elsewhere.set_port(9);
    two.begun().ping();
    two.address = elsewhere;
    two.step();
    two.address = home;
    two.client = Two::client(2);
    two.at_client = None;
    // It is challenged there once per second.
    for _ in 0..20 {
        two.run();
    }
    assert_eq!(two.accepted().remote_address(), elsewhere);
    assert_eq!(two.accepted().error(), Some(&ConnectionError::Reset));
}
