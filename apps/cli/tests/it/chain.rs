//! Files through a row of routers, over real sockets and TUN interfaces, between separate
//! processes.
//!
//! `PATHMARK_CHAIN_MB=1000 cargo test --release --test it chain` transfers a gigabyte.

use std::path::Path;

use pathmark_testbed::chain::{Chain, Hop, SENDER};
use pathmark_testbed::undisturbed;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::content;
use crate::common::offered::{Offered, unfinished_bytes, until_unfinished};
use crate::common::on_node::{figures, router, serve, spawn};

fn megabytes() -> usize {
    std::env::var("PATHMARK_CHAIN_MB").map_or(20, |text| text.parse().unwrap())
}

/// Returns a hop of 200 Mbit/s and 10 ms each way.
fn hop(controller: &str, more: &str) -> Hop {
    let port = |controller: &str| {
        format!(
            "rate = \"200Mbit\"\ndelay = \"10ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"40ms\" }}\n"
        )
    };
    Hop {
        forward: port(controller) + more,
        reverse: port("none"),
    }
}

fn write_file(path: &Path, megabytes: usize) -> Vec<u8> {
    let content = content(megabytes * 1_000_000, 0);
    std::fs::write(path, &content).unwrap();
    content
}

/// Runs `serve` on the sender and `get` on the receiver, and calls `meanwhile` once data is
/// flowing.
fn fetch(mut chain: Chain, meanwhile: impl FnOnce(&mut Chain, &Path)) -> Value {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let content = write_file(&there.path().join("file"), megabytes());
    let listen = format!("{SENDER}:4433");
    let directory = there.path().to_str().unwrap();
    let arguments = ["serve", "--listen", &listen, "--dir", directory, "--json"];
    let (_server, said) = serve(&chain.sender, &arguments);
    let target = format!("{listen}/file");
    let out = here.path().to_str().unwrap();
    let pin = said["pin"].as_str().unwrap();
    let get = ["get", &target, "-o", out, "--pin", pin, "--json"];
    let client = spawn(&chain.receiver, &get);
    meanwhile(&mut chain, here.path());
    let figures = figures(client);
    assert!(std::fs::read(here.path().join("file")).unwrap() == content);
    figures
}

#[test]
fn a_file_passes_two_routers_that_lose_one_packet_in_a_hundred() {
    undisturbed(|| {
        let loss = "loss = { kind = \"bernoulli\", per = 0.01 }\n";
        let hops = [hop("vcp+bise", ""), hop("vcp+bise", loss)];
        let chain = Chain::new(router(), 1500, &hops).unwrap();
        let figures = fetch(chain, |_, _| ());
        println!("{figures}");
        assert_eq!(figures["feedback"], "vcp");
        assert!(figures["packets_lost"].as_u64().unwrap() > 0);
        assert!([1, 2].contains(&figures["router_id"].as_u64().unwrap()));
        // Random loss doesn't halve the rate: CUBIC would only get about 6 Mbit/s here.
        assert!(figures["goodput_down_bps"].as_f64().unwrap() > 20e6);
    });
}

#[test]
fn a_transfer_outlives_its_router() {
    let chain = Chain::new(router(), 1500, &[hop("vcp+bise", ""), hop("vcp", "")]).unwrap();
    fetch(chain, |chain, here| {
        // Once a tenth has arrived, the second router crashes, loses the packets in its queue, and
        // starts again.
        let arrived = || unfinished_bytes(here);
        let whole = megabytes() as u64 * 1_000_000;
        until_unfinished(here, whole / 10);
        chain.kill(1).unwrap();
        assert!(arrived() < whole, "the router died too late to matter");
        chain.start(1).unwrap();
    });
}
