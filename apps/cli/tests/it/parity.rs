//! The emulator compared with reality: the same scenario with a virtual clock, and in real time
//! through router processes on TUN interfaces.
//!
//! If the machine forbids namespaces or TUN, these tests fail with the reason, because there is no
//! other way to compare them.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::at_once;
use crate::common::endpoints::undisturbed;
use crate::common::on_node::router;
use crate::quick_start::Served;
use futures_util::future::join_all;
use pathmark::cc::Algorithm;
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, ServerConfig};
use pathmark_cli::demo::bed::links;
use pathmark_emulator::Scenario;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::UdpSocket;
use tokio::time::interval;

/// The keys of both ports of the demonstration's path. The interval is fixed: a round trip of 401
/// ms is just below a boundary of the classes that `auto` uses, and on a machine under load the
/// first sample exceeds it.
const PORT: &str = "rate = \"10Mbit\"\ndelay = \"200ms\"\n";
const LAW: &str = "controller = \"vcp+bise[t_rho=1s]\"\n";
/// With `auto`, where all five request a starting rate at once, the mean goodput was 1.3 and 1.4
/// Mbit/s over TUN, and 0.9 in the emulator.
const ALGORITHM: &str = "vcp+bise+wlte";
const ALPN: &[u8] = b"parity";
const FILES: usize = 5;
const BYTES: usize = 1_000_000;
/// Packets of 1500 bytes at 2 Mbit/s against the files.
const REVERSE_EVERY: Duration = Duration::from_millis(6);

/// Mean seconds until a file is complete, and the mean of the files' goodputs in bit/s.
#[derive(Debug)]
struct Means {
    completion: f64,
    goodput: f64,
}

impl Means {
    fn new(seconds: &[f64]) -> Self {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / FILES as f64;
        Self {
            completion: mean(&mut seconds.iter().copied()),
            goodput: mean(&mut seconds.iter().map(|s| BYTES as f64 * 8.0 / s)),
        }
    }
}

/// Sends the files through a router process, while nothing is dropped.
async fn real(loss: &str, reverse: bool) -> Means {
    let hop = Hop {
        forward: format!("{PORT}{LAW}{loss}queue = {{ rtt = \"400ms\" }}\n"),
        reverse: format!("{PORT}queue = {{ rtt = \"400ms\" }}\n"),
    };
    let chain = Chain::new(router(), 1500, &[hop]).unwrap();
    let against = reverse.then(|| tokio::spawn(datagrams(&chain)));
    let begun = Instant::now();
    let files = (0..FILES).map(|_| transfer(&chain, begun));
    let seconds = join_all(files).await;
    if let Some(against) = against {
        against.abort();
    }
    assert_eq!(links(&chain, 0).unwrap()[0].drops, 0);
    Means::new(&seconds)
}

/// Sends a file in packets of the emulator's size, and returns the seconds until it has arrived.
async fn transfer(chain: &Chain, begun: Instant) -> f64 {
    let made = rcgen::generate_simple_self_signed(["receiver".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let trust = TlsClientConfig::new(Trust::Pin(tls.pin().unwrap()), &[ALPN]).unwrap();
    let mut transport = pathmark::transport_config(&Algorithm::parse(ALGORITHM).unwrap());
    (transport.initial_mtu, transport.max_mtu) = (1472, Some(1472));
    let transport = Arc::new(transport);
    let socket = chain.receiver.udp(SocketAddr::new(RECEIVER, 0)).unwrap();
    let at = socket.local_addr().unwrap();
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let receiver = Endpoint::from_socket(socket, Some(config)).unwrap();
    let receiving = async {
        let incoming = receiver.accept().await.unwrap();
        let connection = incoming.accept().unwrap().await.unwrap();
        let mut stream = connection.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(BYTES).await.unwrap().len(), BYTES);
        (begun.elapsed().as_secs_f64(), connection)
    };
    let socket = chain.sender.udp(SocketAddr::new(SENDER, 0)).unwrap();
    let sender = Endpoint::from_socket(socket, None).unwrap();
    let config = ClientConfig::with_transport(Arc::new(trust), transport);
    let sending = async {
        let connecting = sender.connect_with(config, at, "receiver").unwrap();
        let connection = connecting.await.unwrap();
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(&vec![7; BYTES]).await.unwrap();
        stream.finish().unwrap();
        assert_eq!(stream.stopped().await, Ok(None));
    };
    let ((), (seconds, _)) = tokio::join!(sending, receiving);
    seconds
}

/// Returns what sends datagrams against the files.
fn datagrams(chain: &Chain) -> impl Future<Output = ()> + use<> {
    let to = SocketAddr::new(SENDER, 5000);
    let sink = chain.sender.udp(to).unwrap();
    let from = chain.receiver.udp(SocketAddr::new(RECEIVER, 0)).unwrap();
    from.set_nonblocking(true).unwrap();
    async move {
        let from = UdpSocket::from_std(from).unwrap();
        let mut ticks = interval(REVERSE_EVERY);
        loop {
            ticks.tick().await;
            // The queue never fills, and nobody reads.
            let _ = (from.send_to(&[0; 1472], to).await, &sink);
        }
    }
}

/// The same in the emulator.
fn emulated(loss: &str, reverse: bool) -> Means {
    let mut text = format!(
        "duration = \"30s\"\n[[link]]\nname = \"bottleneck\"\nfrom = \"S\"\nto = \"D\"\n\
         duplex = true\n{PORT}{LAW}{loss}\n[[flow]]\nname = \"file\"\nfrom = \"S\"\nto = \"D\"\n\
         algorithm = \"{ALGORITHM}\"\ncount = {FILES}\nbytes = {BYTES}\n"
    );
    if reverse {
        text += "[[flow]]\nname = \"reverse\"\nfrom = \"D\"\nto = \"S\"\n\
                 algorithm = \"udp\"\nrate = \"2Mbit\"\n";
    }
    let scenario = Scenario::parse(Path::new("parity.toml"), &text).unwrap();
    let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    assert_eq!(result.links[0].drops, 0);
    let files = result.flows.iter().take(FILES);
    let seconds: Vec<f64> = files.map(|file| file.completion_s.unwrap()).collect();
    Means::new(&seconds)
}

async fn compare(loss: &str, reverse: bool) {
    let (real, emulated) = (real(loss, reverse).await, emulated(loss, reverse));
    println!("{real:?}, emulated {emulated:?}");
    let off = |real: f64, emulated: f64| (real / emulated - 1.0).abs();
    assert!(off(real.goodput, emulated.goodput) <= 0.05);
    assert!(off(real.completion, emulated.completion) <= 0.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_over_a_wireless_hop_take_as_long_as_emulated() {
    let loss = "loss = { kind = \"bernoulli\", per = 0.003 }\n";
    undisturbed(async || compare(loss, false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_against_reverse_traffic_take_as_long_as_emulated() {
    undisturbed(async || compare("", true).await);
}

/// A satellite link whose ports answer, with or without plain routers in front.
struct Satellite {
    controller: &'static str,
    plain_hops: bool,
    bytes: usize,
}

impl Satellite {
    /// Returns the keys of a port toward the client and of one in the other direction.
    fn ports(&self) -> [String; 2] {
        let port = |rate: &str| {
            format!(
                "rate = \"{rate}\"\ndelay = \"150ms\"\ncontroller = \"{}\"\n\
                 queue = {{ rtt = \"300ms\" }}\n",
                self.controller
            )
        };
        [port("20Mbit"), port("4Mbit")]
    }

    /// Returns the seconds from the end of the handshake to the end of a file, using `serve` and
    /// `get`. A router without a law and the kernel behind it are two plain hops.
    fn real(&self) -> f64 {
        let [forward, reverse] = self.ports();
        let plain = || "rate = \"1Gbit\"\ncontroller = \"none\"\n".to_owned();
        let plain = Hop {
            forward: plain(),
            reverse: plain(),
        };
        let satellite = Hop { forward, reverse };
        let hops = [plain, satellite];
        let hops = &hops[usize::from(!self.plain_hops)..];
        let chain = Chain::new(router(), 1500, hops).unwrap();
        let served = Served::by(&chain, "auto", self.bytes);
        let figures = served.get("auto", Path::new("/dev/null"));
        println!("{}", figures["controllers"]);
        figures["seconds"].as_f64().unwrap()
    }

    /// Returns the same in the emulator, whose flows begin with the handshake.
    fn emulated(&self) -> f64 {
        let link = |name: &str, ends: [&str; 2], keys: &str| {
            let [from, to] = ends;
            format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n")
        };
        let [forward, reverse] = self.ports();
        let plain = "rate = \"1Gbit\"\ndelay = \"0ms\"\n";
        let server = if self.plain_hops { "S" } else { "R" };
        let text = [
            "duration = \"60s\"\n".to_owned(),
            link("plain", ["S", "P"], plain),
            link("plain 2", ["P", "R"], plain),
            link("plain.reverse", ["P", "S"], plain),
            link("plain 2.reverse", ["R", "P"], plain),
            link("forward", ["R", "D"], &forward),
            link("reverse", ["D", "R"], &reverse),
            format!(
                "[[flow]]\nname = \"get\"\nfrom = \"{server}\"\nto = \"D\"\n\
                 algorithm = \"auto\"\napp = \"http\"\nbytes = {}\n",
                self.bytes
            ),
        ];
        let scenario = Scenario::parse(Path::new("satellite.toml"), &text.concat()).unwrap();
        let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
        let flow = &result.flows[0];
        flow.completion_s.unwrap() - flow.rtt_ms.unwrap().min / 1e3
    }
}

/// Downloads take as long as in the emulator if routers answer, even if other routers on the path
/// don't.
#[test]
fn downloads_behind_plain_hops_take_as_long_as_emulated() {
    let kinds = [
        ("vcp+bise", false),
        ("vcp+bise", true),
        ("xcp", false),
        ("xcp", true),
    ];
    at_once(kinds, |(controller, plain_hops)| {
        for bytes in [4_000_000, 200_000] {
            let path = Satellite {
                controller,
                plain_hops,
                bytes,
            };
            let emulated = path.emulated();
            pathmark_testbed::undisturbed(|| {
                let real = path.real();
                println!("{controller}, {plain_hops}: {bytes} bytes in {real:.2} s, {emulated:.2}");
                assert!((0.9..1.1).contains(&(real / emulated)), "{real} {emulated}");
            });
        }
    });
}
