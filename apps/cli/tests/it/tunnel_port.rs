//! Ports of `vcp-router` in front of a tunnel, over real interfaces: a router in the middle that
//! only sees outer packets controls a flow inside.
//!
//! ```text
//!   application ── gateway ── entry ── wire ── middle ── wire ── exit ── gateway ── application
//!                     ╚═════════ IP in IP, or VXLAN by the kernel ══════════╝
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pathmark::PathReport;
use pathmark::cc::FallbackReason;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, SENDER};
use serde_json::Value;

use crate::common::encapsulation::{Exit, gateway, kernel_gateway};
use crate::common::endpoints::{Endpoints, undisturbed};
use crate::common::on_node::{router, shown};

const INNER_SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const INNER_RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const MTU: u32 = 1500;
/// The tunnel's packets have room for their own headers, a UDP header and the longest shim.
const INNER_MTU: u32 = 1380;
const BYTES: usize = 2_000_000;
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
    let endpoints = Endpoints::new(&chain, [INNER_SENDER, INNER_RECEIVER], algorithm, 0);
    let (_ours, theirs) = endpoints.send(BYTES).await;
    let of = |router, name| {
        let state = shown(&chain, router);
        let mut links = state["links"].as_array().unwrap().iter();
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
    undisturbed(async || {
        // Each has a path of its own.
        let (cubic, vcp, vcp_without, xcp, xcp_without) = tokio::join!(
            run(tunnel, true, "cubic", "vcp"),
            run(tunnel, true, "vcp", "vcp"),
            run(tunnel, false, "vcp", "vcp"),
            run(tunnel, true, "xcp", "xcp"),
            run(tunnel, false, "xcp", "xcp"),
        );
        let (queue_ms, drops) = (cubic.queue_ms, cubic.drops);
        println!("{tunnel:?} cubic: {queue_ms:.1} ms, {drops} dropped");
        for (law, with, without) in [("vcp", vcp, vcp_without), ("xcp", xcp, xcp_without)] {
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
            assert!(2.0 * with.queue_ms < queue_ms, "{law}");
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ip_in_ip() {
    the_middle_controls_flows_inside(Tunnel::IpInIp);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vxlan() {
    the_middle_controls_flows_inside(Tunnel::Vxlan);
}
