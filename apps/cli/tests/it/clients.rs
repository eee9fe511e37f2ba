//! Clients with tokens and rights, the access log, and signals for reloading files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{Server, ended, json, object, pathmark, run, write_private};

const CLIENTS: &str = r#"
[[client]]
name = "reader"
token-file = "reader.token"
rights = ["get", "list"]

[[client]]
name = "writer"
token-env = "WRITER"
rights = ["put"]
prefix = "in"
quota = "1kB"
files = 2

[[client]]
name = "anyone"
rights = ["list"]
"#;

struct House {
    server: Server,
    offered: Offered,
    here: TempDir,
}

impl House {
    fn new(more: &[&str]) -> Self {
        let (offered, here) = (Offered::new(), TempDir::new().unwrap());
        fs::write(offered.path().join("a"), "content").unwrap();
        fs::write(here.path().join("clients.toml"), CLIENTS).unwrap();
        write_private(here.path().join("reader.token"), "tell-me-what-it-is\n");
        fs::write(here.path().join("wrong.token"), "tell-you\n").unwrap();
        let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
        let directory = offered.path().to_str().unwrap().to_owned();
        let clients = path("clients.toml");
        let mut command = pathmark(&["serve", "--dir", &directory, "--clients", &clients]);
        command.args(more).env("WRITER", "take-this-to-the-store");
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        Self {
            server: Server::of(command),
            offered,
            here,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.here.path().join(name)
    }

    fn run(&self, arguments: &[&str], token: Option<&str>) -> Output {
        let mut command = pathmark(arguments);
        command.args(["--pin", &self.server.pin, "--json"]);
        if let Some(token) = token {
            command.env("PATHMARK_TOKEN", token);
        }
        command.output().unwrap()
    }

    fn get(&self, token: Option<&str>) -> Output {
        let out = self.path("out");
        fs::create_dir_all(&out).unwrap();
        let source = self.server.at("a");
        let get = ["get", &source, "--force", "-o", out.to_str().unwrap()];
        self.run(&get, token)
    }

    fn put(&self, bytes: usize, name: &str, token: &str) -> Output {
        let file = self.path("file");
        fs::write(&file, vec![1; bytes]).unwrap();
        let target = self.server.at(name);
        self.run(&["put", file.to_str().unwrap(), &target], Some(token))
    }
}

#[track_caller]
fn refused(output: &Output, word: &str) {
    assert_eq!(output.status.code(), Some(1));
    let error = object(output)["error"].as_str().unwrap().to_owned();
    assert!(error.contains(word), "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a wait in real time")]
fn each_client_has_the_rights_of_its_token() {
    let house = House::new(&[]);
    json(&house.get(Some("tell-me-what-it-is")));
    refused(&house.get(None), "lets this client fetch nothing");
    let begun = std::time::Instant::now();
    refused(&house.get(Some("tell-you")), "401");
    assert!(begun.elapsed().as_secs() >= 1, "a guess takes time");
    refused(&house.get(Some("take-this-to-the-store")), "403");
    json(&house.run(&["ls", &house.server.address], None));
    let (wrong, address) = (house.path("wrong.token"), &house.server.address);
    let wrong = ["ls", address, "--token-file", wrong.to_str().unwrap()];
    refused(&house.run(&wrong, None), "401");
    refused(&house.put(10, "b", "tell-me-what-it-is"), "the right `put`");
    refused(
        &house.put(10, "b", "take-this-to-the-store"),
        "no right to the path",
    );
    json(&house.put(600, "in/b", "take-this-to-the-store"));
    refused(
        &house.put(600, "in/c", "take-this-to-the-store"),
        "store no more",
    );
    refused(&house.put(100, "in/b", "take-this-to-the-store"), "--force");
    json(&house.put(400, "in/c", "take-this-to-the-store"));
    assert!(house.offered.path().join("in/c").exists());
    // A third file is too many, even without content.
    let third = house.put(0, "in/d", "take-this-to-the-store");
    refused(&third, "store no more");
    assert_eq!(house.get(Some("two words")).status.code(), Some(2));
}

#[test]
fn a_list_of_clients_is_checked_and_read_again() {
    let house = House::new(&[]);
    let list = house.path("clients.toml");
    let wrong = CLIENTS.replace("quota", "quotas");
    fs::write(&list, &wrong).unwrap();
    house.server.process.signal(Signal::SIGHUP);
    let said = house.server.logged("clients stay as they are", 30);
    let line = "line 12: unknown name `quotas`: did you mean";
    assert!(said.contains(line), "{said}");
    json(&house.get(Some("tell-me-what-it-is")));
    fs::write(&list, CLIENTS.replace("[\"get\", \"list\"]", "[\"list\"]")).unwrap();
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("clients are read again", 30);
    refused(&house.get(Some("tell-me-what-it-is")), "403");
    let directory = house.offered.path().to_str().unwrap();
    fs::write(&list, &wrong).unwrap();
    let clients = ["--clients", list.to_str().unwrap()];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--dir", directory];
    ended(&run(&[&serve[..], &clients].concat()), 2, "line 12");
}

/// The server requests client certificates as soon as its list contains a pin.
#[test]
fn a_first_pin_needs_no_restart() {
    let house = House::new(&[]);
    let get = || {
        let source = format!("{}/a", house.server.address);
        let out = house.path("out");
        fs::create_dir_all(&out).unwrap();
        let arguments = ["get", &source, "-o", out.to_str().unwrap(), "--own-cert"];
        let mut command = pathmark(&arguments);
        command.args(["--pin", &house.server.pin]);
        let state = house.here.path();
        command.env("XDG_STATE_HOME", state).output().unwrap()
    };
    let first = get();
    assert_eq!(first.status.code(), Some(1));
    let said = String::from_utf8_lossy(&first.stderr);
    let pin = said.split("pin ").nth(1).unwrap().lines().next().unwrap();
    let more = format!("[[client]]\nname = \"laptop\"\npin = \"{pin}\"\nrights = [\"get\"]\n");
    let list = house.path("clients.toml");
    fs::write(&list, format!("{CLIENTS}\n{more}")).unwrap();
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("asked for certificates", 30);
    let later = get();
    assert!(later.status.success(), "{later:?}");
    fs::write(&list, CLIENTS).unwrap();
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("asked for certificates", 30);
    assert_eq!(get().status.code(), Some(1));
}

fn lines(path: &Path, number: usize) -> Vec<Value> {
    let text = || fs::read_to_string(path).unwrap_or_default();
    until(|| text().lines().count() >= number);
    let text = text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn each_request_is_a_line_of_the_log() {
    let log = TempDir::new().unwrap();
    let path = log.path().join("access");
    let house = House::new(&["--access-log", path.to_str().unwrap()]);
    json(&house.get(Some("tell-me-what-it-is")));
    refused(&house.get(Some("tell-you")), "401");
    let all = lines(&path, 2);
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
    for (line, client, status) in [(&all[0], "reader", 200), (&all[1], "-", 401)] {
        let of = ["client", "method", "path"].map(|key| text(line, key));
        assert_eq!(of, [client, "GET", "/a"]);
        assert_eq!(line["status"], status);
    }
    assert_eq!(
        (&all[0]["bytes"], &all[0]["error"]),
        (&7.into(), &Value::Null)
    );
    assert!(all[0]["seconds"].as_f64().unwrap() > 0.0 && all[0]["bounded_by"].is_string());
    assert!(all[1]["error"].as_str().unwrap().contains("token"));
    // After a log file is moved away, a new one is created.
    fs::rename(&path, log.path().join("old")).unwrap();
    house.server.process.signal(Signal::SIGHUP);
    house.server.logged("clients are read again", 30);
    json(&house.get(Some("tell-me-what-it-is")));
    assert_eq!(lines(&path, 1).len(), 1);
}

#[test]
fn a_log_that_cannot_be_written_ends_no_server() {
    let house = House::new(&["--access-log", "/dev/full"]);
    for _ in 0..3 {
        json(&house.get(Some("tell-me-what-it-is")));
    }
    house.server.logged("cannot write /dev/full", 30);
    json(&house.get(Some("tell-me-what-it-is")));
    // The test only reads the first line, so the reader of standard output is gone.
    let house = House::new(&["--access-log", "-"]);
    for _ in 0..3 {
        json(&house.get(Some("tell-me-what-it-is")));
    }
    house.server.logged("cannot write -", 30);
    json(&house.get(Some("tell-me-what-it-is")));
}
