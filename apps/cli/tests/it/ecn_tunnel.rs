//! VCP's code in the ECN field, over real sockets and TUN interfaces, through a tunnel that only
//! copies the traffic class (DSCP and ECN) between inner and outer header, as an encryption gateway
//! does.
//!
//! ```text
//!   application ── tun9 ── gateway ══ IP in IP ══ vcp-router ══ gateway ── tun9 ── application
//! ```
//!
//! The same through a tunnel of the kernel (VXLAN), whose ends treat the field as in RFC 6040.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pathmark::Connection;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};

use crate::common::encapsulation::{CodePoints, Exit, gateway, kernel_gateway};
use crate::common::endpoints::Endpoints;
use crate::common::on_node::router;

const INNER_SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const INNER_RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const RTT: Duration = Duration::from_millis(100);
const MTU: u32 = 1500;
/// IP in IP takes 20 bytes.
const INNER_MTU: u32 = MTU - 20;
/// VXLAN takes 50 bytes (RFC 7348 §5).
const KERNEL_MTU: u32 = MTU - 50;

/// The tunnel that carries packets past the router.
#[derive(Clone, Copy, Debug)]
enum Tunnel {
    /// IP in IP by threads of this test.
    Own(Exit),
    /// VXLAN by the kernel, which copies the traffic class into the outer header.
    Kernel,
}

fn chain() -> Chain {
    let port = |controller: &str| {
        format!(
            "rate = \"10Mbit\"\ndelay = \"{}ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"100ms\" }}\n",
            RTT.as_millis() / 2
        )
    };
    // Tunnels between the two gateways carry VCP's code in the outer header.
    let ecn = format!("\n[[ecn]]\nprefix = \"{RECEIVER}/32\"\n");
    let hop = Hop {
        forward: port("vcp"),
        reverse: port("none") + &ecn,
    };
    Chain::new(router(), MTU, &[hop]).unwrap()
}

/// A server on the sending side and a client on the other, through a tunnel or without one.
struct Path {
    endpoints: Endpoints,
    /// Code points of packets that entered the tunnel at either end.
    seen: Arc<CodePoints>,
    _chain: Chain,
}

impl Path {
    fn new(algorithm: &str, tunnel: Option<Tunnel>) -> Self {
        Self::with_dscp(algorithm, tunnel, 0)
    }

    fn with_dscp(algorithm: &str, tunnel: Option<Tunnel>, dscp: u8) -> Self {
        let chain = chain();
        let seen = Arc::new([const { AtomicU64::new(0) }; 64]);
        let (sender, receiver) = ((INNER_SENDER, SENDER), (INNER_RECEIVER, RECEIVER));
        match tunnel {
            None => {}
            Some(Tunnel::Own(exit)) => {
                let (here, there) = (&chain.sender, &chain.receiver);
                gateway(here, sender, receiver, INNER_MTU, Exit::Copy, &seen);
                gateway(there, receiver, sender, INNER_MTU, exit, &seen);
            }
            Some(Tunnel::Kernel) => {
                kernel_gateway(&chain.sender, sender, RECEIVER, KERNEL_MTU);
                kernel_gateway(&chain.receiver, receiver, SENDER, KERNEL_MTU);
            }
        }
        let ends = match tunnel {
            None => [SENDER, RECEIVER],
            Some(_) => [INNER_SENDER, INNER_RECEIVER],
        };
        Self {
            endpoints: Endpoints::new(&chain, ends, algorithm, dscp),
            seen,
            _chain: chain,
        }
    }

    /// Starts a download of `bytes` bytes. Returns its connection and a task that counts the
    /// received bytes.
    async fn download(&self, bytes: usize) -> (Connection, tokio::task::JoinHandle<usize>) {
        let (ours, theirs) = self.endpoints.connect().await;
        let sender = theirs.clone();
        tokio::spawn(async move {
            let mut stream = sender.open_uni().await.unwrap();
            // The test may end before the transfer.
            if stream.write_all(&vec![7; bytes]).await.is_ok() {
                let _ = stream.finish();
            }
        });
        let receiving = tokio::spawn(async move {
            let mut stream = ours.accept_uni().await.unwrap();
            stream.read_to_end(bytes).await.map_or(0, |data| data.len())
        });
        (theirs, receiving)
    }

    /// Returns the mean completion time in seconds of three files of `bytes` that start together.
    async fn mean_completion(&self, bytes: usize) -> f64 {
        let begun = now();
        let file = || async {
            let (connection, receiving) = self.download(bytes).await;
            assert_eq!(receiving.await.unwrap(), bytes);
            // The server accepts the connections in any order, so none may close before all are
            // done.
            (connection, begun.elapsed().as_secs_f64())
        };
        let (a, b, c) = tokio::join!(file(), file(), file());
        (a.1 + b.1 + c.1) / 3.0
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test over real links owns its clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// Behind a gateway, only DSCP tells a router whose ECN field it may write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_packet_has_the_code_point_and_the_codes_arrive_with_it() {
    let path = Path::with_dscp("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Copy)), 46);
    let (sender, receiving) = path.download(1_000_000).await;
    assert_eq!(receiving.await.unwrap(), 1_000_000);
    let report = sender.path_report();
    assert!(report.controller.explicit, "{report:?}");
    for (dscp, packets) in path.seen.iter().enumerate() {
        let packets = packets.load(Ordering::Relaxed);
        assert_eq!(packets > 0, dscp == 46, "{packets} with {dscp}");
    }
}

/// The sender follows the codes that the router wrote into the outer header.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn codes_get_through_a_tunnel_of_the_kernels() {
    let path = Path::with_dscp("vcp[carrier=ecn]", Some(Tunnel::Kernel), 46);
    let (sender, receiving) = path.download(2_000_000).await;
    assert_eq!(receiving.await.unwrap(), 2_000_000);
    let report = sender.path_report();
    assert!(report.controller.explicit, "{report:?}");
    assert_eq!(report.controller.ruling, "vcp", "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_take_as_long_as_with_a_shim() {
    const BYTES: usize = 1_600_000;
    let shim = Path::new("vcp", None);
    let copied = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Copy)));
    let by_rfc = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(Exit::Rfc6040)));
    let kernel = Path::new("vcp[carrier=ecn]", Some(Tunnel::Kernel));
    let (shim, copied, by_rfc, kernel) = tokio::join!(
        shim.mean_completion(BYTES),
        copied.mean_completion(BYTES),
        by_rfc.mean_completion(BYTES),
        kernel.mean_completion(BYTES)
    );
    println!(
        "shim {shim:.2} s, ECN copied {copied:.2} s, by RFC 6040 {by_rfc:.2} s, by the kernel's \
         tunnel {kernel:.2} s"
    );
    for tunnel in [copied, by_rfc, kernel] {
        assert!(tunnel <= 1.1 * shim, "{tunnel} {shim}");
    }
}

/// Returns for how many of its smoothed round trips the sender followed codes, starting with the
/// receiver's first feedback.
async fn believed(exit: Exit) -> f64 {
    let path = Path::new("vcp[carrier=ecn]", Some(Tunnel::Own(exit)));
    let (sender, receiving) = path.download(100_000_000).await;
    let (mut first, mut believed) = (None, 0.0f64);
    let begun = now();
    // The report is sampled, because no event reports its changes.
    while begun.elapsed() < 20 * RTT {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let report = sender.path_report();
        if sender.stats().feedback_received > 0 {
            let first = *first.get_or_insert_with(now);
            if report.controller.explicit {
                let rtt = report.smoothed_rtt.expect("measured");
                believed = first.elapsed().as_secs_f64() / rtt.as_secs_f64();
            }
        }
    }
    receiving.abort();
    let report = sender.path_report();
    assert!(first.is_some(), "{exit:?}: feedback");
    assert_eq!(report.controller.ruling, "cubic", "{exit:?}: {report:?}");
    believed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bleached_and_constant_fields_are_found_within_three_round_trips() {
    let exits = [0, 1, 2, 3].map(Exit::Always);
    let [a, b, c, d] = exits.map(believed);
    let (bleached, low, high, over) = tokio::join!(a, b, c, d);
    println!(
        "round trips of belief: {bleached:.2} bleached, {low:.2}, {high:.2}, {over:.2} constant"
    );
    for rounds in [bleached, low, high, over] {
        assert!(rounds <= 3.0, "{rounds}");
    }
}
