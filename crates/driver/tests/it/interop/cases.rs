//! The applicable cases of the public interop runner, over a proxy that behaves like its networks.
//! They have the names and meanings of <https://interop.seemann.io>.

use std::future::Future;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pathmark_transport::path::{EcnFailure, EcnState};
use pathmark_transport::wire::{PacketType, PartialDecode};

use super::resumption;
use super::support::data;
use super::support::peers::{Client, Connection, Identity, Options, Pair, Server, Stack};
use super::support::proxy::{Passed, Proxy, Weather};
use super::support::until;
use super::zero_rtt;

/// Client and server.
pub(crate) type Stacks = (Stack, Stack);

/// All applicable cases, in the runner's order.
pub(crate) const NAMES: [&str; 20] = [
    "handshake",
    "transfer",
    "longrtt",
    "chacha20",
    "multiplexing",
    "retry",
    "resumption",
    "zerortt",
    "blackhole",
    "keyupdate",
    "ecn",
    "amplificationlimit",
    "handshakeloss",
    "transferloss",
    "handshakecorruption",
    "transfercorruption",
    "ipv6",
    "rebind-port",
    "rebind-addr",
    "connectionmigration",
];

/// Datagrams of a direction that the runner drops or corrupts in a row
/// (`--burst_to_server=3 --burst_to_client=3` of its network).
const BURST: u32 = 3;
/// The runner's limit for a case with heavy loss or corruption, because probe timeouts double.
pub(crate) const PATIENCE_WITH_LOSS: Duration = Duration::from_secs(300);
/// Number of handshakes in the cases with heavy loss or corruption.
const HANDSHAKES: u64 = 20;
const MIB: u64 = 1 << 20;

fn fair() -> Weather {
    Weather::with(|weather| weather.delay = Duration::from_millis(15))
}

/// Runs one case, and panics if it fails.
pub(crate) async fn run(name: &str, stacks: Stacks) {
    let fair = fair();
    let bursts = Weather {
        burst: BURST,
        ..fair
    };
    let losing = |drop| Weather { drop, ..bursts };
    let corrupting = |corrupt| Weather { corrupt, ..bursts };
    match name {
        "handshake" => over(stacks, fair, 1, &[1024]).await,
        "transfer" => over(stacks, fair, 2, &[2 * MIB, 3 * MIB, 5 * MIB]).await,
        "longrtt" => {
            let weather = Weather::with(|weather| weather.delay = Duration::from_millis(750));
            over(stacks, weather, 3, &[1024]).await;
        }
        "chacha20" => chacha20(stacks).await,
        "multiplexing" => over(stacks, fair, 4, &[32; 2000]).await,
        "retry" => retry(stacks).await,
        "resumption" => resumption::resumes(stacks).await,
        "zerortt" => zero_rtt::asks_early(stacks).await,
        "blackhole" => blackhole(stacks).await,
        "keyupdate" => key_update(stacks).await,
        "ecn" => ecn(stacks).await,
        "amplificationlimit" => amplification_limit(stacks).await,
        "handshakeloss" => handshakes(stacks, losing(300)).await,
        "handshakecorruption" => handshakes(stacks, corrupting(300)).await,
        "transferloss" => over(stacks, losing(20), 5, &[2 * MIB]).await,
        "transfercorruption" => over(stacks, corrupting(20), 6, &[2 * MIB]).await,
        "ipv6" => ipv6(stacks).await,
        "rebind-port" => rebind(stacks, Ipv4Addr::LOCALHOST).await,
        "rebind-addr" => rebind(stacks, Ipv4Addr::new(127, 0, 0, 3)).await,
        "connectionmigration" => migration(stacks).await,
        other => panic!("no case {other}"),
    }
}

/// The client requests files of these lengths, each on its own stream, and must get every file
/// completely.
async fn download(client: &Connection, server: &Connection, lengths: &[u64]) {
    let serving = data::answer(server, lengths.len());
    let asking = async {
        let ask = |(seed, length): (u64, u64)| {
            let client = client.clone();
            tokio::spawn(async move {
                let (mut sender, mut receiver) = client.open_bi().await.unwrap();
                sender.write_all(&data::asking(seed, length)).await.unwrap();
                sender.finish().unwrap();
                (seed, data::receive(&mut receiver).await.unwrap())
            })
        };
        let tasks: Vec<_> = (0..).zip(lengths.iter().copied()).map(ask).collect();
        let mut received = Vec::new();
        for task in tasks {
            received.push(task.await.unwrap());
        }
        received
    };
    let (sent, received) = tokio::join!(serving, asking);
    assert!(sent == received, "files differ");
    let lengths_received = received.iter().map(|(_, file)| file.length);
    assert!(lengths_received.eq(lengths.iter().copied()));
}

async fn over(stacks: Stacks, weather: Weather, seed: u64, lengths: &[u64]) {
    // The case's own limit ends what takes too long.
    let options = Options::with(|options| options.idle = Some(PATIENCE_WITH_LOSS));
    let (_proxy, pair) = Pair::over(stacks, &options, weather, seed).await;
    download(&pair.client, &pair.server, lengths).await;
}

async fn chacha20(stacks: Stacks) {
    let options = Options::with(|options| options.chacha20 = true);
    let pair = Pair::new(stacks, &options).await;
    download(&pair.client, &pair.server, &[MIB]).await;
}

async fn retry(stacks: Stacks) {
    let options = Options::with(|options| options.retry = true);
    let server = Server::start(stacks.1, &options);
    let proxy = Proxy::start(server.address(), Weather::FAIR, 1).await;
    proxy.record();
    let pair = Pair::to(stacks.0, server, proxy.address(), &options).await;
    download(&pair.client, &pair.server, &[1024]).await;
    let is_retry = |passed: &Passed| {
        let decoded = PartialDecode::new(&passed.bytes, 8);
        !passed.from_client && matches!(decoded, Ok(PartialDecode::Retry(_)))
    };
    assert!(proxy.take_record().iter().any(is_retry), "no Retry");
}

/// Calls `then` once a quarter of a file has arrived.
async fn midway(pair: &Pair, length: u64, then: impl Future<Output = ()>) {
    let reached = AtomicBool::new(false);
    let note = |come| reached.store(come >= length / 4, Ordering::Relaxed);
    let transfer = data::pass(&pair.server, &pair.client, (7, length), note);
    let meanwhile = async {
        until(|| reached.load(Ordering::Relaxed)).await;
        then.await;
    };
    tokio::join!(transfer, meanwhile);
}

async fn blackhole(stacks: Stacks) {
    let fair = fair();
    let (proxy, pair) = Pair::over(stacks, &Options::default(), fair, 1).await;
    midway(&pair, 20 * MIB, async {
        proxy.set_weather(Weather { drop: 1000, ..fair });
        // This is the case itself: the public runner's blackhole lasts two seconds.
        tokio::time::sleep(Duration::from_secs(2)).await;
        proxy.set_weather(fair);
    })
    .await;
    assert!(proxy.toll().dropped > 0, "nothing was lost");
}

async fn key_update(stacks: Stacks) {
    let (_proxy, pair) = Pair::over(stacks, &Options::default(), Weather::FAIR, 1).await;
    midway(&pair, 8 * MIB, async { pair.client.update_keys() }).await;
    for side in [&pair.client, &pair.server] {
        if let Some(ours) = side.ours() {
            assert!(ours.stats().key_updates >= 1);
        }
    }
}

/// Loopback preserves ECN marks, but the proxy would not, so there is none in between.
async fn ecn(stacks: Stacks) {
    let pair = Pair::new(stacks, &Options::default()).await;
    midway(&pair, 4 * MIB, async {}).await;
    download(&pair.client, &pair.server, &[MIB]).await;
    for side in [&pair.client, &pair.server] {
        if let Some(ours) = side.ours() {
            until(|| match ours.path_report().ecn {
                EcnState::Capable => true,
                // RFC 9000 §13.4.2.1: from then on nothing is marked.
                EcnState::Failed(EcnFailure::Bleached) => stacks.0.misses_marks(),
                _ => false,
            })
            .await;
        }
    }
}

/// The server's certificates don't fit into three times the bytes that the client sends at first.
async fn amplification_limit(stacks: Stacks) {
    let options = Options::with(|options| options.identity = Identity::long());
    let server = Server::start(stacks.1, &options);
    let proxy = Proxy::start(server.address(), fair(), 1).await;
    proxy.record();
    let pair = Pair::to(stacks.0, server, proxy.address(), &options).await;
    download(&pair.client, &pair.server, &[1024]).await;
    let (mut asked, mut answered) = (0, 0);
    let mut limited = false;
    for passed in proxy.take_record() {
        if !passed.from_client {
            answered += passed.bytes.len();
            assert!(answered <= 3 * asked, "{answered} bytes for {asked}");
            limited |= answered + 1200 > 3 * asked;
        } else if has_handshake(&passed.bytes) {
            break;
        } else {
            asked += passed.bytes.len();
        }
    }
    assert!(limited, "the limit was never near: {answered} for {asked}");
}

/// Returns true if one of the datagram's packets is a Handshake packet, which proves the client's
/// address.
fn has_handshake(mut datagram: &[u8]) -> bool {
    while let Ok(PartialDecode::Protected(found)) = PartialDecode::new(datagram, 8) {
        match found.ty {
            PacketType::Handshake => return true,
            PacketType::OneRtt => return false,
            PacketType::Initial | PacketType::ZeroRtt => {}
        }
        datagram = datagram.get(found.len..).unwrap_or(&[]);
        if datagram.is_empty() {
            return false;
        }
    }
    false
}

/// Runs many handshakes, each followed by a short file, over separate paths.
async fn handshakes(stacks: Stacks, weather: Weather) {
    let run = |seed| tokio::spawn(over(stacks, weather, seed, &[1024]));
    let tasks: Vec<_> = (0..HANDSHAKES).map(run).collect();
    let mut failed = 0;
    for task in tasks {
        failed += u32::from(task.await.is_err());
    }
    let theirs = weather.corrupt > 0 && stacks.1.ends_what_begins_damaged();
    let allowed = if theirs { HANDSHAKES as u32 / 2 } else { 0 };
    assert!(failed <= allowed, "{failed} of {HANDSHAKES} failed");
}

async fn ipv6(stacks: Stacks) {
    let options = Options::default();
    let loopback = "[::1]:0".parse().unwrap();
    let server = Server::start_at(stacks.1, &options, loopback);
    let client = Client::start_at(stacks.0, loopback);
    let (ours, theirs) =
        tokio::try_join!(client.connect(server.address(), &options), server.accept()).unwrap();
    download(&ours, &theirs, &[MIB]).await;
}

/// The client's NAT assigns it another port, and possibly another address.
async fn rebind(stacks: Stacks, to: Ipv4Addr) {
    let fair = Weather::with(|weather| weather.delay = Duration::from_millis(5));
    let (proxy, pair) = Pair::over(stacks, &Options::default(), fair, 1).await;
    let before = pair.server.remote_address();
    midway(&pair, 20 * MIB, async { proxy.rebind_at(to) }).await;
    let after = pair.server.remote_address();
    assert!(before != after && after.ip() == to, "{before} {after}");
}

/// The client moves to another socket.
async fn migration(stacks: Stacks) {
    let pair = Pair::new(stacks, &Options::default()).await;
    let before = pair.server.remote_address();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    midway(&pair, 20 * MIB, async {
        pair.client_endpoint.rebind(socket);
    })
    .await;
    until(|| pair.server.remote_address() == to).await;
    assert_ne!(before, to);
    let ours = pair.client.ours().or(pair.server.ours()).cloned();
    let ours = Arc::new(ours.unwrap());
    until(|| ours.stats().migrations >= 1).await;
}
