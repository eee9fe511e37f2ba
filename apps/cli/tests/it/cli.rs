//! The `pathmark` command from a user's perspective: files over loopback, exit codes, JSON.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{
    Process, Server, ended, json, names, offered, pathmark, run, stderr, table, words,
};

fn serve(directory: &Offered) -> Server {
    Server::offering(directory, "127.0.0.1:0", &["--allow-put"])
}

fn file(directory: &impl AsRef<Path>, name: &str, bytes: usize) -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    let content: Vec<u8> = (0..bytes as u32).map(byte).collect();
    let path = directory.as_ref().join(name);
    fs::write(&path, &content).unwrap();
    offered::settle(&path);
    content
}

#[test]
fn files_come_and_go_whole() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let big = file(&there, "big", 3_000_000);
    file(&there, "empty", 0);
    let server = serve(&there);
    let out = here.path().to_str().unwrap();
    let said = json(&server.run(&format!("get @/big @/empty -o {out} --json")));
    assert_eq!(fs::read(here.path().join("big")).unwrap(), big);
    assert_eq!(names(here.path()), ["big", "empty"]);
    assert_eq!(said["bytes_down"], 3_000_000);
    assert!(said["bounded_by"]["application"].is_number());
    assert!(said["bounded_by"]["streams"].is_number());
    let files = said["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    let empty = files.iter().find(|file| file["name"] == "empty").unwrap();
    // SHA-256 of the empty message, FIPS 180-4.
    let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(empty["sha256"], known);

    let said = json(&server.run(&format!("put {out}/big @/sub/copy --cc cubic --json")));
    assert_eq!(said["bytes_up"], 3_000_000);
    assert_eq!(said["algorithm"], "cubic");
    assert_eq!(fs::read(there.path().join("sub/copy")).unwrap(), big);
    assert_eq!(names(&there.path().join("sub")), ["copy"]);
}

#[test]
fn mistakes_have_their_exit_codes_and_say_what_to_do() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    file(&there, "a", 10);
    let server = serve(&there);
    let (at, pin) = (&server.address, &server.pin);
    let (out, other) = (here.path().to_str().unwrap(), "00".repeat(32));
    let cases = format!(
        "get {at}/missing -o {out} --pin {pin} => 1 no file
        get {at}/../a -o {out} --pin {pin} => 2 no name of a file
        get {at}/a -o {out} --pin {other} => 1 certificate
        get {at}/a --pin 12 => 2 64 hexadecimal digits
        get nowhere --insecure => 2 HOST:PORT
        get {at}/a -o /no/such/dir --insecure => 2 no directory
        get {at}/a --cc vpc --insecure => 2 vcp
        put /no/such/file {at} --insecure => 2 No such file
        serve --listen 127.0.0.1:0 --dir /no/such => 2 /no/such
        perf client {at} --insecure => 2 --download
        fly => 2 unrecognized
        gte {at}/a => 2 'get'
        man sing => 2 no command `sing`
        completions sh => 2 bash"
    );
    for (line, outcome) in table(&cases) {
        let (code, word) = outcome.split_once(' ').unwrap();
        let code = code.parse().unwrap();
        let output = run(&words(line));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(word), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1);
    for (line, part) in [
        ("man perf client", ".TH pathmark-perf-client 1"),
        ("man", ".TH pathmark 1"),
        ("completions zsh", "#compdef pathmark"),
    ] {
        let printed = String::from_utf8(run(&words(line)).stdout).unwrap();
        assert!(printed.contains(part), "{line}: {printed}");
    }
}

/// Pipes that nobody writes to or reads from stop no server, and keep none from ending.
#[test]
fn pipes_in_the_place_of_files_stop_no_server() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    file(&there, "a", 10);
    let [log, pipe] = ["log", "pipe"].map(|name| {
        let path = here.path().join(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    });
    let (log, directory) = (log.to_str().unwrap(), there.path().to_str().unwrap());
    let server = Server::offering(&there, "127.0.0.1:0", &["--access-log", log]);
    json(&server.run(&format!("get @/a -o {} --json", here.path().display())));
    let mut serve = pathmark(&["serve", "--listen", "127.0.0.1:0", "--dir", directory]);
    serve.arg("--clients").arg(&pipe);
    let waiting = Process::of(serve);
    // Once it reads, it waits for what is written.
    let writer = std::cell::RefCell::new(None);
    offered::until(|| {
        let opened = fs::File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&pipe);
        *writer.borrow_mut() = opened.ok();
        writer.borrow().is_some()
    });
    waiting.signal(Signal::SIGTERM);
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    waiting.signal(Signal::SIGTERM);
    ended(&waiting.finish(), 1, "without waiting");
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
    let there = Offered::new();
    file(&there, "a", 10);
    let server = serve(&there);
    let (a, pin) = (server.at("a"), server.pin.as_str());
    let here = TempDir::new().unwrap();
    let out = here.path().to_str().unwrap();
    let cases: &[&[&str]] = &[
        &["emulate", "--list"],
        &["emulate", "--harm", "--list"],
        &["get", &a, "-o", out, "--pin", pin],
        &["get", &a, "-o", out, "--pin", pin, "--json"],
    ];
    for arguments in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let gone = pathmark(arguments).stdout(writer).output().unwrap();
        let text = stderr(&gone);
        assert_eq!(gone.status.code(), Some(0), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{arguments:?}: {text}");

        let full = fs::File::create("/dev/full").unwrap();
        let full = pathmark(arguments).stdout(full).output().unwrap();
        let text = stderr(&full);
        assert_eq!(full.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("standard output"), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read(here.path().join("a")).unwrap().len(), 10);
}

#[test]
fn perf_measures_both_directions() {
    let server = Server::start(&["perf", "server", "--cc", "newreno"]);
    let client = |more: &str| json(&server.run(&format!("perf client @ --json {more}")));
    let said = client("--download 2MB --upload 1MB --streams 3");
    assert_eq!(said["bytes_down"], 6_000_000);
    assert_eq!(said["bytes_up"], 3_000_000);
    assert_eq!(said["streams"], 3);
    assert!(said["goodput_down_bps"].as_f64().unwrap() > 0.0);
    assert!(said["rtt_ms"]["min"].as_f64().unwrap() > 0.0);
    assert!(said["cpu_s"].as_f64().unwrap() > 0.0);
    // Each direction has the report of the side that sends.
    assert!(said["up"]["rtt_ms"]["min"].as_f64().unwrap() > 0.0);
    assert_eq!(said["down"]["algorithm"], "newreno");
    assert_eq!(said["bounded_by"], said["up"]["bounded_by"]);

    let said = client("--time 200ms --cc bbr");
    assert!(said["seconds"].as_f64().unwrap() >= 0.2);
    assert!(said["bytes_down"].as_u64().unwrap() > 0);
    assert!(said["up"].is_null());
    assert_eq!(said["algorithm"], "newreno");
    assert_eq!(said["bounded_by"], said["down"]["bounded_by"]);
    assert_eq!(said["packets_lost"], said["down"]["packets_lost"]);
    let warnings = said["warnings"].to_string();
    let warned = warnings.contains("the server sends by newreno");
    assert!(warned, "{warnings}");
}

#[test]
fn packets_leave_with_the_code_point_that_was_asked_for_or_not_at_all() {
    let here = TempDir::new().unwrap();
    let server = Server::start(&["perf", "server", "--dscp", "46"]);
    let ask = |dscp| {
        server.run(&format!(
            "perf client @ --json --download 1MB --dscp {dscp}"
        ))
    };
    assert_eq!(json(&ask(10))["bytes_down"], 1_000_000);
    let directory = here.path().to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--dir", directory];
    for wrong in [ask(64), run(&[&serve[..], &["--dscp", "x"]].concat())] {
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn what_is_not_a_plain_file_blocks_no_transfer() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let pipe = there.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::create_dir(there.path().join("sub")).unwrap();
    file(&there, "a", 10);
    let server = serve(&there);
    let out = here.path().to_str().unwrap();
    // More commands than the server has threads for tasks.
    for (name, word) in [
        ("pipe", "a pipe"),
        ("pipe", "a pipe"),
        ("pipe", "a pipe"),
        ("sub", "there is no file"),
    ] {
        ended(&server.run(&format!("get @/{name} -o {out}")), 1, word);
    }
    json(&server.run(&format!("get @/a -o {out} --json")));
    // This file has contents, although the system reports a size of zero.
    let endless = server.run("put /proc/self/status @/status");
    ended(&endless, 1, "how many bytes");
    assert_eq!(names(there.path()), ["a", "pipe", "sub"]);
}

#[test]
fn each_of_several_files_is_reported() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    for name in ["a", "b"] {
        file(&there, name, 10);
    }
    let server = serve(&there);
    let out = here.path().to_str().unwrap();
    let get = format!("get @/a @/gone @/b @/lost -o {out}");
    let output = server.run(&format!("{get} --json"));
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = said["files"].as_array().unwrap();
    let expected = [("a", true), ("gone", false), ("b", true), ("lost", false)];
    for (file, (name, came)) in files.iter().zip(expected) {
        assert_eq!(file["name"], name);
        assert_eq!(file["sha256"].is_string(), came, "{file}");
        assert_eq!(file["error"].is_string(), !came, "{file}");
    }
    assert_eq!(said["streams"], 2);
    let output = server.run(&get);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("  a\n") && out.contains("  b\n"), "{out}");
    ended(&output, 1, "fetch gone");
    // So few bytes say nothing about the path.
    assert!(!stderr(&output).contains("ruled by"));
    ended(&output, 1, "fetch lost");
}

#[test]
fn a_wrong_server_is_reported_for_each_file() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    file(&here, "a", 10);
    let server = serve(&there);
    let (out, other) = (here.path().to_str().unwrap(), "00".repeat(32));
    let (own, name) = (format!("{out}/a"), format!("{}/b", server.address));
    let commands: [&[&str]; 2] = [&["get", &name, "-o", out], &["put", &own, &name]];
    for command in commands {
        let output = run(&[command, &["--pin", &other, "--json"]].concat());
        assert_eq!(output.status.code(), Some(1));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let failed = &said["files"][0];
        assert_eq!(failed["name"], "b");
        let error = failed["error"].as_str().unwrap();
        assert_eq!(error.matches(&server.address).count(), 1, "{error}");
        assert_eq!(error.matches("was refused").count(), 1, "{error}");
    }
}

#[test]
fn a_slash_at_the_end_is_a_directory() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let path = |name: &str| {
        file(&here, name, 10);
        here.path().join(name).to_str().unwrap().to_owned()
    };
    let (a, b) = (path("a"), path("b"));
    let server = serve(&there);
    json(&server.run(&format!("put {a} {b} @/sub/ --json")));
    assert_eq!(names(&there.path().join("sub")), ["a", "b"]);
    json(&server.run(&format!("put {a} @/other/ --json")));
    assert_eq!(names(&there.path().join("other")), ["a"]);
    for more in ["", " --force"] {
        let output = server.run(&format!("put {a} @/sub{more}"));
        ended(&output, 1, "a directory");
    }
}

#[test]
fn a_log_that_takes_nothing_changes_no_exit_code() {
    let there = Offered::new();
    for (line, code) in [
        ("get nowhere:1/a -o /no/such", 2),
        ("serve --listen 127.0.0.1:0 --dir /no/such", 2),
        ("compare --estimate", 0),
        ("vcp-router check --config /no/such", 2),
        ("vcp-router show --socket /no/such", 1),
    ] {
        let full = fs::File::create("/dev/full").unwrap();
        let mut command = pathmark(&words(line));
        command.env("RUST_LOG", "trace").current_dir(there.path());
        let output = command.stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}");
    }
}
