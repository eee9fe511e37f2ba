//! Early data (0-RTT) with TLS: accepted, refused, lost, and replayed.

mod hostile;
mod refused;
mod taken;

use super::*;
use crate::connection::EarlyData;
use crate::crypto::tls::{TlsClientConfig, TlsServerConfig, testing};
use crate::wire::TransportParameters;

const START: Instant = Instant::from_millis(1);

/// A client and a server that have met, so that the client has two tickets.
struct Acquainted {
    client: Arc<TlsClientConfig>,
    server: Arc<TlsServerConfig>,
}

impl Acquainted {
    fn new() -> Self {
        Self::by(Setup::default())
    }

    /// Creates tickets with a connection of this setup.
    fn by(setup: Setup) -> Self {
        let client = testing::client(testing::trust_ca(), &[b"test"]).with_early_data();
        let server = testing::server("server", &[b"test"]).with_early_data(100);
        let known = Self {
            client: Arc::new(client),
            server: Arc::new(server),
        };
        let mut pair = Pair::at_rest(known.setup_from(setup));
        assert_eq!(early_data(&mut pair), [EarlyData::None; 2]);
        known
    }

    fn setup(&self) -> Setup {
        self.setup_from(Setup::default())
    }

    fn setup_from(&self, setup: Setup) -> Setup {
        Setup {
            client_crypto: Arc::clone(&self.client) as _,
            server_crypto: Arc::clone(&self.server) as _,
            ..setup
        }
    }

    /// Lets the client meet a server of another configuration.
    fn at(&self, server: TlsServerConfig) -> Self {
        Self {
            client: Arc::clone(&self.client),
            server: Arc::new(server),
        }
    }
}

/// The client writes all of `data` on a new stream and finishes it.
fn write(pair: &mut Pair, dir: Dir, data: &[u8]) -> StreamId {
    let streams = pair.client.get().streams();
    let id = streams.open(dir).unwrap();
    assert_eq!(streams.write(id, data).unwrap(), data.len());
    streams.finish(id).unwrap();
    id
}

/// Runs until the server has read streams to their ends, and checks that each contains the data
/// written.
fn read_all(pair: &mut Pair, written: &[(StreamId, Vec<u8>)], limit: Duration) {
    let mut got = vec![(Vec::new(), false); written.len()];
    let done = pair.run_until(limit, |pair| {
        let Some(server) = &mut pair.server.connection else {
            return false;
        };
        while server.streams().accept(Dir::Uni).is_some() {}
        while server.streams().accept(Dir::Bi).is_some() {}
        for ((id, _), (bytes, ended)) in written.iter().zip(&mut got) {
            *ended = *ended || drain(server, *id, bytes);
        }
        got.iter().all(|(_, ended)| *ended)
    });
    let (client, server) = (pair.client.error(), pair.server.error());
    assert!(done, "{client:?} {server:?}");
    for ((_, written), (read, _)) in written.iter().zip(&got) {
        let lengths = (written.len(), read.len());
        assert!(written == read, "{lengths:?} bytes");
    }
}

/// Writes streams of these lengths at once.
fn upload(pair: &mut Pair, dir: Dir, lengths: &[usize]) -> Vec<(StreamId, Vec<u8>)> {
    let streams = (0..).zip(lengths).map(|(seed, length)| {
        let data = pattern(*length, seed);
        (write(pair, dir, &data), data)
    });
    streams.collect()
}

/// Returns the state of early data at the client and at the server.
fn early_data(pair: &mut Pair) -> [EarlyData; 2] {
    [true, false].map(|client| {
        let connection = pair.host(client).connection.as_ref();
        connection.map_or(EarlyData::None, |connection| {
            connection.handshake().early_data()
        })
    })
}

fn datagrams_accepted() -> Setup {
    Setup::new(|setup| setup.server.datagrams.receive_bytes = 10_000)
}

/// Limits that aren't lower than those that a client remembers.
fn generous_parameters() -> Vec<u8> {
    let most = 1 << 60;
    let parameters = TransportParameters {
        initial_max_data: most,
        initial_max_stream_data_bidi_local: most,
        initial_max_stream_data_bidi_remote: most,
        initial_max_stream_data_uni: most,
        initial_max_streams_bidi: most,
        initial_max_streams_uni: most,
        active_connection_id_limit: 64,
        max_datagram_frame_size: 65_535,
        ..TransportParameters::DEFAULT
    };
    parameters.to_vec(None).unwrap()
}
