//! Stateless resets, and the rate limit on answers.

use super::known::Net;
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
    endpoint
        .demux
        .set_tokens(&*key, handle_of_client, known.into_iter());
    let mut reset = vec![0x52; 30];
    reset.extend([0xab; 16]);
    // A reset may also have a long header: of version 1, of another version, or of a Handshake
    // packet.
    let mut handshake = vec![0xe0, 0, 0, 0, 1, 1, 7, 1, 8, 25];
    handshake.resize(19, 0);
    handshake.extend([0xab; 16]);
    let long = |first: u8, version: u8| {
        let mut long = vec![first, 0, 0, 0, version, 4, 1, 2, 3, 4, 0];
        long.resize(40, 0x40);
        long.extend([0xab; 16]);
        long
    };
    let longs = [
        long(0xf0, 1),
        long(0xc0, 9),
        long(0x80, 1),
        long(0xc0, 0),
        handshake,
    ];
    for form in [reset.clone()].iter().chain(&longs) {
        match handle(&mut endpoint, 1, form).0 {
            DatagramEvent::Connection(handle) => assert_eq!(handle, handle_of_client),
            other => panic!("{form:x?}: {other:?}"),
        }
    }
    for form in &longs {
        nothing(&mut endpoint, 2, form);
    }
    answer(&mut endpoint, 2, &reset);
    endpoint.remove(handle_of_client);
    answer(&mut endpoint, 1, &reset);
    assert_eq!(endpoint.demux.len(), 0);
}

impl Net {
    /// A client and a server that have exchanged their connection ids.
    fn connected() -> Self {
        let mut net = Self::new(0);
        net.connect();
        net.run();
        assert!(net.end(1).handshake().is_confirmed());
        net
    }

    fn end(&mut self, side: usize) -> &mut Connection {
        match (&mut self.connections[side], &mut self.ended[side]) {
            (Some((_, connection)), _) | (None, Some(connection)) => connection,
            (None, None) => panic!("none was begun"),
        }
    }

    /// Lets 100 ms pass.
    fn run(&mut self) {
        let end = self.now + Duration::from_millis(100);
        while self.step(end) {}
        self.now = end;
    }

    /// The client moves on purpose to another port, and the server follows it.
    fn migrate(&mut self) {
        // The first id of a client has no token.
        let now = self.now;
        assert!(self.end(0).migrate(now, None));
        self.follow(2);
    }

    /// The client sends a packet from this port, so that the server follows it there.
    fn follow(&mut self, port: u16) {
        self.from = from(port);
        self.end(0).ping();
        self.run();
        let address = self.from.remote;
        assert_eq!(self.end(1).remote_address(), address);
    }

    /// The client's host restarts with the same key.
    fn restart(&mut self) {
        self.ends[0] = Endpoint::new(config(false), Random::from_u64(9));
        self.connections[0] = None;
    }
}

/// A client's host restarts with the same key and answers the server's packets with stateless
/// resets. This works wherever a NAT had moved the client before, and for any id that the
/// server uses.
#[test]
fn a_client_that_has_forgotten_resets_its_connection_from_where_it_is_now() {
    for rebound in [false, true] {
        let mut net = Net::connected();
        net.migrate();
        if rebound {
            net.follow(3);
        }
        net.restart();
        net.end(1).ping();
        net.run();
        let reason = net.end(1).error();
        assert_eq!(reason, Some(&ConnectionError::Reset), "{rebound}");
    }
}

/// An attacker's copy of a packet migrates a connection until validation of the new address
/// fails. The client hasn't moved, but has restarted.
#[test]
fn a_forged_address_keeps_no_reset_away() {
    let mut net = Net::connected();
    net.migrate();
    let home = net.from;
    net.end(0).ping();
    net.from = from(9);
    let now = net.now;
    net.step(now);
    net.from = home;
    net.restart();
    // It is challenged there once per second.
    for _ in 0..20 {
        net.run();
    }
    assert_eq!(net.end(1).remote_address(), from(9).remote);
    assert_eq!(net.end(1).error(), Some(&ConnectionError::Reset));
}
