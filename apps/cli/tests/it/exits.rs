//! How commands end: their JSON shows this, always with the same keys.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, until, until_unfinished};
use crate::common::{Process, Server, ended, json, object, pathmark, stderr, words};

/// A request of a test to a server, in each of the three ways.
struct Jobs {
    here: TempDir,
}

impl Jobs {
    fn new() -> Self {
        let here = TempDir::new().unwrap();
        let file = fs::File::create(here.path().join("up")).unwrap();
        // A sparse file of 10 GB: the transfer takes long, but the disk stays empty.
        file.set_len(10_000_000_000).unwrap();
        fs::write(here.path().join("small"), b"small").unwrap();
        Self { here }
    }

    /// Returns `get` and `put` of a large or small file, and `perf client`, at `address`.
    fn at(&self, address: &str, large: bool) -> Vec<Vec<String>> {
        let path = |name: &str| self.here.path().join(name).to_str().unwrap().to_owned();
        let (fetch, store, name) = if large {
            ("down", "up", "c")
        } else {
            ("a", "small", "b")
        };
        let get = ["get", &format!("{address}/{fetch}"), "-o", &path("")].map(str::to_owned);
        let put = ["put", &path(store), &format!("{address}/{name}")].map(str::to_owned);
        vec![get.to_vec(), put.to_vec(), perf(address, large)]
    }
}

fn perf(address: &str, large: bool) -> Vec<String> {
    let bytes = if large { "1TB" } else { "10kB" };
    let perf = ["perf", "client", address, "--download", bytes];
    perf.map(str::to_owned).to_vec()
}

fn start(arguments: &[String], more: &[&str]) -> Process {
    let mut all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    all.extend(more);
    all.push("--json");
    Process::start(&all)
}

/// Returns the type of a value, or `None` if the value is not known.
fn type_of(value: &Value) -> Option<&'static str> {
    match value {
        Value::Number(_) => Some("number"),
        Value::Bool(_) => Some("bool"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
        Value::String(_) => Some("string"),
        Value::Null => None,
    }
}

/// Checks that two objects have the same keys, and values of the same types where both are known.
#[track_caller]
fn alike(said: &Value, other: &Value) {
    let (one, other) = (said.as_object().unwrap(), other.as_object().unwrap());
    assert!(one.keys().eq(other.keys()), "{said}");
    for (key, value) in one {
        if let (Some(one), Some(other)) = (type_of(value), type_of(&other[key])) {
            assert_eq!(one, other, "{key}: {said}");
        }
    }
}

/// What only a connection and its sender know.
const OF_SENDER: [&str; 6] = [
    "controllers",
    "packets_lost",
    "rtt_ms",
    "bounded_by",
    "ecn",
    "known_path",
];

/// Checks that the object of an attempt without a connection has nothing that isn't known.
#[track_caller]
fn has_no_connection(said: &Value, seconds: f64) {
    for key in OF_SENDER.iter().chain(&["handshake_ms"]) {
        assert_eq!(said[key], Value::Null, "{key}: {said}");
    }
    for key in ["bytes_up", "bytes_down"] {
        assert_eq!(said[key], 0, "{said}");
    }
    for key in ["goodput_up_bps", "goodput_down_bps"] {
        assert_eq!(said[key], 0.0, "{said}");
    }
    let took = said["seconds"].as_f64().unwrap();
    assert!(took > seconds && took < seconds + 20.0, "{said}");
    for file in said["files"].as_array().into_iter().flatten() {
        assert_eq!(file["seconds"], said["seconds"], "{said}");
        assert_eq!(file["bytes"], 0, "{said}");
    }
}

/// Checks that the object of a broken transfer has what was moved in which time.
#[track_caller]
fn has_moved(said: &Value, direction: &str) {
    let number = |key: String| said[key].as_f64().unwrap();
    let (bytes, seconds) = (
        number(format!("bytes_{direction}")),
        number("seconds".into()),
    );
    let rate = number(format!("goodput_{direction}_bps"));
    assert!(bytes > 0.0 && seconds > 0.0, "{said}");
    assert!((rate * seconds / 8.0 / bytes - 1.0).abs() < 1e-6, "{said}");
    assert!(number("handshake_ms".into()) > 0.0);
    for file in said["files"].as_array().into_iter().flatten() {
        assert_eq!(file["bytes"].as_f64(), Some(bytes), "{said}");
        assert!(file["seconds"].as_f64().unwrap() > 0.0, "{said}");
    }
    // The sender of what is fetched is gone with its figures.
    for key in OF_SENDER {
        assert_eq!(said[key].is_null(), direction == "down", "{key}: {said}");
    }
}

/// Checks that a command failed with the reason `word` in its object and on stderr.
#[track_caller]
fn failed(output: &Output, word: &str) -> Value {
    ended(output, 1, word);
    let said = object(output);
    assert!(said["error"].as_str().unwrap().contains(word), "{said}");
    said
}

/// Starts a server of files, and one of measurements.
fn servers(there: &Offered) -> [Server; 2] {
    fs::write(there.path().join("a"), b"0123456789").unwrap();
    let down = fs::File::create(there.path().join("down")).unwrap();
    down.set_len(50_000_000_000).unwrap();
    let directory = there.path().to_str().unwrap();
    [
        Server::start(&["serve", "--dir", directory, "--allow-put"]),
        Server::start(&["perf", "server"]),
    ]
}

/// Returns the commands, each with the pin of its server.
fn each(jobs: &Jobs, servers: &[Server; 2], large: bool) -> Vec<(Vec<String>, String)> {
    let [files, perf_server] = servers;
    let mut all = jobs.at(&files.address, large);
    all[2] = perf(&perf_server.address, large);
    let pins = [&files.pin, &files.pin, &perf_server.pin];
    all.into_iter().zip(pins.map(Clone::clone)).collect()
}

fn until_there(file: &Path) {
    until(|| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0));
}

/// Waits until an unfinished file in a directory has contents.
fn until_begun(directory: &Path) {
    until_unfinished(directory, 1);
}

#[test]
fn keys_and_types_are_the_same_on_every_exit() {
    let there = Offered::new();
    let (jobs, servers) = (Jobs::new(), servers(&there));
    // The socket is dropped at once.
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let closed = closed.unwrap();
    let silent_socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = silent_socket.local_addr().unwrap().to_string();
    let small = each(&jobs, &servers, false);
    let large = each(&jobs, &servers, true);
    let refused = jobs.at(&closed.to_string(), false);
    let unanswered = jobs.at(&silent, false);
    for (place, (done, pin)) in small.iter().enumerate() {
        let pin = ["--pin", pin.as_str()];
        let done = json(&start(done, &pin).finish());
        assert_eq!(done["error"], Value::Null);

        let refused = start(&refused[place], &["--insecure"]);
        let refused = failed(&refused.finish(), "refuses");
        has_no_connection(&refused, 0.0);

        let limit = ["--insecure", "--connect-timeout", "300ms"];
        let unanswered_for = start(&unanswered[place], &limit).finish();
        let unanswered_for = failed(&unanswered_for, "no answer within 300ms");
        has_no_connection(&unanswered_for, 0.3);

        let (other, address) = ("00".repeat(32), &small[place].0);
        let not_trusted = failed(&start(address, &["--pin", &other]).finish(), "certificate");

        // Discard packets of earlier attempts, so that the first packet belongs to this attempt.
        silent_socket.set_nonblocking(true).unwrap();
        while silent_socket.recv(&mut [0; 2000]).is_ok() {}
        silent_socket.set_nonblocking(false).unwrap();
        let connecting = start(&unanswered[place], &["--insecure"]);
        silent_socket.recv(&mut [0; 2000]).unwrap();
        connecting.signal(Signal::SIGINT);
        let connecting = failed(&connecting.finish(), "interrupted");

        let under_way = start(&large[place].0, &pin);
        match place {
            0 => until_begun(jobs.here.path()),
            1 => until_begun(there.path()),
            // The first line was that of the previous connection.
            _ => drop(servers[1].logged("gone", 10) + &servers[1].logged("connected", 10)),
        }
        under_way.signal(Signal::SIGTERM);
        let under_way = failed(&under_way.finish(), "interrupted");

        for said in [
            &refused,
            &unanswered_for,
            &not_trusted,
            &connecting,
            &under_way,
        ] {
            alike(said, &done);
            let files = |said: &Value| said["files"].as_array().cloned().unwrap_or_default();
            for (file, whole) in files(said).iter().zip(files(&done)) {
                alike(file, &whole);
            }
        }
    }
}

/// Servers that are killed midway leave what the client knows itself: time, bytes and rate.
#[test]
fn what_a_client_of_a_killed_server_knows_is_in_its_object() {
    let there = Offered::new();
    let (jobs, servers) = (Jobs::new(), servers(&there));
    let large = each(&jobs, &servers, true);
    let begin = |place: usize| start(&large[place].0, &["--pin", &large[place].1]);
    let get = begin(0);
    until_begun(jobs.here.path());
    let put = begin(1);
    // A piece has been sent completely.
    until_unfinished(there.path(), 8_000_000);
    let [files, perf_server] = servers;
    let address = files.address.clone();
    drop(files);
    // The new server resets the connections of the old one.
    let _again = Server::offering(&there, &address, &["--allow-put"]);
    has_moved(&failed(&get.finish(), "reset"), "down");
    has_moved(&failed(&put.finish(), "reset"), "up");
    let perf = begin(2);
    perf_server.logged("connected", 10);
    std::thread::park_timeout(Duration::from_millis(200));
    // It has no key that stays, so it takes its leave.
    perf_server.process.signal(Signal::SIGTERM);
    has_moved(&failed(&perf.finish(), "stopped"), "down");
}

/// If one of several files is complete before the interrupt, it is reported as a success.
#[test]
fn files_done_before_an_interrupt_are_reported_as_done() {
    let there = Offered::new();
    let (jobs, servers) = (Jobs::new(), servers(&there));
    let [files, _] = &servers;
    let targets = ["a", "down"].map(|name| files.at(name));
    let out = jobs.here.path().to_str().unwrap();
    let [a, down] = &targets;
    let get = ["get", a, down, "-o", out, "--pin", &files.pin, "--json"];
    let get = Process::start(&get);
    until_there(&jobs.here.path().join("a"));
    // The file is read back at this time, and then counts.
    until_begun(jobs.here.path());
    std::thread::park_timeout(Duration::from_millis(500));
    get.signal(Signal::SIGINT);
    let said = failed(&get.finish(), "interrupted");
    assert_eq!(said["files"][0]["error"], Value::Null, "{said}");
    assert!(said["files"][0]["sha256"].is_string());
    assert_eq!(said["files"][1]["error"], "interrupted");
}

#[test]
fn perf_tells_each_second_and_sums_up_when_it_is_stopped() {
    let server = Server::start(&["perf", "server"]);
    let line = format!(
        "perf client {} --pin {} --time 60s",
        server.address, server.pin
    );
    let client = Process::start(&words(&line));
    std::thread::park_timeout(Duration::from_millis(1500));
    client.signal(Signal::SIGINT);
    let output = client.finish();
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let intervals = stderr.lines().filter(|line| line.contains(" s to "));
    assert_eq!(intervals.count(), 1, "{stderr}");
    assert!(stderr.contains("bytes down in 1."), "{stderr}");
    assert!(stderr.ends_with("pathmark: interrupted\n"), "{stderr}");
    server.logged("bytes_sent", 10);
}

#[test]
fn perf_opens_as_many_streams_as_it_was_asked_for() {
    let server = Server::start(&["perf", "server"]);
    let run = |more: &str| server.run(&format!("perf client @ --json --streams {more}"));
    let said = json(&run("500 --download 20kB --upload 1kB"));
    assert_eq!(said["streams"], 500);
    assert_eq!(said["bytes_down"], 500 * 20_000);
    assert_eq!(said["bytes_up"], 500 * 1000);
    assert_eq!(run("1001 --time 1s").status.code(), Some(2));
}

/// The duration of a handshake includes the time until another thread sends its first packet.
#[test]
fn a_handshake_takes_a_round_trip_at_least() {
    let server = Server::start(&["perf", "server"]);
    for _ in 0..10 {
        let said = json(&server.run("perf client @ --json --download 1"));
        let handshake = said["handshake_ms"].as_f64().unwrap();
        let least = said["rtt_ms"]["min"].as_f64().unwrap();
        assert!(handshake >= least, "{said}");
    }
}

/// 32 files at once need more descriptors than the soft limit allows.
#[test]
fn the_limit_of_open_files_is_raised_and_named_where_it_is_hard() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let file = |n: usize| {
        let path = here.path().join(n.to_string());
        fs::write(&path, vec![7; 200_000]).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files: Vec<String> = (0..64).map(file).collect();
    for (limit, is_enough) in [("-Sn", true), ("-n", false)] {
        let mut serve = std::process::Command::new("sh");
        let line = format!("ulimit {limit} 28; exec \"$0\" \"$@\"");
        serve.args([
            "-c",
            &line,
            env!("CARGO_BIN_EXE_pathmark"),
            "serve",
            "--dir",
        ]);
        serve.arg(there.path().join(limit));
        fs::create_dir(there.path().join(limit)).unwrap();
        serve.args(["--allow-put", "--listen", "127.0.0.1:0", "--json"]);
        let server = Server::of(serve);
        let output = server.run(&format!("put {} @", files.join(" ")));
        let stderr = stderr(&output);
        assert_eq!(output.status.success(), is_enough, "{stderr}");
        let named = stderr.contains("raise the hard limit");
        assert_eq!(named, !is_enough, "{stderr}");
    }
}

#[test]
fn a_port_alone_means_all_addresses() {
    let there = Offered::new();
    fs::write(there.path().join("a"), b"0123456789").unwrap();
    for form in [":0", "0"] {
        let server = Server::offering(&there, form, &[]);
        let (_, port) = server.address.rsplit_once(':').unwrap();
        for host in ["127.0.0.1", "[::1]"] {
            let here = TempDir::new().unwrap();
            let out = here.path().display();
            json(&server.run(&format!("get {host}:{port}/a -o {out} --json")));
        }
        let taken = pathmark(&["perf", "server", "--listen", &format!(":{port}")]).output();
        let words = format!("another process has UDP port {port}");
        ended(&taken.unwrap(), 1, &words);
    }
}
