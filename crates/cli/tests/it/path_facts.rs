//! The facts that a sender learns about a path from IP's TTL, which kernels decrement: hops that
//! don't mark. Over real sockets, TUN interfaces and routers.

use pathmark::PathReport;
use pathmark::cc::{Algorithm, FallbackReason, Feedback};
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};

use crate::common::ends::{Ends, undisturbed};
use crate::common::on_node::router;

fn hop(controller: &str) -> Hop {
    let port = |controller: &str| {
        format!("rate = \"50Mbit\"\ndelay = \"5ms\"\ncontroller = \"{controller}\"\n")
    };
    Hop {
        forward: port(controller),
        reverse: port("none"),
    }
}

/// Returns the report of a sender that uses `algorithm` and has sent a file through routers with
/// these controllers. Between two routers, a kernel forwards the packets.
async fn report(algorithm: &str, controllers: &[&str]) -> PathReport {
    let hops: Vec<_> = controllers.iter().map(|name| hop(name)).collect();
    let chain = Chain::new(router(), 1500, &hops).unwrap();
    let transport = pathmark::transport_config(&Algorithm::parse(algorithm).unwrap());
    let (sender, receiver) = ((&chain.sender, SENDER), (&chain.receiver, RECEIVER));
    let ends = Ends::new(sender, receiver, transport);
    ends.transfer(500_000).await.path_report()
}

/// Returns `unmarked_hop` of the sender's latest feedback.
async fn unmarked_hop(algorithm: &str, controllers: &[&str]) -> Option<bool> {
    match report(algorithm, controllers).await.feedback {
        Some(Feedback::Vcp(feedback)) => feedback.unmarked_hop,
        Some(Feedback::Xcp(feedback)) => feedback.unmarked_hop,
        other => panic!("{algorithm}, {controllers:?}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hops_that_do_not_mark_show_in_the_ttl() {
    undisturbed(async || {
        for (algorithm, controller) in [("vcp", "vcp"), ("xcp", "xcp")] {
            let marked = unmarked_hop(algorithm, &[controller]).await;
            assert_eq!(marked, Some(false), "{algorithm}");
            let kernel_between = unmarked_hop(algorithm, &[controller, controller]).await;
            assert_eq!(kernel_between, Some(true), "{algorithm}");
            let plain = unmarked_hop(algorithm, &["none"]).await;
            assert_eq!(plain, Some(true), "{algorithm}");
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
            let report = report(algorithm, controllers).await;
            let law = report.controller;
            assert_eq!(law.fallback, expected, "{algorithm}, {controllers:?}");
            assert_eq!(law.explicit, expected.is_none());
            let uncounted = matches!(report.feedback, Some(Feedback::Xcp(xcp)) if xcp.uncounted);
            assert_eq!(uncounted, !estimated, "{algorithm}, {controllers:?}");
        }
    });
}
