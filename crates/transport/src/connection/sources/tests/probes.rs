//! Data that is sent again: by probes, before a timeout, and after early data was refused.

use super::*;
use crate::recovery::Timeout;

impl Parts {
    /// Fires the probe timeout of `space`.
    fn time_out(&mut self, space: SpaceId) {
        let recovery = &mut self.spaces.recovery;
        self.now = recovery.deadline().unwrap();
        let timeout = recovery.on_timeout(self.now, |_, _, _| {});
        assert!(matches!(timeout, Timeout::Probe(of) if of == space));
        let _ = self.spaces.begin_probes(space);
    }

    /// Opens a stream and sends `packets` packets with 100 bytes each.
    fn sent_stream(&mut self, packets: usize) -> StreamId {
        let stream = self.open();
        for _ in 0..packets {
            self.put(stream, 100);
            let _ = self.send(DATA, Probe::Nothing);
        }
        assert!(!self.have(DATA));
        stream
    }

    /// Returns the contents of a probe of the Data space.
    fn data_probe(&mut self) -> Vec<u8> {
        let path = &self.paths.path;
        self.sources.fill_data_probe(self.now, &self.spaces, path);
        self.send(DATA, Probe::Nothing)
    }
}

/// RFC 9002 §6.2.4: probes carry new data or, if there's none, repeat the oldest packets.
#[test]
fn a_servers_first_probe_carries_new_data_or_what_the_two_oldest_packets_did() {
    for (new, at, len) in [(0, 0, 200), (70, 300, 70)] {
        let mut parts = server();
        parts.spaces.on_confirmed();
        let stream = parts.sent_stream(3);
        parts.put(stream, new);
        parts.time_out(DATA);
        let bytes = parts.data_probe();
        assert_eq!(stream_data(&bytes), [(stream, at, len)]);
        assert!(!frames(&bytes).contains(&Frame::Ping));
    }
}

/// RFC 9000 §9.1: a server whose client's NAT has been rebound doesn't follow packets with only
/// probing frames.
#[test]
fn a_clients_probe_has_a_ping() {
    let mut parts = client();
    parts.spaces.on_confirmed();
    let _ = parts.sent_stream(1);
    parts.time_out(DATA);
    assert!(frames(&parts.data_probe()).contains(&Frame::Ping));
}

/// A peer that waits for earlier data may not be able to use new data.
#[test]
fn probes_after_the_first_repeat_what_streams_begin_with() {
    let mut parts = server();
    parts.spaces.on_confirmed();
    let low = parts.sent_stream(3);
    let high = parts.sent_stream(3);
    parts.put(high, 100);
    parts.time_out(DATA);
    assert_eq!(stream_data(&parts.data_probe()), [(high, 300, 100)]);
    parts.time_out(DATA);
    let repeated = [(low, 0, 300), (high, 0, 400)];
    assert_eq!(stream_data(&parts.data_probe()), repeated);
}

/// RFC 9002 §6.2.4: two packets of a flight are repeated in two probes.
#[test]
fn probes_of_a_handshake_repeat_one_packet_each() {
    let mut parts = client();
    parts.sources.handshake.write(|_| {}).unwrap();
    parts.room = 200;
    let flight = [(); 2].map(|()| parts.send(INITIAL, Probe::Nothing));
    assert!(!parts.have(INITIAL));
    parts.sources.fill_probe(INITIAL, &parts.spaces);
    assert!(!parts.have(INITIAL), "there was no timeout");
    parts.time_out(INITIAL);
    for (n, packet) in flight.iter().enumerate() {
        if n == 1 {
            assert_eq!(parts.spaces.second_probe(1200), Some(INITIAL));
        }
        parts.sources.fill_probe(INITIAL, &parts.spaces);
        assert_eq!(parts.send(INITIAL, Probe::Nothing), *packet);
        assert!(!parts.have(INITIAL));
    }
}

/// RFC 9002 §6.2.4: lost early data must not wait for the end of the handshake.
#[test]
fn a_clients_probes_of_the_handshake_carry_the_oldest_early_data() {
    use Side::{Client, Server};
    for (side, early) in [(Client, true), (Client, false), (Server, true)] {
        let mut parts = parts(side);
        let stream = parts.sent_stream(3);
        if early {
            parts.spaces.keys.set_early(initial_keys(side).local);
        }
        parts.sources.repeat_early_data(&parts.spaces);
        let repeated = stream_data(&parts.write(DATA).1);
        let expected = (side == Client && early).then_some((stream, 0, 200));
        assert_eq!(repeated, Vec::from_iter(expected), "{side:?} {early}");
    }
}

/// RFC 9001 §4.6.2, RFC 9000 §17.2.5.3: after a refusal or a Retry, early data is sent again.
#[test]
fn early_data_that_is_taken_back_is_due_again_and_no_longer_in_flight() {
    let mut parts = client();
    let stream = parts.sent_stream(2);
    parts.put(stream, 100);
    let _ = parts.send(DATA, Probe::Question);
    assert!(parts.spaces.recovery.bytes_in_flight() > 0);
    let path = &mut parts.paths.path;
    let sources = &mut parts.sources;
    sources.take_back_early_data(parts.now, &mut parts.spaces, path);
    assert_eq!(parts.spaces.recovery.bytes_in_flight(), 0);
    assert_eq!(stream_data(&parts.write(DATA).1), [(stream, 0, 300)]);
    // The controller may ask again.
    assert_eq!(parts.log.lock().unwrap().questions_lost, 1);
}

/// RFC 9002 §6.2.3: a server repeats its flight before a timeout, but only a few times.
#[test]
fn a_server_repeats_its_first_flight_eight_times() {
    let (mut client, mut server) = (client(), server());
    client.pass_crypto(&mut server);
    let spaces = [INITIAL, SpaceId::Handshake];
    let flight = spaces.map(|space| server.send(space, Probe::Nothing));
    let repeat = |server: &mut Parts| {
        let (now, spaces) = (server.now, &server.spaces);
        server.sources.repeat_first_flight(now, spaces);
    };
    repeat(&mut server);
    assert!(!server.have(INITIAL), "it left at this instant");
    server.now += Duration::from_millis(1);
    for _ in 0..8 {
        // Data that is already due doesn't count.
        repeat(&mut server);
        repeat(&mut server);
        assert_eq!(spaces.map(|space| server.write(space).1), flight);
    }
    repeat(&mut server);
    assert!(spaces.iter().all(|space| !server.have(*space)));
}
