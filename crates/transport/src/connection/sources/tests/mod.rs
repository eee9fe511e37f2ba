//! Frame sources without a connection, together with spaces and a path.

mod data;
mod probes;

use std::sync::{Arc, Mutex};

use super::*;
use crate::cid::{LocalIds, RemoteIds};
use crate::config::TransportConfig;
use crate::connection::handshake::Parameters;
use crate::connection::paths::Paths;
use crate::connection::tests::fixed_window::{ControllerLog, fixed_window};
use crate::connection::{ConnectionError, Routing};
use crate::crypto::null::{NullCrypto, NullEndpointKey};
use crate::crypto::{ClientCrypto, InitialCrypto, Keys, ServerCrypto, Side};
use crate::datagrams::DatagramsConfig;
use crate::path::PathValidation;
use crate::recovery::packet;
use crate::streams::{Dir, PeerLimits, StreamId, StreamsConfig};
use crate::wire::frame::Frames;
use crate::wire::transport_parameters::HandshakeIds;
use crate::wire::{ConnectionId, Frame, TransportParameters};

const FULL: usize = 1200;
/// The congestion window, in datagrams.
const WINDOW: u64 = 160;
/// Bytes that the peer permits on all streams together, and on each.
const CREDIT: u64 = 1 << 20;

const DATA: SpaceId = SpaceId::Data;
const INITIAL: SpaceId = SpaceId::Initial;

struct Parts {
    now: Instant,
    sources: Sources,
    spaces: PacketSpaces,
    paths: Paths,
    random: Random,
    outbox: Outbox,
    log: Arc<Mutex<ControllerLog>>,
    /// Room for a packet's frames, in bytes.
    room: usize,
}

fn id(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8]).unwrap()
}

fn initial_keys(side: Side) -> Keys {
    InitialCrypto::initial_keys(&NullCrypto::new(&[b"test"]), id(1).as_slice(), side)
}

fn parts(side: Side) -> Parts {
    let now = Instant::from_millis(1000);
    let mut random = Random::from_u64(1);
    let (factory, log) = fixed_window(WINDOW * FULL as u64);
    let config = Arc::new(TransportConfig::new(factory));
    let crypto = NullCrypto::new(&[b"test"]);
    let sent = TransportParameters::DEFAULT.to_vec(None).unwrap();
    let session = match side {
        Side::Client => ClientCrypto::start(&crypto, "server", sent, 1).unwrap(),
        Side::Server => ServerCrypto::start(&crypto, sent, 2).unwrap(),
    };
    let seen = HandshakeIds {
        initial_source: ConnectionId::EMPTY,
        original_destination: id(1),
        retry_source: None,
    };
    let parameters = Parameters::new(seen, side.is_server(), Vec::new());
    let (idle, longest) = (Duration::from_secs(30), Duration::from_secs(30));
    let spaces = PacketSpaces::new(
        now,
        side,
        initial_keys(side),
        &config,
        Duration::from_millis(25),
        (Some(idle), longest),
        &mut random,
    );
    let remote = "10.0.0.1:1000".parse().unwrap();
    let key = Arc::new(NullEndpointKey::new(1));
    Parts {
        now,
        sources: Sources {
            handshake: Handshake::new(side, session, Arc::new(crypto), parameters),
            control: Control::new(id(2), LocalIds::new(id(2)), RemoteIds::new(id(1), 8), key),
            streams: Streams::new(side, StreamsConfig::default()),
            datagrams: Datagrams::new(DatagramsConfig::default()),
        },
        spaces,
        paths: Paths::new(now, side, config, remote, None, id(2), true),
        random,
        outbox: Outbox::new(id(2)),
        log,
        room: FULL,
    }
}

fn client() -> Parts {
    parts(Side::Client)
}

fn server() -> Parts {
    parts(Side::Server)
}

impl Parts {
    fn have(&mut self, space: SpaceId) -> bool {
        let path = &self.paths.path;
        self.sources.have_frames(self.now, space, path)
    }

    /// Returns the contents that `fill` adds to a packet, and its bytes.
    fn fill(
        &mut self,
        space: SpaceId,
        fill: impl FnOnce(&mut Sources, &mut Asked<'_>, &mut Writer<'_>, &mut Contents),
    ) -> (Contents, Vec<u8>) {
        let mut room = [0; FULL];
        let mut w = Writer::new(&mut room[..self.room]);
        let mut contents = Contents::default();
        let mut asked = Asked {
            now: self.now,
            space,
            spaces: &mut self.spaces,
            path: &mut self.paths.path,
            full: FULL,
            random: &mut self.random,
        };
        fill(&mut self.sources, &mut asked, &mut w, &mut contents);
        (contents, w.written().to_vec())
    }

    /// Returns the contents that the sources add to a packet, and its bytes.
    fn write(&mut self, space: SpaceId) -> (Contents, Vec<u8>) {
        self.fill(space, Sources::write)
    }

    /// Sends a packet that tests `probe` with the sources' frames, and returns its bytes.
    fn send(&mut self, space: SpaceId, probe: Probe) -> Vec<u8> {
        let (contents, bytes) = self.write(space);
        let (number, _) = self.spaces.number(space);
        let mut packet = packet(self.now, bytes.len() as u16, contents.carried);
        (packet.ack_eliciting, packet.probe) = (contents.eliciting, probe);
        self.spaces.on_sent(space, number, packet, &mut self.random);
        bytes
    }

    /// Opens a stream that the peer permits.
    fn open(&mut self) -> StreamId {
        let limits = PeerLimits::from(&TransportParameters {
            initial_max_data: CREDIT,
            initial_max_stream_data_bidi_remote: CREDIT,
            initial_max_streams_bidi: 8,
            ..TransportParameters::DEFAULT
        });
        self.sources.streams.set_peer_limits(limits);
        self.sources.streams.open(Dir::Bi).unwrap()
    }

    fn put(&mut self, stream: StreamId, bytes: usize) {
        let written = self.sources.streams.write(stream, &vec![7; bytes]);
        assert_eq!(written, Ok(bytes));
    }

    /// Passes one packet of CRYPTO data of each level to `peer`.
    fn pass_crypto(&mut self, peer: &mut Self) {
        self.sources.handshake.write(|_| {}).unwrap();
        for space in SpaceId::ALL {
            let (_, bytes) = self.write(space);
            for frame in frames(&bytes) {
                let Frame::Crypto(crypto) = frame else {
                    panic!("{frame:?}");
                };
                let to = &mut peer.sources.handshake;
                to.on_crypto(space, crypto.offset, crypto.data).unwrap();
                to.write(|_| {}).unwrap();
            }
        }
    }
}

fn frames(bytes: &[u8]) -> Vec<Frame<'_>> {
    Frames::new(bytes).map(Result::unwrap).collect()
}

/// Returns the streams, offsets and lengths of STREAM frames.
fn stream_data(bytes: &[u8]) -> Vec<(StreamId, u64, usize)> {
    let all = frames(bytes).into_iter();
    let data = all.filter_map(|frame| match frame {
        Frame::Stream(stream) => Some((stream.id, stream.offset, stream.data.len())),
        _ => None,
    });
    data.collect()
}

#[test]
fn handshake_data_is_due_until_it_is_written_and_again_once_it_is_lost() {
    let mut parts = client();
    assert!(!parts.have(INITIAL));
    parts.sources.handshake.write(|_| {}).unwrap();
    for _ in 0..3 {
        assert!(parts.have(INITIAL) && !parts.have(DATA));
        let (contents, bytes) = parts.write(INITIAL);
        assert!(contents.eliciting && !bytes.is_empty());
        assert_eq!(contents.carried.crypto().len(), 1);
        assert!(!parts.have(INITIAL));
        parts.sources.on_lost(INITIAL, &contents.carried);
    }
    let (contents, _) = parts.write(INITIAL);
    let mut run = AckedRun::default();
    parts.sources.on_acked(INITIAL, &contents.carried, &mut run);
    parts.sources.on_lost(INITIAL, &contents.carried);
    assert!(!parts.have(INITIAL), "it has arrived");
}

/// RFC 9001 §4.9: data sent under discarded keys isn't sent again.
#[test]
fn nothing_is_due_in_a_space_whose_keys_are_gone() {
    let mut parts = client();
    parts.sources.handshake.write(|_| {}).unwrap();
    let (contents, _) = parts.write(INITIAL);
    parts.sources.on_lost(INITIAL, &contents.carried);
    assert!(parts.have(INITIAL));
    parts.sources.discard(parts.now, INITIAL, &mut parts.spaces);
    assert!(!parts.have(INITIAL));
    parts.sources.on_lost(INITIAL, &contents.carried);
    assert!(!parts.have(INITIAL));
}

#[test]
fn each_source_of_the_data_space_says_what_it_then_writes() {
    let mut parts = client();
    assert!(!parts.have(DATA));
    let (contents, bytes) = parts.write(DATA);
    assert!(!contents.eliciting && bytes.is_empty());
    let asks: [fn(&mut Parts); 4] = [
        |parts| parts.sources.control.ping = true,
        |parts| {
            let data = bytes::Bytes::from_static(b"datagram");
            parts.sources.datagrams.send(data);
        },
        |parts| {
            let stream = parts.open();
            parts.put(stream, 4);
        },
        |parts| {
            let validation = PathValidation::new(parts.now, Duration::from_secs(1));
            *parts.paths.validation() = Some(validation);
        },
    ];
    for (n, ask) in asks.into_iter().enumerate() {
        ask(&mut parts);
        assert!(parts.have(DATA) && !parts.have(SpaceId::Handshake), "{n}");
        let (contents, bytes) = parts.write(DATA);
        assert!(contents.eliciting && !bytes.is_empty(), "{n}");
        assert!(!parts.have(DATA), "{n}");
    }
}

/// RFC 9000 §8.2.1: a datagram with a PATH_CHALLENGE is padded, even if this is its only frame.
#[test]
fn a_packet_with_a_challenge_asks_for_an_answer_and_for_padding() {
    let mut parts = client();
    let write = |parts: &mut Parts| {
        let (contents, bytes) =
            parts.fill(DATA, |_, asked, w, contents| asked.write_path(w, contents));
        assert_eq!(contents.eliciting, !bytes.is_empty());
        assert_eq!(contents.padded, !bytes.is_empty());
        bytes
    };
    assert!(write(&mut parts).is_empty());
    let validation = PathValidation::new(parts.now, Duration::from_secs(1));
    *parts.paths.validation() = Some(validation);
    let bytes = write(&mut parts);
    assert!(matches!(frames(&bytes)[..], [Frame::PathChallenge(_)]));
    assert!(write(&mut parts).is_empty());
}

/// draft-ietf-quic-ack-frequency: only 1-RTT packets contain this frame.
#[test]
fn the_peer_is_asked_for_acknowledgements_once_the_handshake_is_complete() {
    let (mut client, mut server) = (client(), server());
    let (delay, least) = (Duration::from_millis(25), Duration::from_millis(1));
    client.spaces.on_peer_parameters(delay, Some(least));
    assert!(!client.have(DATA) && client.write(DATA).1.is_empty());
    for _ in 0..4 {
        client.pass_crypto(&mut server);
        server.pass_crypto(&mut client);
    }
    assert_eq!(client.sources.handshake.complete_now(), Ok(true));
    client.sources.control.ping = true;
    let bytes = client.send(DATA, Probe::Nothing);
    assert_eq!(frames(&bytes), [Frame::Ping]);
    // Once a round trip is known, the peer should acknowledge 16 times in each window.
    client.now += Duration::from_millis(80);
    let (recovery, ..) = client.spaces.split(DATA);
    let number = recovery.space(DATA).sent().next_number() - 1;
    let acked = [number..=number];
    recovery
        .on_ack(client.now, DATA, acked, Duration::ZERO, |_, _, _| {})
        .unwrap();
    let (contents, bytes) = client.write(DATA);
    let [Frame::AckFrequency(asked)] = frames(&bytes)[..] else {
        panic!("{bytes:?}");
    };
    assert_eq!(asked.ack_eliciting_threshold, WINDOW / 16);
    let control = [ControlFrame::AckFrequency(asked.sequence)];
    assert_eq!(contents.carried.control(), control);
}

#[test]
fn a_connection_that_is_gone_gives_its_ids_back() {
    let mut parts = client();
    let (sources, outbox) = (&mut parts.sources, &mut parts.outbox);
    assert_eq!(outbox.poll_routing(None, false), Some(Routing::Add(id(2))));
    sources.on_ending(Ending::Known, outbox);
    assert_eq!(outbox.poll_event(), None);
    sources.on_ending(Ending::Gone(ConnectionError::TimedOut), outbox);
    let lost = Event::Lost(ConnectionError::TimedOut);
    assert_eq!(outbox.poll_event(), Some(lost));
    let removed = outbox.poll_routing(None, false);
    assert_eq!(removed, Some(Routing::Remove(id(2))));
}
