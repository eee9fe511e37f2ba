//! Packets that any host can forge compete with a well-behaved flow, through a `vcp-router` on TUN
//! interfaces, between separate processes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pathmark::cc::{Request, XcpRequest};
use pathmark_shim::quick_start;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use serde_json::Value;

use crate::common::on_node::{client, figures, router, start};
use crate::common::pathmark;

/// 20 Mbit/s and 40 ms, with a buffer of 200 ms.
fn chain(controller: &str) -> Chain {
    let hop = Hop {
        forward: format!(
            "rate = \"20Mbit\"\ndelay = \"20ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ limit = \"500kB\" }}"
        ),
        reverse: "rate = \"20Mbit\"\ndelay = \"20ms\"".to_owned(),
    };
    Chain::new(router(), 1500, &[hop]).unwrap()
}

/// Returns the goodput in Mbit/s of a download of `time`, while `attack` runs with a socket of the
/// sending host. The flag passed to it is set when the download ends.
fn download(
    controller: &str,
    law: &str,
    time: Duration,
    attack: impl FnOnce(&UdpSocket, &AtomicBool) + Send,
) -> f64 {
    let chain = chain(controller);
    let listen = format!("{SENDER}:4433");
    let server = ["perf", "server", "--listen", &listen, "--cc", law];
    let (_server, _) = start(&chain.sender, &server);
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    // No thread reads this socket, which drops packets when its buffer is full.
    let sink = chain.receiver.udp(SocketAddr::new(RECEIVER, 9)).unwrap();
    let forger = chain.sender.udp(any).unwrap();
    forger.connect(sink.local_addr().unwrap()).unwrap();
    let seconds = format!("{}s", time.as_secs());
    let perf = ["perf", "client", &listen, "--insecure", "--time", &seconds];
    let perf = pathmark(&[&perf[..], &["--cc", law, "--json"]].concat());
    let client = client(&chain.receiver, perf);
    let over = AtomicBool::new(false);
    let figures: Value = thread::scope(|scope| {
        scope.spawn(|| attack(&forger, &over));
        let figures = figures(client);
        over.store(true, Ordering::Relaxed);
        figures
    });
    figures["goodput_down_bps"].as_f64().unwrap() / 1e6
}

fn vcp(rtt: Duration) -> Vec<u8> {
    let mut request = Request::default();
    request.bise = true;
    request.min_rtt = Some(rtt);
    vcp_proto::Repr::initial(&request, true).emit().to_vec()
}

/// Returns an XCP header with this inter-packet time in 2^-40 s, which requests everything or gives
/// everything back.
fn xcp(rtt: Duration, x: u64, delta: i64) -> Vec<u8> {
    let request = XcpRequest {
        rtt_us: u32::try_from(rtt.as_micros()).unwrap(),
        x,
        delta,
        covers: u16::MAX,
        window: 0,
        packet: 1500,
    };
    let form = xcp_proto::Form::V4;
    let mut shim = vec![0; form.len()];
    let repr = xcp_proto::Repr::initial(form, Some(&request), 64);
    repr.emit(&mut shim).unwrap();
    shim
}

/// Returns the most harmful shims: with the longest and shortest times, requesting everything or
/// less than nothing.
fn worst() -> Vec<Vec<u8>> {
    let (long, short) = (Duration::from_secs(80), Duration::from_micros(100));
    let question = quick_start::Repr {
        function: quick_start::Function::Request,
        rate: quick_start::Rate::MAX,
        qs_ttl: 64,
        rtt: quick_start::RttOctave::ceil(80_000_000),
        nonce: 1,
    };
    vec![
        vcp(long),
        vcp(short),
        xcp(long, 1, 1 << 56),
        xcp(short, u64::MAX >> 8, -(1 << 56)),
        xcp(long, u64::MAX >> 8, 1 << 56),
        question.emit().to_vec(),
    ]
}

/// Sends the shims of [`worst`] in turn, waiting for `pause` before each shim.
fn now_and_then(socket: &UdpSocket, over: &AtomicBool, pause: Duration) {
    let worst = worst();
    for shim in worst.iter().cycle() {
        let next = Instant::now() + pause;
        while Instant::now() < next {
            if over.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let mut datagram = shim.clone();
        datagram.resize(1400, 0);
        socket.send(&datagram).unwrap();
    }
}

#[test]
fn forged_packets_cost_nothing() {
    let time = Duration::from_secs(8);
    for (controller, law) in [("vcp+bise", "vcp+bise+wlte"), ("xcp", "xcp")] {
        let alone = download(controller, law, time, |_, _| {});
        let forged = download(controller, law, time, |socket, over| {
            now_and_then(socket, over, Duration::from_secs(1));
        });
        println!("{law}: {alone:.2} Mbit/s, {forged:.2} with one a second");
        assert!(forged >= 0.95 * alone, "{law}: {forged} of {alone}");
    }
}
