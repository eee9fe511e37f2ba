//! Figures of `pathmark proxy` and `pathmark tunnel`, printed with their conditions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pathmark_cli::demo::bed::{CLIENT, SERVER};
use pathmark_testbed::{Node, Testbed};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::common::long_path::path;
use crate::common::pair::{Pair, connect, listener, one_node, source};

#[tokio::main]
pub(crate) async fn flows_at_once() {
    // On many machines, the hard limit of descriptors is 20,000, and this process has two for each
    // flow.
    const FLOWS: usize = 9_000;
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, hard) = nix::sys::resource::getrlimit(limit).unwrap();
    nix::sys::resource::setrlimit(limit, hard, hard).unwrap();
    let (_bed, node, pair) = one_node().await;
    println!("before: {}", pair.taken());
    for round in 1..=2 {
        let began = Instant::now();
        let mut flows = Vec::new();
        for _ in 0..FLOWS {
            let mut flow = connect(&node, pair.forward).await.unwrap();
            flow.write_u8(1).await.unwrap();
            flows.push(flow);
        }
        for flow in &mut flows {
            assert_eq!(flow.read_u8().await.unwrap(), 1);
        }
        let took = began.elapsed();
        println!(
            "round {round}: {FLOWS} flows open after {took:.1?}: {}",
            pair.taken()
        );
        for flow in &mut flows {
            flow.write_u8(2).await.unwrap();
            assert_eq!(flow.read_u8().await.unwrap(), 2);
        }
        drop(flows);
        tokio::time::sleep(Duration::from_secs(5)).await;
        println!("round {round}: 5 s after their end: {}", pair.taken());
    }
}

#[tokio::main]
pub(crate) async fn new_flows() {
    let seconds = std::env::var("PATHMARK_SECONDS").map_or(10, |text| text.parse().unwrap());
    let each = Duration::from_secs(seconds);
    let (_bed, node, pair) = one_node().await;
    // Connections in TIME_WAIT would use up the ports.
    node.sysctl("net.ipv4.tcp_tw_reuse", "1").unwrap();
    node.sysctl("net.ipv4.ip_local_port_range", "10000 65000")
        .unwrap();
    println!("before: {}", pair.taken());
    for round in 1..=2 {
        let began = Instant::now();
        let mut workers = JoinSet::new();
        for _ in 0..64 {
            let (node, forward) = (node.clone(), pair.forward);
            workers.spawn(async move {
                let mut flows = 0;
                while began.elapsed() < each {
                    let mut flow = connect(&node, forward).await.unwrap();
                    flow.write_u8(1).await.unwrap();
                    assert_eq!(flow.read_u8().await.unwrap(), 1);
                    flows += 1;
                }
                flows
            });
        }
        let flows: u64 = workers.join_all().await.iter().sum();
        let rate = flows as f64 / began.elapsed().as_secs_f64();
        tokio::time::sleep(Duration::from_secs(3)).await;
        println!(
            "round {round}: {flows} flows, {rate:.0} each second: {}",
            pair.taken()
        );
    }
}

#[tokio::main]
pub(crate) async fn loopback() {
    const BYTES: usize = 2 << 30;
    let bed = Testbed::new().unwrap();
    let node = bed.node("all").unwrap();
    let target = listener(&node, "127.0.0.1:7001".parse().unwrap());
    let address = target.local_addr().unwrap();
    let flows_of = [1, 8];
    for flows in flows_of {
        let target = listener(&node, SocketAddr::new(address.ip(), 7100 + flows));
        let to = target.local_addr().unwrap();
        let bytes = BYTES / usize::from(flows);
        tokio::spawn(source(target, bytes));
        let pair = Pair::new((&node, [127, 0, 0, 1].into()), &node, to);
        for (what, through) in [("direct TCP", to), ("tunnel", pair.forward)] {
            let began = Instant::now();
            let mut clients = JoinSet::new();
            for _ in 0..flows {
                let node = node.clone();
                clients.spawn(async move { read(&node, through).await });
            }
            let got: usize = clients.join_all().await.iter().sum();
            assert_eq!(got, bytes * usize::from(flows));
            let rate = got as f64 * 8e-9 / began.elapsed().as_secs_f64();
            println!("{flows} flows, {what}: {rate:.2} Gbit/s");
        }
    }
}

/// Reads a flow to its end, and returns its number of bytes.
async fn read(node: &Node, from: SocketAddr) -> usize {
    let mut flow = connect(node, from).await.unwrap();
    let (mut buffer, mut got) = (vec![0; 256 * 1024], 0);
    loop {
        match flow.read(&mut buffer).await.unwrap() {
            0 => return got,
            more => got += more,
        }
    }
}

#[tokio::main]
pub(crate) async fn short_flows_over_a_long_path() {
    for law in ["cubic", "vcp+bise+wlte", "xcp"] {
        short_flows(law).await;
    }
}

async fn short_flows(law: &str) {
    let bed = path(100_000_000, 0.0, law);
    let target = listener(bed.server(), SocketAddr::new(SERVER, 7000));
    let to = target.local_addr().unwrap();
    tokio::spawn(source(target, 10_000));
    let pair = Pair::new((bed.server(), SERVER), bed.client(), to);
    // After this flow, which isn't counted, the tunnel has its connection.
    assert_eq!(read(bed.client(), pair.forward).await, 10_000);
    println!("client {CLIENT}, 100 Mbit/s, 600 ms, no loss, a port for {law}");
    for (what, through) in [("direct TCP", to), ("tunnel", pair.forward)] {
        let began = Instant::now();
        let mut flows = JoinSet::new();
        for _ in 0..100 {
            let node = bed.client().clone();
            flows.spawn(async move {
                assert_eq!(read(&node, through).await, 10_000);
                began.elapsed().as_secs_f64() / 0.6
            });
        }
        let mut took = flows.join_all().await;
        took.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.2} round trips, last {:.2}",
            took[50], took[99]
        );
    }
}

#[tokio::main]
pub(crate) async fn one_flow_over_a_lossy_path() {
    const TIME: Duration = Duration::from_secs(30);
    for law in ["vcp+bise+wlte", "cubic", "bbr"] {
        let bed = path(100_000_000, 0.01, law);
        for (port, control) in (7000..).zip(["tunnel", "cubic", "bbr"]) {
            if control != "tunnel" && law != "cubic" {
                // The kernel's TCP is only measured once, at a port without a law.
                continue;
            }
            let target = listener(bed.server(), SocketAddr::new(SERVER, port));
            if control != "tunnel" {
                SockRef::from(&target)
                    .set_tcp_congestion(control.as_bytes())
                    .unwrap();
            }
            let to = target.local_addr().unwrap();
            let serving = tokio::spawn(source(target, usize::MAX));
            let pair = (control == "tunnel").then(|| {
                let pair = Pair::new((bed.server(), SERVER), bed.client(), to);
                (pair.forward, pair)
            });
            let through = pair.as_ref().map_or(to, |(forward, _)| *forward);
            let mut flow = connect(bed.client(), through).await.unwrap();
            let (mut buffer, mut got) = (vec![0; 256 * 1024], 0);
            let began = Instant::now();
            while began.elapsed() < TIME {
                got += flow.read(&mut buffer).await.unwrap();
            }
            let rate = got as f64 * 8e-6 / began.elapsed().as_secs_f64();
            let name = match control {
                "tunnel" => format!("tunnel (--cc auto), a port for {law}"),
                control => format!("kernel {control}, a port without a law"),
            };
            println!("{name}: {rate:.1} Mbit/s in {TIME:?}");
            serving.abort();
        }
    }
}
