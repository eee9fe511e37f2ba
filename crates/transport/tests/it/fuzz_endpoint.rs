//! Fuzz targets for input from strangers: tokens, handshake bytes, and an endpoint's datagrams.
//!
//! `cargo test` runs each over its corpus in `__fuzz__` and a limited number of random inputs. A
//! fuzzer can run the same functions for as long as you like: `cargo bolero test -p
//! pathmark-transport tokens` (libFuzzer).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use pathmark_transport::connection::Connection;
use pathmark_transport::crypto::null::{NullCrypto, NullEndpointKey};
use pathmark_transport::crypto::{ClientCrypto, EndpointKey, Random, ServerCrypto, token};
use pathmark_transport::endpoint::{
    DatagramEvent, Endpoint, EndpointConfig, RetryPolicy, ServerConfig,
};
use pathmark_transport::wire::ConnectionId;
use pathmark_transport::{Duration, Instant};

use crate::flood::transport;
use crate::plain;
/// Random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 50_000;
/// Largest length of a random input in bytes.
const MAX_LEN: usize = 1400;

const NOW: Duration = Duration::from_secs(1_700_000_000);

fn client(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port))
}

/// Opens the input as a token, and the same bytes sealed with our own key. Whatever they contain,
/// there is a result.
fn open_token(input: &[u8]) {
    let key = NullEndpointKey::new(1);
    let dcid = ConnectionId::new(input.get(..8).unwrap_or(&[])).expect("short enough");
    let _ = token::open(&key, input, client(1), &dcid, NOW);
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    let Some((nonce, _)) = rest.split_first_chunk() else {
        return;
    };
    let mut sealed = vec![kind];
    sealed.extend_from_slice(nonce);
    key.seal(nonce, input, &mut sealed);
    let _ = token::open(&key, &sealed, client(1), &dcid, NOW);
}

/// Gives handshake bytes to a server and to a client, split at the offset in the first byte.
fn handshake(input: &[u8]) {
    let Some((&cut, bytes)) = input.split_first() else {
        return;
    };
    let crypto = NullCrypto::new(&[b"test"]);
    let sessions = [
        ServerCrypto::start(&crypto, vec![1], 1),
        ClientCrypto::start(&crypto, "server", vec![1], 2),
    ];
    for mut session in sessions.into_iter().flatten() {
        let mut out = Vec::new();
        session.write_handshake(&mut out);
        for part in bytes.chunks(usize::from(cut).max(1)) {
            if session.read_handshake(part).is_err() {
                break;
            }
            while session.write_handshake(&mut out).is_some() {}
        }
        assert!(out.len() < 8192);
    }
}

/// Sends datagrams of 400 bytes, and the remainder, to a server with one or two connections that
/// sometimes requires proofs of address. Odd first bytes request padding to the size that first
/// packets need.
fn endpoint(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let mut config = EndpointConfig::new(Arc::new(NullEndpointKey::new(1)), NOW);
    config.retry = match choice % 3 {
        0 => RetryPolicy::Always,
        1 => RetryPolicy::Never,
        _ => RetryPolicy::Automatic { half_open: 1 },
    };
    config.max_half_open = 2;
    config.server = Some(ServerConfig {
        transport: transport(),
        crypto: Arc::new(NullCrypto::new(&[b"test"])),
    });
    let mut endpoint = Endpoint::new(config, Random::from_u64(1));
    let mut answer = Vec::new();
    let mut accepted: Vec<(_, Box<Connection>)> = Vec::new();
    let mut now = Instant::from_millis(5);
    for part in bytes.chunks(400) {
        now += Duration::from_millis(part.last().map_or(0, |byte| u64::from(*byte) * 20));
        let mut datagram = part.to_vec();
        if part.first().is_some_and(|first| first % 2 == 1) {
            datagram.resize(1200, 0);
        }
        let last = part.last().map_or(0, |byte| byte % 4);
        let host = Ipv4Addr::new(192, 0, 2, last);
        let received = plain(SocketAddr::from((host, u16::from(part.len() > 100))));
        match endpoint.handle(now, &received, &datagram, &mut answer) {
            DatagramEvent::Incoming(incoming) => {
                while let Some(evicted) = endpoint.poll_evicted() {
                    let at = accepted.iter().position(|(handle, _)| *handle == evicted);
                    let (handle, mut connection) = accepted.swap_remove(at.expect("accepted"));
                    connection.refuse(now);
                    assert!(!endpoint.update(now, handle, &mut connection));
                }
                accepted.extend(endpoint.accept(now, incoming));
            }
            DatagramEvent::Connection(handle) => {
                for (own, connection) in &mut accepted {
                    if *own == handle {
                        connection.handle_datagram(now, received, &mut datagram);
                        endpoint.update(now, handle, connection);
                    }
                }
            }
            DatagramEvent::Respond => assert!(answer.len() <= 3 * datagram.len()),
            DatagramEvent::Nothing => {}
        }
        assert!(endpoint.half_open() <= 2 && endpoint.connections() <= 2);
    }
}

target!(tokens, open_token);
target!(handshakes, handshake);
target!(endpoint_datagrams, endpoint);
