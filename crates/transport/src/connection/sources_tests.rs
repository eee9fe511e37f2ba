//! Frame sources without a connection: a client's, with spaces and a path next to them.

use std::sync::Arc;

use super::*;
use crate::cid::{LocalIds, RemoteIds};
use crate::config::TransportConfig;
use crate::connection::ConnectionError;
use crate::connection::Routing;
use crate::connection::handshake::{Parameters, peer_limits};
use crate::connection::paths::Paths;
use crate::connection::tests::fixed_window::fixed_window;
use crate::crypto::null::{NullCrypto, NullEndpointKey};
use crate::crypto::{ClientCrypto, InitialCrypto, Side};
use crate::datagrams::DatagramsConfig;
use crate::streams::{Dir, StreamsConfig};
use crate::wire::transport_parameters::HandshakeIds;
use crate::wire::{ConnectionId, TransportParameters};

const NOW: Instant = Instant::from_millis(1000);
const FULL: usize = 1200;

struct Parts {
    sources: Sources,
    spaces: PacketSpaces,
    paths: Paths,
    random: Random,
}

fn id(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8]).unwrap()
}

fn client() -> Parts {
    let mut random = Random::from_u64(1);
    let config = Arc::new(TransportConfig::new(fixed_window(100_000).0));
    let crypto = NullCrypto::new(&[b"test"]);
    let keys = InitialCrypto::initial_keys(&crypto, id(1).as_slice(), Side::Client);
    let sent = TransportParameters::DEFAULT.to_vec(None).unwrap();
    let session = ClientCrypto::start(&crypto, "server", sent, 1).unwrap();
    let seen = HandshakeIds {
        initial_source: ConnectionId::EMPTY,
        original_destination: id(1),
        retry_source: None,
    };
    let parameters = Parameters::new(seen, false, Vec::new());
    let (idle, longest) = (Duration::from_secs(30), Duration::from_secs(30));
    let spaces = PacketSpaces::new(
        NOW,
        Side::Client,
        keys,
        &config,
        Duration::from_millis(25),
        (Some(idle), longest),
        &mut random,
    );
    let remote = "10.0.0.1:1000".parse().unwrap();
    let key = Arc::new(NullEndpointKey::new(1));
    Parts {
        sources: Sources {
            handshake: Handshake::new(Side::Client, session, Arc::new(crypto), parameters),
            control: Control::new(id(2), LocalIds::new(id(2)), RemoteIds::new(id(1), 8), key),
            streams: Streams::new(Side::Client, StreamsConfig::default()),
            datagrams: Datagrams::new(DatagramsConfig::default()),
        },
        spaces,
        paths: Paths::new(NOW, Side::Client, config, (remote, None), id(2), true),
        random,
    }
}

impl Parts {
    fn have(&mut self, space: SpaceId) -> bool {
        let path = self.paths.path();
        self.sources.have_frames(NOW, space, &self.spaces, path)
    }

    /// What the sources put into a packet, and its bytes.
    fn write(&mut self, space: SpaceId) -> (Contents, usize) {
        let mut room = [0; FULL];
        let mut w = Writer::new(&mut room);
        let mut contents = Contents::default();
        let asked = Asked {
            now: NOW,
            space,
            spaces: &mut self.spaces,
            path: self.paths.path_mut(),
            full: FULL,
            random: &mut self.random,
        };
        self.sources.write(asked, &mut w, &mut contents);
        (contents, w.position())
    }
}

#[test]
fn handshake_data_is_due_until_it_is_written_and_again_once_it_is_lost() {
    let mut parts = client();
    let initial = SpaceId::Initial;
    assert!(!parts.have(initial));
    parts.sources.handshake.write(|_| {}).unwrap();
    for _ in 0..3 {
        assert!(parts.have(initial) && !parts.have(SpaceId::Data));
        let (contents, bytes) = parts.write(initial);
        assert!(contents.eliciting && bytes > 0);
        assert_eq!(contents.carried.crypto().len(), 1);
        assert!(!parts.have(initial));
        parts.sources.on_lost(initial, &contents.carried);
    }
    let (contents, _) = parts.write(initial);
    let mut run = AckedRun::default();
    parts.sources.on_acked(initial, &contents.carried, &mut run);
    parts.sources.on_lost(initial, &contents.carried);
    assert!(!parts.have(initial), "it has arrived");
}

#[test]
fn each_source_of_the_data_space_says_what_it_then_writes() {
    let mut parts = client();
    let data = SpaceId::Data;
    assert!(!parts.have(data));
    let (contents, bytes) = parts.write(data);
    assert!(!contents.eliciting && bytes == 0);
    let limits = peer_limits(&TransportParameters {
        initial_max_data: 10_000,
        initial_max_stream_data_bidi_remote: 10_000,
        initial_max_streams_bidi: 1,
        ..TransportParameters::DEFAULT
    });
    let asks: [fn(&mut Sources); 3] = [
        |sources| sources.control.ping = true,
        |sources| {
            let data = bytes::Bytes::from_static(b"datagram");
            sources.datagrams.send(data);
        },
        |sources| {
            let stream = sources.streams.open(Dir::Bi).unwrap();
            assert_eq!(sources.streams.write(stream, b"data"), Ok(4));
        },
    ];
    parts.sources.streams.set_peer_limits(limits);
    for (n, ask) in asks.into_iter().enumerate() {
        ask(&mut parts.sources);
        assert!(parts.have(data) && !parts.have(SpaceId::Handshake), "{n}");
        let (contents, bytes) = parts.write(data);
        assert!(contents.eliciting && bytes > 0, "{n}");
        assert!(!parts.have(data), "{n}");
    }
}

#[test]
fn a_connection_that_is_gone_gives_its_ids_back() {
    let mut parts = client();
    let mut outbox = Outbox::new(id(2));
    assert_eq!(outbox.poll_routing(None, false), Some(Routing::Add(id(2))));
    parts.sources.on_ending(Ending::Known, &mut outbox);
    assert_eq!(outbox.poll_event(), None);
    let ending = Ending::Gone(ConnectionError::TimedOut);
    parts.sources.on_ending(ending, &mut outbox);
    assert_eq!(
        outbox.poll_event(),
        Some(Event::Lost(ConnectionError::TimedOut))
    );
    let removed = outbox.poll_routing(None, false);
    assert_eq!(removed, Some(Routing::Remove(id(2))));
}
