//! A server whose certificate is renewed while it runs.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use pathmark::tls::Pin;
use tempfile::TempDir;

use crate::common::gate::Gate;
use crate::common::offered::{Offered, settle, until_unfinished};
use crate::common::{Process, Server, json, pathmark, write_private};

/// Writes a new certificate and its key, and returns the certificate's pin.
fn certify(directory: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    write_private(directory.join("key.pem"), &made.signing_key.serialize_pem());
    Pin::of(made.cert.der()).to_string()
}

#[test]
fn a_hangup_renews_the_certificate_and_an_open_transfer_goes_on() {
    let (there, keys) = (Offered::new(), TempDir::new().unwrap());
    let content: Vec<u8> = (0..2_000_000_u32).map(|n| (n >> 4) as u8).collect();
    fs::write(there.path().join("f"), &content).unwrap();
    settle(&there.path().join("f"));
    let old = certify(keys.path());
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let directory = there.path().to_str().unwrap();
    let serve = ["serve", "--dir", directory, "--cert", &cert, "--key", &key];
    let server = Server::start(&serve);

    let gate = Gate::new(&server.address, 500_000);
    let here = TempDir::new().unwrap();
    let get = |address: &str, here: &TempDir, pin: &str| {
        let (target, out) = (format!("{address}/f"), here.path().to_str().unwrap());
        Process::start(&["get", &target, "-o", out, "--pin", pin, "--json"])
    };
    let under_way = get(&gate.address.to_string(), &here, &old);
    until_unfinished(here.path(), 1);

    let list = |pin: &str| {
        let ls = ["ls", &server.address, "--pin", pin, "--json"];
        pathmark(&ls).output().unwrap()
    };
    json(&list(&old));
    let new = certify(keys.path());
    server.process.signal(Signal::SIGHUP);
    server.logged("certificate and key are read again", 10);
    json(&list(&new));
    assert_eq!(list(&old).status.code(), Some(1));

    // Invalid files leave the server unchanged.
    fs::write(&key, "-----BEGIN").unwrap();
    server.process.signal(Signal::SIGHUP);
    server.logged("certificate and key stay as they are", 10);
    json(&list(&new));

    // A pipe in a key's place has its content once.
    let new = certify(keys.path());
    let line = "exec $0 serve --listen 127.0.0.1:0 --json --dir $1 --cert $2 --key <(cat $3)";
    let mut piped = std::process::Command::new("bash");
    piped.args([
        "-c",
        line,
        env!("CARGO_BIN_EXE_pathmark"),
        directory,
        &cert,
        &key,
    ]);
    assert_eq!(Server::of(piped).pin, new);

    gate.open();
    json(&under_way.finish());
    assert!(fs::read(here.path().join("f")).unwrap() == content);
}
