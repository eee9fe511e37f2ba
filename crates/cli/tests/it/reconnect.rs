//! Clients that connect again: to a server that returns, and to one that never does.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{Process, Server, object, run};

/// More than both sides buffer of a file in transfer.
const BYTES: usize = 10_000_000;

fn serve(offered: &Offered, address: &str) -> Server {
    Server::of_files(offered, address, &["--allow-put"])
}

#[test]
fn a_server_that_comes_back_brings_the_rest() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    for n in 0..3 {
        fs::write(offered.path().join(format!("{n}")), vec![n; BYTES]).unwrap();
    }
    let mut server = serve(&offered, "127.0.0.1:0");
    let address = server.address.clone();
    let get = server.client(&here, "get -r @/ --json --limit 5MB --reconnect=60s");
    let get = Process::of(get);
    until(|| {
        let mut entries = fs::read_dir(here.path()).unwrap();
        entries.any(|entry| entry.unwrap().metadata().is_ok_and(|m| m.len() > 0))
    });
    server.process.signal(Signal::SIGTERM);
    server.process.0.wait().unwrap();
    let _server = serve(&offered, &address);
    let output = get.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("the next attempt is in"), "{stderr}");
    for n in 0..3 {
        let fetched = fs::read(here.path().join(format!("{n}"))).unwrap();
        assert!(fetched == vec![n; BYTES], "{n}");
    }
    assert_eq!(object(&output)["error"], serde_json::Value::Null);
}

#[test]
fn a_put_begins_before_its_server_does() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(here.path().join("file"), "content").unwrap();
    let server = serve(&offered, "127.0.0.1:0");
    let address = server.address.clone();
    let put = server.client(&here, "put file @ --reconnect");
    drop(server);
    let mut put = Process::of(put);
    let stderr = put.0.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let said = lines.next().unwrap().unwrap();
    assert!(said.contains("the next attempt is in 1 s"), "{said}");
    let _server = serve(&offered, &address);
    assert!(put.0.wait().unwrap().success());
    let stored = fs::read_to_string(offered.path().join("file"));
    assert_eq!(stored.unwrap(), "content");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a time limit in real time")]
fn a_client_gives_up_after_its_time_and_tries_no_other_key() {
    let here = TempDir::new().unwrap();
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let begun = Instant::now();
    let line = format!("get {address}/a --insecure --json --reconnect=2s");
    let gave_up = run(&here, &line);
    assert_eq!(gave_up.status.code(), Some(1));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    let said = object(&gave_up);
    assert_eq!(said["files"].as_array().unwrap().len(), 1);
    let offered = Offered::new();
    let mut server = serve(&offered, "127.0.0.1:0");
    server.pin = "00".repeat(32);
    let begun = Instant::now();
    let wrong = server.run(&here, "get @/a --json --reconnect");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
}
