//! Clients that connect again: to a server that returns, to one that never does, and to one that
//! answers some requests on each connection.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pathmark::tls::{Pin, TlsServerConfig};
use pathmark_http3::http::Response;
use pathmark_http3::wire::{ALPN, ServerLink, codes};
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{Process, Server, ended, json, names, object, pathmark, run, words};

/// More than both sides buffer of a file in transfer.
const BYTES: usize = 10_000_000;

fn serve(offered: &Offered, address: &str) -> Server {
    Server::offering(offered, address, &["--allow-put"])
}

#[test]
fn a_server_that_comes_back_brings_the_rest() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    for n in 0..3 {
        fs::write(offered.path().join(format!("{n}")), vec![n; BYTES]).unwrap();
    }
    let out = here.path().display();
    let mut server = serve(&offered, "127.0.0.1:0");
    let (address, pin) = (server.address.clone(), server.pin.clone());
    let get = format!("get -r {address}/ -o {out} --pin {pin} --json --limit 10MB --reconnect=60s");
    let get = Process::start(&words(&get));
    let has_bytes = |entry: std::io::Result<fs::DirEntry>| {
        let metadata = entry.unwrap().metadata();
        metadata.is_ok_and(|metadata| metadata.len() > 0)
    };
    let arrived = || fs::read_dir(here.path()).unwrap().any(has_bytes);
    until(arrived);
    server.process.signal(Signal::SIGTERM);
    server.process.0.wait().unwrap();
    let _server = serve(&offered, &address);
    let output = get.finish();
    ended(&output, 0, "the next attempt is in");
    for n in 0..3 {
        let got = fs::read(here.path().join(format!("{n}"))).unwrap();
        assert_eq!(got, vec![n; BYTES]);
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
    let line = format!("put {} {address} --pin {pin} --reconnect", file.display());
    let mut put = Process::start(&words(&line));
    let stderr = put.0.stderr.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let said = lines.next().unwrap().unwrap();
    assert!(said.contains("the next attempt is in 1 s"), "{said}");
    let _server = serve(&offered, &address);
    assert!(put.0.wait().unwrap().success());
    let stored = fs::read_to_string(offered.path().join("file")).unwrap();
    assert_eq!(stored, "content");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a time limit in real time")]
fn a_client_gives_up_after_its_time_and_tries_no_other_key() {
    let here = TempDir::new().unwrap();
    let out = here.path().display();
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let begun = Instant::now();
    let get = format!("get {address}/a -o {out} --insecure --json --reconnect=2s");
    let gave_up = run(&words(&get));
    assert_eq!(gave_up.status.code(), Some(1));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    let said = object(&gave_up);
    assert_eq!(said["files"].as_array().unwrap().len(), 1);
    let offered = Offered::new();
    let server = serve(&offered, "127.0.0.1:0");
    let (target, pin) = (server.at("a"), "00".repeat(32));
    let begun = Instant::now();
    let get = format!("get {target} -o {out} --json --pin {pin} --reconnect");
    let wrong = run(&words(&get));
    assert_eq!(wrong.status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// Answers three requests on each connection. Then it rejects the others, or closes the connection.
async fn answer_three(endpoint: pathmark::Endpoint, rejects: bool) {
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.accept().unwrap().await.unwrap();
        let mut link = ServerLink::new(connection.clone(), 16_384).await.unwrap();
        tokio::spawn(async move {
            let mut answered = 0;
            while let Ok(Some(incoming)) = link.next().await {
                let (_, mut exchange) = incoming.head(Duration::from_secs(5)).await.unwrap();
                if answered < 3 {
                    answered += 1;
                    exchange.respond(Response::new(())).await.unwrap();
                    exchange.send("content".into()).await.unwrap();
                    exchange.finish(None).await.unwrap();
                    exchange.acknowledged().await.unwrap();
                } else if rejects {
                    exchange.reset(codes::REQUEST_REJECTED);
                } else {
                    connection.close(0x100_u32.into(), b"enough");
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_a_server_refuses_go_over_another_connection() {
    for rejects in [true, false] {
        let here = TempDir::new().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = TlsServerConfig::from_pem(chain.as_bytes(), key.as_bytes(), &[ALPN]).unwrap();
        let config = pathmark::ServerConfig::with_crypto(std::sync::Arc::new(tls));
        let endpoint = pathmark::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, pin) = (endpoint.local_address(), Pin::of(made.cert.der()));
        let serving = tokio::spawn(answer_three(endpoint, rejects));
        let targets: Vec<_> = (0..8).map(|n| format!("{address}/{n}")).collect();
        let line = format!("get {} -o . --json --pin {pin}", targets.join(" "));
        let mut get = pathmark(&words(&line));
        get.current_dir(here.path());
        let output = tokio::task::spawn_blocking(move || get.output().unwrap());
        let said = json(&output.await.unwrap());
        assert_eq!(said["streams"], 8, "{said}");
        assert_eq!(names(here.path()).len(), 8);
        serving.abort();
    }
}
