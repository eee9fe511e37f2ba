//! The facts that a sender learns about a path from kernels: hops that don't mark, by using IP's
//! TTL, and sizes that an interface doesn't carry. Over real sockets, TUN interfaces and routers.

use pathmark::Connection;
use pathmark::cc::{FallbackReason, Feedback};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};

use crate::common::endpoints::{Endpoints, undisturbed};
use crate::common::on_node::router;

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
    let endpoints = Endpoints::new(&chain, [SENDER, RECEIVER], algorithm, 0);
    endpoints.send(BYTES).await.1
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
    undisturbed(async || {
        for law in ["vcp", "xcp"] {
            let marked = unmarked_hop(law, &[law]).await;
            assert_eq!(marked, Some(false), "{law}");
            let kernel_between = unmarked_hop(law, &[law, law]).await;
            assert_eq!(kernel_between, Some(true), "{law}");
            let plain = unmarked_hop(law, &["none"]).await;
            assert_eq!(plain, Some(true), "{law}");
        }
    });
}

/// Which controller the sender finally obeys, and why not that of the routers. Past a plain hop, it
/// obeys routers once one was full. XCP-i routers without an estimate report this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_routers_do_not_steer() {
    undisturbed(async || {
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
            let uncounted = matches!(report.feedback, Some(Feedback::Xcp(xcp)) if xcp.uncounted);
            assert_eq!(uncounted, !estimated, "{algorithm}, {controllers:?}");
        }
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
