//! A link between two hosts of a test bed that goes down during a transfer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use pathmark_testbed::{Node, Testbed};
use serde_json::Value;
use tempfile::TempDir;

use super::bed::Way;
use crate::common::offered::{Offered, until_unfinished};
use crate::common::{at_once, content, pathmark};

/// Transferred at 20 MB/s. This is more of a file in transfer than both sides can buffer.
const BYTES: usize = 40_000_000;

fn set(node: &Node, state: &str) {
    let mut ip = Command::new("ip");
    ip.args(["link", "set", "eth0", state]);
    assert!(node.spawn(ip, &[]).unwrap().wait().unwrap().success());
}

/// Takes the interface of the server or the client down for `time`, midway in a transfer. During
/// this time, the host with that interface has no route.
#[expect(clippy::disallowed_methods, reason = "the time that the link is down")]
fn cell(way: Way, at_server: bool, time: Duration) {
    let bed = Testbed::new().unwrap();
    let hosts = ["server", "client"].map(|name| bed.node(name).unwrap());
    let [server, client] = &hosts;
    bed.veth((server, "eth0"), (client, "eth0"), 1500).unwrap();
    for (host, address) in [(server, "10.0.1.1/24"), (client, "10.0.1.2/24")] {
        host.add_address("eth0", address.parse().unwrap()).unwrap();
    }
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    let (from, to) = match way {
        Way::Get => (offered.path(), here.path()),
        Way::Put => (here.path(), offered.path()),
    };
    let (source, expected) = (from.join("f"), content(BYTES, 0));
    fs::write(&source, &expected).unwrap();

    let directory = offered.path().to_str().unwrap();
    let mut serve = pathmark(&["serve", "--dir", directory, "--listen", "10.0.1.1:4433"]);
    serve.args(["--allow-put", "--json"]).stdout(Stdio::piped());
    let mut serving = server.spawn(serve, &[]).unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(serving.child().stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();

    let mut command = match way {
        Way::Get => pathmark(&["get", "10.0.1.1:4433/f", "-o", to.to_str().unwrap()]),
        Way::Put => pathmark(&["put", source.to_str().unwrap(), "10.0.1.1:4433"]),
    };
    command.args(["--limit", "20MB", "--reconnect", "--quiet"]);
    command.args(["--pin", said["pin"].as_str().unwrap()]);
    let mut moving = client.spawn(command, &[]).unwrap();
    until_unfinished(to, 1);
    let down = if at_server { server } else { client };
    set(down, "down");
    thread::sleep(time);
    let early = to.join("f").exists();
    assert!(!early, "{way:?}, {at_server}: the link went down too late");
    set(down, "up");
    assert!(moving.wait().unwrap().success());
    assert!(fs::read(to.join("f")).unwrap() == expected);
}

fn down_for(time: Duration) {
    let cells = [Way::Get, Way::Put].map(|way| [(way, false), (way, true)]);
    at_once(cells.concat(), |(way, at_server)| {
        cell(way, at_server, time);
    });
}

/// This is less than the idle timeout of 30 s, so the connection survives.
#[test]
fn the_link_is_down_for_2_s() {
    down_for(Duration::from_secs(2));
}

/// The connection is lost, and the client connects again.
#[test]
#[ignore = "cargo xtask soak link-down"]
fn the_link_is_down_for_60_s() {
    down_for(Duration::from_secs(60));
}
