//! The facts that a sender learns about a path from kernels: hops that don't mark, by using IP's
//! TTL, and sizes that an interface doesn't carry. Over real sockets, TUN interfaces and routers.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark::cc::{Algorithm, FallbackReason, Feedback};
use pathmark::tls::{TlsClientConfig, TlsServerConfig, Trust};
use pathmark::{ClientConfig, Connection, Endpoint, ServerConfig};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use pathmark_testbed::undisturbed;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::common::on_node::router;

const ALPN: &[u8] = b"path-facts";
const BYTES: usize = 500_000;

fn hop(controller: &str) -> Hop {
    let port = |controller: &str| {
        format!("rate = \"50Mbit\"\ndelay = \"5ms\"\ncontroller = \"{controller}\"\n")
    };
    Hop {
        forward: port(controller),
        reverse: port("none"),
    }
}

/// Returns a sender that uses `algorithm` and has sent a file through routers with these
/// controllers, over interfaces with this MTU. Between two routers, a kernel forwards the packets.
async fn sender(algorithm: &str, mtu: u32, controllers: &[&str]) -> Connection {
    let hops: Vec<_> = controllers.iter().map(|name| hop(name)).collect();
    let chain = Chain::new(router(), mtu, &hops).unwrap();
    let made = rcgen::generate_simple_self_signed(["sender".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = TlsServerConfig::new(vec![made.cert.der().clone()], key.into(), &[ALPN]).unwrap();
    let trust = Trust::Pin(tls.pin().unwrap());
    let transport = pathmark::transport_config(&Algorithm::parse(algorithm).unwrap());
    let transport = Arc::new(transport);
    let config = ServerConfig::with_transport(Arc::new(tls), Arc::clone(&transport));
    let at = SocketAddr::new(SENDER, 4433);
    let server = Endpoint::from_socket(chain.sender.udp(at).unwrap(), Some(config)).unwrap();
    let socket = chain.receiver.udp(SocketAddr::new(RECEIVER, 0)).unwrap();
    let client = Endpoint::from_socket(socket, None).unwrap();
    let tls = TlsClientConfig::new(trust, &[ALPN]).unwrap();
    let config = ClientConfig::with_transport(Arc::new(tls), transport);
    let connecting = client.connect_with(config, at, "sender").unwrap();
    let accepting = async { server.accept().await.unwrap().accept().unwrap().await };
    let (receiver, sender) = tokio::try_join!(connecting, accepting).unwrap();
    let sending = async {
        let mut stream = sender.open_uni().await.unwrap();
        stream.write_all(&vec![7; BYTES]).await.unwrap();
        stream.finish().unwrap();
        assert_eq!(stream.stopped().await, Ok(None));
    };
    let receiving = async {
        let mut stream = receiver.accept_uni().await.unwrap();
        assert_eq!(stream.read_to_end(BYTES).await.unwrap().len(), BYTES);
    };
    tokio::join!(sending, receiving);
    sender
}

/// Returns `unmarked_hop` of the sender's latest feedback.
async fn unmarked_hop(algorithm: &str, controllers: &[&str]) -> Option<bool> {
    let sender = sender(algorithm, 1500, controllers).await;
    match sender.path_report().feedback {
        Some(Feedback::Vcp(feedback)) => feedback.unmarked_hop,
        Some(Feedback::Xcp(feedback)) => feedback.unmarked_hop,
        other => panic!("{algorithm}, {controllers:?}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hops_that_do_not_mark_show_in_the_ttl() {
    block_in_place(|| {
        undisturbed(|| {
            Handle::current().block_on(async {
                for (algorithm, controller) in [("vcp", "vcp"), ("xcp", "xcp")] {
                    let marked = unmarked_hop(algorithm, &[controller]).await;
                    assert_eq!(marked, Some(false), "{algorithm}");
                    let kernel_between = unmarked_hop(algorithm, &[controller, controller]).await;
                    assert_eq!(kernel_between, Some(true), "{algorithm}");
                    let plain = unmarked_hop(algorithm, &["none"]).await;
                    assert_eq!(plain, Some(true), "{algorithm}");
                }
            });
        });
    });
}

/// Which controller the sender finally obeys, and why not that of the routers. Past a plain hop, it
/// obeys routers once one was full. XCP-i routers without an estimate report this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_routers_do_not_steer() {
    block_in_place(|| {
        undisturbed(|| {
            Handle::current().block_on(async {
                let no_answer = Some(FallbackReason::NoAnswer);
                for (algorithm, controllers, expected, estimated) in [
                    ("xcp", &["xcp"][..], None, true),
                    ("xcp", &["none"], no_answer, true),
                    ("vcp", &["none"], no_answer, true),
                    ("xcp", &["xcp", "xcp"], None, true),
                    ("xcp-i", &["xcp-i", "xcp-i"], None, false),
                ] {
                    let report = sender(algorithm, 1500, controllers).await.path_report();
                    let law = report.controller;
                    assert_eq!(law.fallback, expected, "{algorithm}, {controllers:?}");
                    assert_eq!(law.explicit, expected.is_none());
                    let uncounted =
                        matches!(report.feedback, Some(Feedback::Xcp(xcp)) if xcp.uncounted);
                    assert_eq!(uncounted, !estimated, "{algorithm}, {controllers:?}");
                }
            });
        });
    });
}

/// On an interface of 1300 bytes, 1272 fit. Since the kernel immediately refuses larger packets,
/// each size that is too large is only tried once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_that_the_interface_does_not_carry_are_tried_once() {
    let sender = sender("cubic", 1300, &["none"]).await;
    let (mtu, lost) = (sender.path_report().mtu, sender.stats().mtu_probes_lost);
    assert!((1256..=1272).contains(&mtu), "{mtu}");
    assert!(lost <= 5, "{lost}");
}
