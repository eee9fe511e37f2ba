//! Which servers a client of files trusts, and how it identifies them. Real sockets and processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use tempfile::TempDir;

use crate::common::offered::{Offered, until_unfinished};
use crate::common::{Process, Server, ended, json, pathmark, stderr, write_private};

fn offered() -> Offered {
    let there = Offered::new();
    fs::write(there.path().join("a"), b"0123456789").unwrap();
    there
}

fn serve(there: &Offered, listen: &str) -> Server {
    Server::offering(there, listen, &[])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A user with a directory for state.
struct User {
    state: TempDir,
    out: TempDir,
}

impl User {
    fn new() -> Self {
        let [state, out] = [(); 2].map(|()| TempDir::new().unwrap());
        Self { state, out }
    }

    fn get(&self, target: &str, more: &[&str]) -> Output {
        let get = ["get", target, "-o", self.out.path().to_str().unwrap()];
        let mut get = pathmark(&[&get[..], more].concat());
        get.env("XDG_STATE_HOME", self.state.path());
        get.output().unwrap()
    }

    fn known_hosts(&self) -> PathBuf {
        self.state.path().join("pathmark/known_hosts")
    }
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    words.iter().for_each(|word| ended(output, 1, word));
}

#[test]
fn a_new_server_is_believed_once_and_a_changed_key_is_refused() {
    let (there, user) = (offered(), User::new());
    let server = serve(&there, "127.0.0.1:0");
    let (address, pin) = (server.address.clone(), server.pin.clone());
    let target = server.at("a");
    // Without a terminal, an unknown server is refused, and nothing is stored.
    let unknown = user.get(&target, &[]);
    refused(&unknown, &["is not known", &pin, "--trust-new"]);
    assert!(!user.known_hosts().exists());
    assert!(user.get(&target, &["--trust-new"]).status.success());
    let line = format!("{address} {pin}\n");
    assert_eq!(fs::read_to_string(user.known_hosts()).unwrap(), line);
    assert_eq!(mode(&user.known_hosts()), 0o600);
    assert!(user.get(&target, &[]).status.success());

    // The key is stored next to the directory, so a restarted server is recognized.
    assert_eq!(mode(&there.key()), 0o600);
    drop(server);
    let server = serve(&there, &address);
    assert_eq!(server.pin, pin);
    assert!(user.get(&target, &[]).status.success());

    // Another key at the same address is refused with instructions, even with `--trust-new`.
    drop(server);
    fs::remove_file(there.key()).unwrap();
    let server = serve(&there, &address);
    let file = user.known_hosts();
    let path = file.to_str().unwrap();
    let words = ["has changed", path, &pin, &server.pin, "remove the line"];
    for more in [&[][..], &["--trust-new"]] {
        refused(&user.get(&target, more), &words);
    }
    // An explicit pin takes precedence.
    assert!(user.get(&target, &["--pin", &server.pin]).status.success());
    let other = "00".repeat(32);
    refused(&user.get(&target, &["--pin", &other]), &["certificate"]);
    fs::remove_file(&file).unwrap();
    assert!(user.get(&target, &["--trust-new"]).status.success());
    assert!(user.get(&target, &[]).status.success());
}

#[test]
fn where_no_key_can_be_kept_it_is_said() {
    let (there, mut user) = (offered(), User::new());
    let server = serve(&there, "127.0.0.1:0");
    user.state = TempDir::new().unwrap();
    fs::write(user.state.path().join("pathmark"), "a file").unwrap();
    ended(
        &user.get(&server.at("a"), &["--trust-new"]),
        0,
        "is not kept",
    );
}

/// A certificate from one of the system's authorities needs no pin, and none is stored.
#[test]
fn an_authority_of_the_system_vouches_for_names() {
    let (there, user) = (offered(), User::new());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, pem: String| {
        let path = user.state.path().join(name);
        write_private(&path, &pem);
        path.to_str().unwrap().to_owned()
    };
    let cert = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let more = ["--cert", &cert, "--key", &key];
    let server = Server::offering(&there, "127.0.0.1:0", &more);
    assert!(!there.key().exists());
    let (_, port) = server.address.rsplit_once(':').unwrap();
    let get = |host: &str, roots: &Path| {
        let target = format!("{host}:{port}/a");
        let out = user.out.path().to_str().unwrap();
        let mut get = pathmark(&["get", &target, "-o", out]);
        get.env("XDG_STATE_HOME", user.state.path());
        get.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        get.output().unwrap()
    };
    let output = get("localhost", cert.as_ref());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!user.known_hosts().exists());
    // The certificate is not valid for this address.
    refused(&get("127.0.0.1", cert.as_ref()), &["is not known"]);
}

/// The key of stateless resets is stored with the certificate.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a time limit, far below the idle timeout"
)]
fn a_server_that_was_started_again_ends_old_connections_at_once() {
    let (there, user) = (offered(), User::new());
    // A sparse file of 50 GB: the transfer takes long, but the disk stays empty.
    let large = fs::File::create(there.path().join("large")).unwrap();
    large.set_len(50_000_000_000).unwrap();
    let server = serve(&there, "127.0.0.1:0");
    let (address, pin) = (server.address.clone(), server.pin.clone());
    let target = server.at("large");
    let out = user.out.path().to_str().unwrap();
    let client = Process::start(&["get", &target, "-o", out, "--pin", &pin, "--json"]);
    until_unfinished(user.out.path(), 1_000_000);
    drop(server);
    let server = serve(&there, &address);
    let begun = std::time::Instant::now();
    let output = client.finish();
    assert_eq!(output.status.code(), Some(1));
    // The interval between the client's probes is a round trip and some milliseconds. If none of
    // its packets was in flight, its next keep-alive, after at most 5 s, gets the answer.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    json(&user.get(&server.at("a"), &["--pin", &pin, "--json"]));
}
