//! One peer floods the other with frames over real sockets, while an honest peer uploads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pathmark_cc::{Controller, NewReno};

use super::shared::Shared;
use super::socket::Outgoing;
use super::task_tests::boundless;
use super::*;
use pathmark_transport::connection::{self as core, Stats};
use pathmark_transport::wire::frame::{ResetStream, StopSending, Stream};
use pathmark_transport::wire::{Dir, Frame, Side, StreamId};
use pathmark_transport::{Ecn, Instant, TransportConfig};

/// The bytes that an honest peer sends, and how long this may take during a flood. Without a flood,
/// it takes a tenth of a second.
const HONEST: usize = 4 << 20;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// Packets that a flood sends at a time.
const BURST: usize = 32;

fn honest() -> Arc<TransportConfig> {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    Arc::new(TransportConfig::new(Arc::new(factory)))
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Connects a client to `server`. Returns both ends, and the state of the client's endpoint.
async fn connect(
    server: &Endpoint,
    config: ClientConfig,
) -> (Endpoint, Arc<Shared>, Connection, Connection) {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let connecting = endpoint
        .connect_with(config, server.local_address(), "server.test")
        .unwrap();
    let shared = Arc::clone(connecting.shared());
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (ours, theirs) = tokio::try_join!(connecting, accepting).unwrap();
    ours.confirmed().await.unwrap();
    (endpoint, shared, ours, theirs)
}

/// Sends packets, each with a new `payload`, until `over` or until the connection ends.
/// Returns the number of packets.
async fn flood(
    endpoint: &Endpoint,
    shared: &Shared,
    over: impl Fn() -> bool,
    payload: impl Fn(&mut core::Connection, u64) -> Vec<u8>,
) -> u64 {
    let mut sent = 0;
    while !over() && shared.lock().lost().is_none() {
        for _ in 0..BURST {
            let mut state = shared.lock();
            let to = state.core.remote_address();
            let now = clock::now();
            let frames = payload(&mut state.core, sent);
            let packets = testing::packets(&mut state.core, now, &frames);
            // The connection's task only continues when woken.
            state.wake_driver();
            drop(state);
            for bytes in packets {
                endpoint.shared.socket().send(&Outgoing {
                    to,
                    from: None,
                    ecn: Ecn::NotEct,
                    dscp: 0,
                    bytes: &bytes,
                    segment: bytes.len(),
                });
            }
            sent += 1;
        }
        tokio::task::yield_now().await;
    }
    sent
}

/// Floods a server while an honest peer sends [`HONEST`] bytes to it, and until the server has
/// received enough packets and `enough` is satisfied with its counters. Returns the number
/// of packets sent, and the server's counters of the flood before and after. On a busy machine, the
/// honest peer may be served before the flood has started.
async fn with_an_honest_peer(
    payload: impl Fn(&mut core::Connection, u64) -> Vec<u8>,
    enough: impl Fn(&Stats, &Stats) -> bool,
) -> (u64, Stats, Stats) {
    let crypto = Arc::new(testing::server(&[b"test"]));
    let server = Endpoint::server(ServerConfig::new(crypto, honest()), loopback()).unwrap();
    let forging = testing::forging(testing::client(&[b"test"]));
    let mut transport = boundless();
    // Room for the IDs that replace those that only a flood retires.
    transport.active_connection_id_limit = 64;
    let config = ClientConfig::new(forging, Arc::new(transport));
    let (hostile, shared, ours, theirs) = connect(&server, config).await;
    let before = theirs.stats();
    let accepting = theirs.clone();
    let application = tokio::spawn(async move {
        // The server accepts each stream and drops it.
        while accepting.accept_bi().await.is_ok() {}
    });
    let served = AtomicBool::new(false);
    let over = || {
        served.load(Ordering::Relaxed) && {
            let now = theirs.stats();
            arrived(&before, &now) > 10 * BURST as u64 && enough(&before, &now)
        }
    };
    let honest = async {
        // This upload starts and ends during the flood.
        let crypto = Arc::new(testing::client(&[b"test"]));
        let config = ClientConfig::new(crypto, honest());
        let (_endpoint, _, client, accepted) = connect(&server, config).await;
        let sending = async {
            let mut stream = client.open_uni().await.unwrap();
            stream.write_all(&vec![7; HONEST]).await.unwrap();
            stream.finish().unwrap();
            stream.stopped().await.unwrap();
        };
        let receiving = async {
            let mut stream = accepted.accept_uni().await.unwrap();
            stream.read_to_end(HONEST).await.unwrap().len()
        };
        let ((), received) = tokio::join!(sending, receiving);
        served.store(true, Ordering::Relaxed);
        received
    };
    let both = async { tokio::join!(flood(&hostile, &shared, over, payload), honest) };
    let (sent, received) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("the honest peer is served, and the flood goes on");
    assert_eq!(received, HONEST);
    application.abort();
    // The flooding connection has broken no rule, so neither end closes it.
    assert_eq!((ours.close_reason(), theirs.close_reason()), (None, None));
    (sent, before, theirs.stats())
}

/// Returns the packets of the flood between two readings of the counters.
fn arrived(before: &Stats, after: &Stats) -> u64 {
    after.packets_received - before.packets_received
}

/// The server sends at most `factor` times the bytes that it received in the flood. The additional
/// 64 kB are from before and from its own probes.
fn in_proportion((sent, before, after): &(u64, Stats, Stats), factor: u64) {
    let received = after.bytes_received - before.bytes_received;
    let answered = after.bytes_sent - before.bytes_sent;
    println!("{sent} packets sent, {received} bytes arrived, {answered} were sent back");
    assert!(
        answered <= factor * received + 65_536,
        "{answered} for {received}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn challenges() {
    let payload = |_: &mut core::Connection, n: u64| {
        testing::frames(&[Frame::PathChallenge(n.to_be_bytes())])
    };
    let enough = |_: &Stats, now: &Stats| now.path_challenges > 0;
    let flooded = with_an_honest_peer(payload, enough).await;
    in_proportion(&flooded, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_asked_for() {
    let payload =
        |_: &mut core::Connection, _| testing::frames(&[Frame::Ping, Frame::ImmediateAck]);
    in_proportion(&with_an_honest_peer(payload, |_, _| true).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_one_byte_beyond_gaps() {
    let id = StreamId::new(Side::Client, Dir::Uni, 0).unwrap();
    let payload = |_: &mut core::Connection, n: u64| {
        let piece = |i: u64| {
            Frame::Stream(Stream {
                id,
                offset: 1 + (n * 50 + i) % 500_000 * 2,
                fin: false,
                data: b"x",
            })
        };
        let all: Vec<_> = (0..50).map(piece).collect();
        testing::frames(&all)
    };
    in_proportion(&with_an_honest_peer(payload, |_, _| true).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_retired_again_and_again() {
    let payload = |_: &mut core::Connection, _| {
        let all: Vec<_> = (0..100).map(|_| Frame::RetireConnectionId(1)).collect();
        testing::frames(&all)
    };
    let enough = |before: &Stats, now: &Stats| now.id_frames > before.id_frames + 1000;
    let flooded = with_an_honest_peer(payload, enough).await;
    in_proportion(&flooded, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_opened_and_given_up() {
    let payload = |connection: &mut core::Connection, _| {
        let mut all = Vec::new();
        while all.len() < 40
            && let Ok(id) = connection.streams().open(Dir::Bi)
        {
            all.push(Frame::ResetStream(ResetStream {
                id,
                error_code: 1,
                final_size: 0,
            }));
            all.push(Frame::StopSending(StopSending { id, error_code: 1 }));
            // This ends the streams at the client, too.
            let _ = connection.streams().reset(id, 1);
            let _ = connection.streams().stop(id, 1);
        }
        all.push(Frame::Ping);
        testing::frames(&all)
    };
    let enough = |before: &Stats, now: &Stats| now.streams_given_up > before.streams_given_up + 100;
    let flooded = with_an_honest_peer(payload, enough).await;
    in_proportion(&flooded, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_updates_without_end() {
    let payload = |connection: &mut core::Connection, _| {
        connection.update_keys(clock::now());
        testing::frames(&[Frame::Ping])
    };
    let enough = |before: &Stats, now: &Stats| now.key_updates > before.key_updates;
    let flooded = with_an_honest_peer(payload, enough).await;
    let updates = flooded.2.key_updates - flooded.1.key_updates;
    // Each update requires an acknowledgement of the one before.
    assert!(updates > 0 && updates < flooded.0 / 4, "{updates}");
    in_proportion(&flooded, 1);
}
