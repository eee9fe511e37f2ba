//! Transfers that meet or are killed, and the rights of a server's clients. Real sockets and
//! processes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::gate::Gate;
use crate::common::offered::{Offered, settle, unfinished, unfinished_bytes, until};
use crate::common::{Process, ended, first_object, json, names, run};

struct Server {
    process: Process,
    directory: Offered,
    address: String,
    pin: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::offering(Offered::new(), arguments)
    }

    fn offering(directory: Offered, arguments: &[&str]) -> Self {
        let path = directory.path().to_str().unwrap();
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--json", "--dir", path];
        let mut process = Process::start(&[&fixed, arguments].concat());
        let said = first_object(process.0.stdout.take().unwrap());
        Self {
            process,
            address: said["listening"].as_str().unwrap().to_owned(),
            pin: said["pin"].as_str().unwrap().to_owned(),
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, bytes: usize) -> Vec<u8> {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = content(name, bytes);
        fs::write(&path, &content).unwrap();
        settle(&path);
        content
    }

    /// Starts a `put` to `target`, a name or nothing, and returns once it is held up midway.
    fn held_up(&self, path: &Path, target: &str, more: &[&str]) -> (Gate, Process) {
        let gate = Gate::new(&self.address, SOME);
        let slow = format!("{}{target}", gate.address);
        let put = Process::start(&self.put(path, &slow, more));
        until(|| unfinished_bytes(self.directory.path()) > 0);
        (gate, put)
    }

    /// Returns the arguments of a `get` of `names` through `address`.
    fn get<'a>(&'a self, targets: &'a [String], out: &'a Path) -> Vec<&'a str> {
        let mut arguments = vec!["get"];
        arguments.extend(targets.iter().map(String::as_str));
        let out = out.to_str().unwrap();
        arguments.extend(["-o", out, "--pin", &self.pin, "--json"]);
        arguments
    }

    /// Returns the arguments of a `put` of `file` to `target`.
    fn put<'a>(&'a self, file: &'a Path, target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let file = file.to_str().unwrap();
        let fixed = ["put", file, target, "--pin", &self.pin, "--json"];
        [&fixed, more].concat()
    }
}

fn content(name: &str, bytes: usize) -> Vec<u8> {
    let seed = name.bytes().fold(1_u32, |seed, b| seed * 31 + u32::from(b));
    let byte = |i: u32| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8;
    (0..bytes as u32).map(byte).collect()
}

/// Checks that a command ended with this exit code and printed `word` on stderr. Usage errors are
/// not on stdout, whereas failures are, with the reason.
#[track_caller]
fn refused(output: &Output, code: i32, word: &str) {
    ended(output, code, word);
    if code == 2 {
        return assert!(output.stdout.is_empty());
    }
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    for file in said["files"].as_array().unwrap() {
        let error = file["error"].as_str().unwrap();
        assert!(error.contains(word), "{error}");
    }
}

const BIG: usize = 2_000_000;

/// Enough for a handshake and some of the file.
const SOME: u64 = 500_000;

#[test]
fn one_of_two_gets_of_one_file_is_killed_midway() {
    let server = Server::start(&[]);
    let big = server.write("big", BIG);
    let here = TempDir::new().unwrap();
    let part = || unfinished_bytes(here.path());
    let gate = Gate::new(&server.address, SOME);
    let slow = [format!("{}/big", gate.address)];
    let direct = [format!("{}/big", server.address)];
    let first = Process::start(&server.get(&slow, here.path()));
    until(|| part() > 0);
    // While the first command runs, a second one is refused and changes no file.
    let second = run(&server.get(&direct, here.path()));
    refused(&second, 1, "another transfer");
    let there = names(here.path());
    assert!(there.len() == 2 && there.iter().all(|name| name.starts_with(".pathmark-")));
    drop(first);
    let left = part();
    assert!((1..BIG as u64).contains(&left), "{left}");
    // With the same source, the transfer continues.
    gate.open();
    let said = json(&run(&server.get(&slow, here.path())));
    // The last byte is fetched again, so that there is always something to request.
    assert_eq!(said["files"][0]["resumed_bytes"], left - 1);
    assert!(fs::read(here.path().join("big")).unwrap() == big);
    assert_eq!(names(here.path()), ["big"]);
}

#[test]
fn a_get_ends_well_after_another_of_the_same_file_was_interrupted() {
    let server = Server::start(&[]);
    let big = server.write("big", BIG);
    let here = TempDir::new().unwrap();
    let [one, two] = [(); 2].map(|()| Gate::new(&server.address, SOME));
    let targets = |gate: &Gate| [format!("{}/big", gate.address)];
    let first = Process::start(&server.get(&targets(&one), here.path()));
    until(|| unfinished_bytes(here.path()) > 0);
    let second = Process::start(&server.get(&targets(&two), here.path()));
    two.open();
    refused(&second.finish(), 1, "another transfer");
    one.open();
    let said = json(&first.finish());
    assert_eq!(said["bytes_down"], BIG);
    assert!(fs::read(here.path().join("big")).unwrap() == big);
    assert_eq!(names(here.path()), ["big"]);
}

#[test]
fn two_sources_of_one_name_are_refused_before_anything_moves() {
    let server = Server::start(&["--allow-put"]);
    server.write("x/f", 10);
    server.write("y/f", 10);
    let here = TempDir::new().unwrap();
    let at = |name: &str| format!("{}/{name}", server.address);
    // No packet could reach this host, but it isn't even tried.
    for second in [at("y/f"), at("x/f"), "192.0.2.1:1/f".to_owned()] {
        let both = run(&server.get(&[at("x/f"), second], here.path()));
        refused(&both, 2, "would both become");
    }
    let part = run(&server.get(&[at("x/.pathmark-f.part")], here.path()));
    refused(&part, 2, "unfinished");
    assert!(names(here.path()).is_empty());
    fs::create_dir(here.path().join("f")).unwrap();
    refused(&run(&server.get(&[at("x/f")], here.path())), 2, "directory");

    let (one, two) = (server.path("x/f"), server.path("y/f"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let put = ["put", one, two, &server.address, "--pin", &server.pin];
    refused(&run(&put), 2, "would both become");
    assert_eq!(names(server.directory.path()), ["x", "y"]);
}

#[test]
fn two_puts_of_one_name_do_not_mix() {
    let server = Server::start(&["--allow-put"]);
    let here = TempDir::new().unwrap();
    let file = |name: &str| {
        let path = here.path().join(name);
        fs::write(&path, content(name, BIG)).unwrap();
        path
    };
    let (a, b, c) = (file("a"), file("b"), file("c"));
    let direct = format!("{}/f", server.address);
    let (gate, first) = server.held_up(&a, "/f", &[]);
    json(&run(&server.put(&b, &direct, &[])));
    assert!(fs::read(server.path("f")).unwrap() == content("b", BIG));
    // The first one is too late: it would replace a file without `--force`.
    gate.open();
    refused(&first.finish(), 1, "--force");
    assert!(fs::read(server.path("f")).unwrap() == content("b", BIG));
    refused(&run(&server.put(&c, &direct, &[])), 1, "--force");
    json(&run(&server.put(&c, &direct, &["--force"])));
    assert!(fs::read(server.path("f")).unwrap() == content("c", BIG));

    // If both replace the file, the one that ends later remains; each reports its own outcome.
    let (gate, first) = server.held_up(&a, "/f", &["--force"]);
    json(&run(&server.put(&b, &direct, &["--force"])));
    gate.open();
    json(&first.finish());
    assert!(fs::read(server.path("f")).unwrap() == content("a", BIG));
    assert_eq!(names(server.directory.path()), ["f"]);
}

#[test]
fn what_a_killed_server_left_of_a_put_is_in_nobodys_way() {
    let server = Server::start(&["--allow-put"]);
    let here = TempDir::new().unwrap();
    let path = here.path().join("f");
    fs::write(&path, content("f", BIG)).unwrap();
    let (_gate, client) = server.held_up(&path, "", &[]);
    let (left, _) = unfinished(server.directory.path()).unwrap();
    let left = left.file_name().unwrap().to_str().unwrap().to_owned();
    let Server {
        process, directory, ..
    } = server;
    drop(process);
    drop(client);
    assert_eq!(names(directory.path()), [left.as_str()]);
    let server = Server::offering(directory, &["--allow-put"]);
    let unfinished = format!("{}/{left}", server.address);
    let out = here.path().join("out");
    fs::create_dir(&out).unwrap();
    let get = run(&server.get(std::slice::from_ref(&unfinished), &out));
    refused(&get, 2, "unfinished");
    refused(&run(&server.put(&path, &unfinished, &[])), 1, "unfinished");
    json(&run(&server.put(&path, &server.address, &[])));
    assert!(fs::read(server.path("f")).unwrap() == content("f", BIG));
    assert_eq!(names(server.directory.path()), ["f"]);
}

#[test]
fn nothing_is_stored_where_it_is_not_allowed() {
    let server = Server::start(&[]);
    server.write("a", 10);
    let here = TempDir::new().unwrap();
    let file = here.path().join("a");
    fs::write(&file, content("other", BIG)).unwrap();
    for name in ["a", "new", "sub/new"] {
        let target = format!("{}/{name}", server.address);
        for more in [&[][..], &["--force"]] {
            refused(&run(&server.put(&file, &target, more)), 1, "--allow-put");
        }
    }
    assert_eq!(names(server.directory.path()), ["a"]);
    assert_eq!(fs::read(server.path("a")).unwrap(), content("a", 10));
}

#[test]
fn the_law_is_the_servers() {
    let laws = "vcp+bise+wlte,xcp[loss=fallback],cubic";
    for (listed, wish, used) in [
        (laws, None, "vcp+bise+wlte"),
        (laws, Some("cubic"), "cubic"),
        (laws, Some("xcp[loss=fallback]"), "xcp[loss=fallback]"),
        (laws, Some("xcp"), "xcp[loss=fallback]"),
        (laws, Some("xcp[loss=ignore]"), "vcp+bise+wlte"),
        (laws, Some("cubic[iw=10000]"), "vcp+bise+wlte"),
        ("cubic", Some("xcp"), "cubic"),
        ("cubic,vcp", Some("vcp"), "vcp"),
    ] {
        let server = Server::start(&["--cc", listed]);
        server.write("a", 100_000);
        let here = TempDir::new().unwrap();
        let target = [format!("{}/a", server.address)];
        let mut get = server.get(&target, here.path());
        get.extend(wish.iter().flat_map(|wish| ["--cc", wish]));
        let said = json(&run(&get));
        assert_eq!(said["algorithm"], used, "{wish:?} of {listed}");
        let warnings = said["warnings"].to_string();
        let warned = warnings.contains(&format!("the server sends by {used}"));
        assert_eq!(warned, wish.is_some_and(|wish| wish != used), "{warnings}");
    }
    let server = ["serve", "--listen", "127.0.0.1:0", "--dir", "."];
    let wrong = run(&[&server[..], &["--cc", "vcp,vpc"]].concat());
    refused(&wrong, 2, "vcp");
}

/// More than both sides buffer of a file in transfer.
const LARGE: u64 = 16_000_000;

#[test]
fn a_file_that_shrinks_while_it_is_stored_is_reported_and_not_stored() {
    let server = Server::start(&["--allow-put"]);
    let here = TempDir::new().unwrap();
    let path = here.path().join("f");
    let file = fs::File::create(&path).unwrap();
    file.set_len(LARGE).unwrap();
    let (gate, client) = server.held_up(&path, "", &[]);
    file.set_len(1000).unwrap();
    gate.open();
    refused(&client.finish(), 1, "became shorter");
    until(|| names(server.directory.path()).is_empty());
}

#[test]
fn a_file_that_changes_while_it_is_fetched_is_reported_and_not_kept() {
    let server = Server::start(&[]);
    let file = fs::File::create(server.path("f")).unwrap();
    file.set_len(LARGE).unwrap();
    settle(&server.path("f"));
    let here = TempDir::new().unwrap();
    let gate = Gate::new(&server.address, SOME);
    let slow = [format!("{}/f", gate.address)];
    let client = Process::start(&server.get(&slow, here.path()));
    until(|| unfinished_bytes(here.path()) > 0);
    file.write_all_at(b"new", 0).unwrap();
    gate.open();
    refused(&client.finish(), 1, "the file changed while it was sent");
    // The received part can't be used, so the next transfer starts at byte 0.
    let direct = [format!("{}/f", server.address)];
    let said = json(&run(&server.get(&direct, here.path())));
    assert_eq!(said["bytes_down"], LARGE);
    assert_eq!(&fs::read(here.path().join("f")).unwrap()[..4], b"new\0");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a time limit, far below the idle timeout"
)]
fn a_client_that_is_interrupted_says_so_and_leaves_nothing_unfinished() {
    let server = Server::start(&["--allow-put"]);
    let here = TempDir::new().unwrap();
    let path = here.path().join("f");
    // A sparse file of 10 GB: the transfer takes long, but the disk stays empty.
    let file = fs::File::create(&path).unwrap();
    file.set_len(10_000_000_000).unwrap();
    let client = Process::start(&server.put(&path, &server.address, &[]));
    until(|| unfinished_bytes(server.directory.path()) > 0);
    let begun = std::time::Instant::now();
    client.signal(Signal::SIGINT);
    let output = client.finish();
    ended(&output, 1, "interrupted");
    until(|| names(server.directory.path()).is_empty());
    assert!(begun.elapsed() < std::time::Duration::from_secs(15));
}

#[test]
fn a_server_that_is_stopped_says_so_and_leaves_nothing_unfinished() {
    let mut server = Server::start(&["--allow-put"]);
    let here = TempDir::new().unwrap();
    let path = here.path().join("f");
    fs::write(&path, content("f", BIG)).unwrap();
    let (gate, client) = server.held_up(&path, "", &[]);
    server.process.signal(Signal::SIGTERM);
    until(|| names(server.directory.path()).is_empty());
    gate.open();
    refused(&client.finish(), 1, "the server was stopped");
    assert_eq!(server.process.0.wait().unwrap().code(), Some(0));
}
