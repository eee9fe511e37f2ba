//! A server whose certificate is renewed while it runs.

use std::fs;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::gate::Gate;
use crate::common::offered::{Offered, settle, until_unfinished};
use crate::common::{Process, Server, certificate, command, json, run};

#[test]
fn a_hangup_renews_the_certificate_and_an_open_transfer_goes_on() {
    let (there, keys) = (Offered::new(), TempDir::new().unwrap());
    let content: Vec<u8> = (0..2_000_000_u32).map(|n| (n >> 4) as u8).collect();
    fs::write(there.path().join("f"), &content).unwrap();
    settle(&there.path().join("f"));
    let old = certificate(keys.path(), "own").to_string();
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("own.pem"), path("own.key"));
    let certified = ["--cert", &cert, "--key", &key];
    let server = Server::of_files(&there, "127.0.0.1:0", &certified);

    let gate = Gate::new(&server.address, 500_000);
    let here = TempDir::new().unwrap();
    let line = format!("get {}/f --pin {old} --json", gate.address);
    let under_way = Process::of(command(&here, &line));
    until_unfinished(here.path(), 1);

    let list = |pin: &str| {
        let line = format!("ls {} --pin {pin} --json", server.address);
        run(&here, &line)
    };
    json(&list(&old));
    let new = certificate(keys.path(), "own").to_string();
    server.process.signal(Signal::SIGHUP);
    server.logged("certificate and key are read again", 10);
    json(&list(&new));
    assert_eq!(list(&old).status.code(), Some(1));

    // Invalid files leave the server unchanged.
    fs::write(&key, "-----BEGIN").unwrap();
    server.process.signal(Signal::SIGHUP);
    server.logged("certificate and key stay as they are", 10);
    json(&list(&new));

    gate.open();
    json(&under_way.finish());
    assert!(fs::read(here.path().join("f")).unwrap() == content);
}
