//! One peer floods the other with frames over real sockets, while an honest peer uploads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::shared::Shared;
use super::testing::*;
use super::*;
use pathmark_transport::connection::{self as core, Stats};
use pathmark_transport::wire::frame::{ResetStream, StopSending, Stream};
use pathmark_transport::wire::{Dir, Frame, Side, StreamId};

/// The bytes that an honest peer sends, which takes a tenth of a second without a flood.
const HONEST: usize = 4 << 20;
/// Packets that a flood sends at a time.
const BURST: usize = 32;

/// Sends packets, each with a new `payload`, until `over` or until the connection ends.
/// Returns the number of packets.
async fn flood(
    shared: &Shared,
    over: impl Fn() -> bool,
    payload: impl Fn(&mut core::Connection, u64) -> Vec<u8>,
) -> u64 {
    let mut sent = 0;
    while !over() && shared.lock().lost().is_none() {
        for _ in 0..BURST {
            let packets = forge(shared, |core| payload(core, sent));
            let to = shared.lock().core.remote_address();
            for bytes in packets {
                send_by(shared, to, &bytes);
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
    let server = server();
    let mut transport = boundless();
    // Room for the IDs that replace those that only a flood retires.
    transport.active_connection_id_limit = 64;
    let config = ClientConfig::with_transport(forging(client_tls()), Arc::new(transport));
    let hostile = endpoint();
    let connecting = connect_with(&hostile, &server, config);
    let shared = Arc::clone(connecting.shared());
    let (ours, theirs) = both(connecting, &server).await;
    ours.confirmed().await.unwrap();
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
        let endpoint = endpoint();
        let ends = both(connect(&endpoint, &server), &server).await;
        upload(&ends, HONEST).await;
        served.store(true, Ordering::Relaxed);
    };
    let both = async { tokio::join!(flood(&shared, over, payload), honest) };
    let (sent, ()) = soon("serving the honest peer during the flood", both).await;
    application.abort();
    // The flooding connection has broken no rule, so neither end closes it.
    assert_eq!((ours.close_reason(), theirs.close_reason()), (None, None));
    (sent, before, theirs.stats())
}

/// Returns the packets of the flood between two readings of the counters.
fn arrived(before: &Stats, after: &Stats) -> u64 {
    after.packets_received - before.packets_received
}

struct Flood {
    name: &'static str,
    payload: fn(&mut core::Connection, u64) -> Vec<u8>,
    /// The server counts more than this in the flood.
    counted: (fn(&Stats) -> u64, u64),
    /// The server sends at most this many times the bytes that it received.
    factor: u64,
}

const FLOODS: [Flood; 6] = [
    Flood {
        name: "challenges",
        payload: |_, n| frames(&[Frame::PathChallenge(n.to_be_bytes())]),
        counted: (|stats| stats.path_challenges, 0),
        factor: 2,
    },
    Flood {
        name: "acknowledgements asked for",
        payload: |_, _| frames(&[Frame::Ping, Frame::ImmediateAck]),
        counted: (|stats| stats.packets_received, 0),
        factor: 1,
    },
    Flood {
        name: "pieces of one byte beyond gaps",
        payload: |_, n| {
            let piece = |i: u64| {
                Frame::Stream(Stream {
                    id: StreamId::new(Side::Client, Dir::Uni, 0).unwrap(),
                    offset: 1 + (n * 50 + i) % 500_000 * 2,
                    fin: false,
                    data: b"x",
                })
            };
            frames(&(0..50).map(piece).collect::<Vec<_>>())
        },
        counted: (|stats| stats.packets_received, 0),
        factor: 1,
    },
    Flood {
        name: "an ID retired again and again",
        payload: |_, _| frames(&[(); 100].map(|()| Frame::RetireConnectionId(1))),
        counted: (|stats| stats.id_frames, 1000),
        factor: 1,
    },
    Flood {
        name: "streams opened and given up",
        payload: |connection, _| {
            let mut all = Vec::new();
            while all.len() < 40
                && let Ok(id) = connection.streams().open(Dir::Bi)
            {
                let (error_code, final_size) = (1, 0);
                all.push(Frame::ResetStream(ResetStream {
                    id,
                    error_code,
                    final_size,
                }));
                all.push(Frame::StopSending(StopSending { id, error_code: 1 }));
                // This ends the streams at the client, too.
                let _ = connection.streams().reset(id, 1);
                let _ = connection.streams().stop(id, 1);
            }
            all.push(Frame::Ping);
            frames(&all)
        },
        counted: (|stats| stats.streams_given_up, 100),
        factor: 2,
    },
    Flood {
        name: "key updates without end",
        payload: |connection, _| {
            connection.update_keys(clock::now());
            frames(&[Frame::Ping])
        },
        counted: (|stats| stats.key_updates, 0),
        factor: 1,
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_peer_is_served_during_any_flood() {
    for flood in FLOODS {
        let (counted, least) = flood.counted;
        let enough = |before: &Stats, now: &Stats| counted(now) > counted(before) + least;
        let (sent, before, after) = with_an_honest_peer(flood.payload, enough).await;
        // Each update requires an acknowledgement of the one before.
        let updates = after.key_updates - before.key_updates;
        assert!(updates <= sent / 4, "{updates}");
        let received = after.bytes_received - before.bytes_received;
        let answered = after.bytes_sent - before.bytes_sent;
        let name = flood.name;
        println!(
            "{name}: {sent} packets sent, {received} bytes arrived, {answered} were sent back"
        );
        // The additional 64 kB are from before and from the server's own probes.
        let most = flood.factor * received + 65_536;
        assert!(answered <= most, "{name}: {answered} for {received}");
    }
}
