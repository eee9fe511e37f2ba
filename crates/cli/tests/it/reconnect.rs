//! Clients that connect again: to a server that returns, and to one that never does.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{Process, Server, object, pathmark};

/// More than both sides buffer of a file in transfer.
const BYTES: usize = 10_000_000;

fn serve(offered: &Offered, address: &str) -> Server {
    let directory = offered.path().to_str().unwrap();
    let arguments = [
        "serve",
        "--dir",
        directory,
        "--listen",
        address,
        "--json",
        "--allow-put",
    ];
    Server::of(pathmark(&arguments))
}

#[test]
fn a_server_that_comes_back_brings_the_rest() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    for n in 0..3 {
        fs::write(offered.path().join(format!("{n}")), vec![n; BYTES]).unwrap();
    }
    let out = here.path().to_str().unwrap();
    let mut server = serve(&offered, "127.0.0.1:0");
    let (address, pin) = (server.address.clone(), server.pin.clone());
    let more = ["--pin", &pin, "--json", "--limit", "5MB", "--reconnect=60s"];
    let target = |name: &str| format!("{address}/{name}");
    let get = ["get", "-r", &target(""), "-o", out];
    let get = Process::start(&[&get[..], &more].concat());
    let arrived = || {
        let names = fs::read_dir(here.path()).unwrap();
        names
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .metadata()
                    .is_ok_and(|m| m.len() > 0)
            })
            .count()
    };
    until(|| arrived() > 0);
    server.process.signal(Signal::SIGTERM);
    server.process.0.wait().unwrap();
    let _server = serve(&offered, &address);
    let output = get.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("the next attempt is in"), "{stderr}");
    for n in 0..3 {
        assert_eq!(
            fs::read(here.path().join(format!("{n}"))).unwrap(),
            vec![n; BYTES]
        );
    }
    assert_eq!(object(&output)["error"], serde_json::Value::Null);
}

#[test]
fn a_put_begins_before_its_server_does() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    let file = here.path().join("file");
    fs::write(&file, "content").unwrap();
    let server = serve(&offered, "127.0.0.1:0");
    let (address, pin) = (server.address.clone(), server.pin.clone());
    drop(server);
    let put = [
        "put",
        file.to_str().unwrap(),
        &address,
        "--pin",
        &pin,
        "--reconnect",
    ];
    let mut put = Process::start(&put);
    let stderr = put.0.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let said = lines.next().unwrap().unwrap();
    assert!(said.contains("the next attempt is in 1 s"), "{said}");
    let _server = serve(&offered, &address);
    assert!(put.0.wait().unwrap().success());
    assert_eq!(
        fs::read_to_string(offered.path().join("file")).unwrap(),
        "content"
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a time limit in real time")]
fn a_client_gives_up_after_its_time_and_tries_no_other_key() {
    let here = TempDir::new().unwrap();
    let out = here.path().to_str().unwrap();
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let begun = Instant::now();
    let get = [
        "get",
        &format!("{address}/a"),
        "-o",
        out,
        "--insecure",
        "--json",
    ];
    let gave_up = pathmark(&[&get[..], &["--reconnect=2s"]].concat())
        .output()
        .unwrap();
    assert_eq!(gave_up.status.code(), Some(1));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    let said = object(&gave_up);
    assert_eq!(said["files"].as_array().unwrap().len(), 1);
    let offered = Offered::new();
    let server = serve(&offered, "127.0.0.1:0");
    let get = ["get", &format!("{}/a", server.address), "-o", out, "--json"];
    let pin = "00".repeat(32);
    let begun = Instant::now();
    let wrong = pathmark(&[&get[..], &["--pin", &pin, "--reconnect"]].concat())
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
}
