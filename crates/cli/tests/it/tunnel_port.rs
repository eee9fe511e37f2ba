//! Ports of `vcp-router` in front of a tunnel, over real interfaces: a router in the middle that
//! only sees outer packets controls a flow inside.
//!
//! ```text
//!   application ── gateway ── entry ── wire ── middle ── wire ── exit ── gateway ── application
//!                     ╚═════════ IP in IP, or VXLAN by the kernel ══════════╝
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pathmark::cc::{Algorithm, FallbackReason};
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Endpoint, PathReport, ServerConfig};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use pathmark_testbed::undisturbed;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::common::encapsulation::{Exit, gateway, kernel_gateway};
use crate::common::on_node::router;

const ALPN: &[u8] = b"tunnel-port";
const INNER_SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const INNER_RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const MTU: u32 = 1500;
/// The tunnel's packets have room for their own headers, a UDP header and the longest shim.
const INNER_MTU: u32 = 1380;
const BYTES: usize = 4_000_000;
/// Index of the router in the middle, and its identity.
const MIDDLE: usize = 1;
const MIDDLE_ID: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tunnel {
    IpInIp,
    Vxlan,
}

impl Tunnel {
    fn key(self) -> &'static str {
        match self {
            Self::IpInIp => "tunnel = \"ipip\"\n",
            Self::Vxlan => "tunnel = \"vxlan\"\n",
        }
    }
}

/// The results of a download through the tunnel.
struct Run {
    report: PathReport,
    /// Mean queue of the middle router while it was not empty, in milliseconds.
    queue_ms: f64,
    /// Packets that the middle router dropped.
    drops: u64,
    /// `packets.tunnel` of the entry's and the exit's port.
    ends: [Value; 2],
}

fn links(chain: &Chain, router: usize) -> Value {
    let show = Command::new(env!("CARGO_BIN_EXE_pathmark"))
        .args(["vcp-router", "show", "--json", "--socket"])
        .arg(chain.control(router))
        .output()
        .unwrap();
    let state: Value = serde_json::from_slice(&show.stdout).unwrap();
    state["links"].clone()
}

/// If `ports` is true, the ports of entry and exit have the key `tunnel`.
async fn run(tunnel: Tunnel, ports: bool, algorithm: &str, law: &str) -> Run {
    let key = if ports { tunnel.key() } else { "" };
    let narrow = format!(
        "rate = \"10Mbit\"\ndelay = \"20ms\"\ncontroller = \"{law}\"\n\
         queue = {{ kind = \"droptail\", limit = \"100KiB\" }}\n"
    );
    let hop = |forward: &str, reverse: &str| Hop {
        forward: forward.to_owned(),
        reverse: reverse.to_owned(),
    };
    let hops = [
        hop(key, ""),
        hop(&narrow, "delay = \"20ms\"\n"),
        hop("", key),
    ];
    let chain = Chain::new(router(), MTU, &hops).unwrap();
    let (sender, receiver) = ((INNER_SENDER, SENDER), (INNER_RECEIVER, RECEIVER));
    match tunnel {
        Tunnel::IpInIp => {
            let seen = Arc::new([const { AtomicU64::new(0) }; 64]);
            let (here, there) = (&chain.sender, &chain.receiver);
            gateway(here, sender, receiver, INNER_MTU, Exit::Copy, &seen);
            gateway(there, receiver, sender, INNER_MTU, Exit::Copy, &seen);
        }
        Tunnel::Vxlan => {
            kernel_gateway(&chain.sender, sender, RECEIVER, INNER_MTU);
            kernel_gateway(&chain.receiver, receiver, SENDER, INNER_MTU);
        }
    }
    let made = rcgen::generate_simple_self_signed(["sender".to_owned()]).unwrap();
    let secret = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], secret.into(), &[ALPN]).unwrap();
    let trust = Trust::Pin(tls.pin().unwrap());
    let transport = Arc::new(pathmark::transport_config(
        &Algorithm::parse(algorithm).unwrap(),
    ));
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let at = SocketAddr::new(INNER_SENDER, 4433);
    let server = Endpoint::from_socket(chain.sender.udp(at).unwrap(), Some(config)).unwrap();
    let socket = chain
        .receiver
        .udp(SocketAddr::new(INNER_RECEIVER, 0))
        .unwrap();
    let client = Endpoint::from_socket(socket, None).unwrap();
    let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let connecting = client.connect_with(config, at, "sender").unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (ours, theirs) = tokio::try_join!(connecting, accepting).unwrap();
    let sending = async {
        let mut stream = theirs.open_uni().await.unwrap();
        stream.write_all(&vec![7; BYTES]).await.unwrap();
        stream.finish().unwrap();
        assert_eq!(stream.stopped().await, Ok(None));
    };
    let receiving = async {
        let mut stream = ours.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(BYTES).await.unwrap().len(), BYTES);
    };
    tokio::join!(sending, receiving);
    let of = |router, name| {
        let links = links(&chain, router);
        let mut links = links.as_array().unwrap().iter();
        links.find(|link| link["name"] == name).unwrap().clone()
    };
    let middle = of(MIDDLE, "forward");
    Run {
        report: theirs.path_report(),
        queue_ms: middle["queue_ms"]["mean_nonempty"].as_f64().unwrap(),
        drops: middle["drops"].as_u64().unwrap(),
        ends: [(0, "forward"), (2, "reverse")]
            .map(|(router, port)| of(router, port)["packets"]["tunnel"].clone()),
    }
}

/// With tunnel ports, the router in the middle controls the flow inside, and its queue stays short.
/// Without them, the sender gets no answer, and fills the queue as a sender without shims does.
fn the_middle_controls_flows_inside(tunnel: Tunnel) {
    block_in_place(|| {
        undisturbed(|| {
            Handle::current().block_on(async {
                let cubic = run(tunnel, true, "cubic", "vcp").await;
                println!(
                    "{tunnel:?} cubic: {:.1} ms, {} dropped",
                    cubic.queue_ms, cubic.drops
                );
                for law in ["vcp", "xcp"] {
                    let with = run(tunnel, true, law, law).await;
                    let without = run(tunnel, false, law, law).await;
                    println!(
                        "{tunnel:?} {law}: {:.1} ms, {} dropped; without ports {:.1} ms, {}",
                        with.queue_ms, with.drops, without.queue_ms, without.drops
                    );
                    let controller = with.report.controller;
                    assert!(controller.explicit, "{law}: {:?}", with.report);
                    assert_eq!(controller.ruling, law);
                    if law == "vcp" {
                        // The latest XCP header only names a router if this router lowered it.
                        assert_eq!(with.report.router, Some(MIDDLE_ID));
                    }
                    assert!(2.0 * with.queue_ms < cubic.queue_ms, "{law}");
                    let [entry, exit] = &with.ends;
                    for count in [&entry["copied"], &exit["merged"]] {
                        assert!(count.as_u64().unwrap() > 100, "{entry} {exit}");
                    }
                    for end in [entry, exit] {
                        assert_eq!(end["refused"], 0, "{entry} {exit}");
                    }
                    let controller = without.report.controller;
                    assert_eq!(controller.fallback, Some(FallbackReason::NoAnswer), "{law}");
                    assert_eq!(without.ends, [Value::Null, Value::Null]);
                }
            });
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ip_in_ip() {
    the_middle_controls_flows_inside(Tunnel::IpInIp);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vxlan() {
    the_middle_controls_flows_inside(Tunnel::Vxlan);
}
