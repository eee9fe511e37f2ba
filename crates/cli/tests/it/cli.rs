//! The `pathmark` command from a user's perspective: files over loopback, exit codes, JSON.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{first_object, offered, pathmark};

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
    pin: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls only fail if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(arguments: &[&str]) -> Server {
    let mut child = pathmark(arguments)
        .args(["--listen", "127.0.0.1:0", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = first_object(child.stdout.take().unwrap());
    Server {
        child,
        address: said["listening"].as_str().unwrap().to_owned(),
        pin: said["pin"].as_str().unwrap().to_owned(),
    }
}

fn serve(directory: &Path) -> Server {
    start(&["serve", "--dir", directory.to_str().unwrap(), "--allow-put"])
}

fn run(arguments: &[&str]) -> Output {
    pathmark(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(directory: &impl AsRef<Path>, name: &str, bytes: usize) -> Vec<u8> {
    let content: Vec<u8> = (0..bytes as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let path = directory.as_ref().join(name);
    fs::write(&path, &content).unwrap();
    offered::settle(&path);
    content
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_come_and_go_whole() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let big = file(&there, "big", 3_000_000);
    file(&there, "empty", 0);
    let server = serve(there.path());
    let (out, pin) = (here.path().to_str().unwrap(), server.pin.as_str());
    let a = format!("{}/big", server.address);
    let b = format!("{}/empty", server.address);
    let said = json(&run(&["get", &a, &b, "-o", out, "--pin", pin, "--json"]));
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

    let source = here.path().join("big");
    let source = source.to_str().unwrap();
    let to = format!("{}/sub/copy", server.address);
    let said = json(&run(&[
        "put", source, &to, "--pin", pin, "--cc", "cubic", "--json",
    ]));
    assert_eq!(said["bytes_up"], 3_000_000);
    assert_eq!(said["algorithm"], "cubic");
    assert_eq!(fs::read(there.path().join("sub/copy")).unwrap(), big);
    assert_eq!(names(&there.path().join("sub")), ["copy"]);
}

#[test]
fn mistakes_have_their_exit_codes_and_say_what_to_do() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    file(&there, "a", 10);
    let server = serve(there.path());
    let out = here.path().to_str().unwrap();
    let at = |name: &str| format!("{}/{name}", server.address);
    let (a, missing, outside) = (at("a"), at("missing"), at("../a"));
    let other = "00".repeat(32);
    let pin = server.pin.as_str();
    let address = server.address.as_str();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["get", &missing, "-o", out, "--pin", pin], 1, "no file"),
        (
            &["get", &outside, "-o", out, "--pin", pin],
            2,
            "no name of a file",
        ),
        (&["get", &a, "-o", out, "--pin", &other], 1, "certificate"),
        (&["get", &a, "--pin", "12"], 2, "64 hexadecimal digits"),
        (&["get", "nowhere", "--insecure"], 2, "HOST:PORT"),
        (
            &["get", &a, "-o", "/no/such/dir", "--insecure"],
            2,
            "no directory",
        ),
        (&["get", &a, "--cc", "vpc", "--insecure"], 2, "vcp"),
        (
            &["put", "/no/such/file", address, "--insecure"],
            2,
            "No such file",
        ),
        (
            &["serve", "--listen", "127.0.0.1:0", "--dir", "/no/such"],
            2,
            "/no/such",
        ),
        (&["perf", "client", address, "--insecure"], 2, "--download"),
        (&["fly"], 2, "unrecognized"),
    ];
    for (arguments, code, word) in cases {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
    let there = Offered::new();
    file(&there, "a", 10);
    let server = serve(there.path());
    let (a, pin) = (format!("{}/a", server.address), server.pin.as_str());
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
        let text = String::from_utf8_lossy(&gone.stderr);
        assert_eq!(gone.status.code(), Some(0), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{arguments:?}: {text}");

        let full = fs::File::create("/dev/full").unwrap();
        let full = pathmark(arguments).stdout(full).output().unwrap();
        let text = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("standard output"), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read(here.path().join("a")).unwrap().len(), 10);
}

#[test]
fn perf_measures_both_directions() {
    let server = start(&["perf", "server", "--cc", "newreno"]);
    let client = |more: &[&str]| {
        let fixed = [
            "perf",
            "client",
            &server.address,
            "--pin",
            &server.pin,
            "--json",
        ];
        json(&run(&[&fixed, more].concat()))
    };
    let said = client(&["--download", "2MB", "--upload", "1MB", "--streams", "3"]);
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

    let said = client(&["--time", "200ms", "--cc", "bbr"]);
    assert!(said["seconds"].as_f64().unwrap() >= 0.2);
    assert!(said["bytes_down"].as_u64().unwrap() > 0);
    assert!(said["up"].is_null());
    assert_eq!(said["algorithm"], "newreno");
    assert_eq!(said["bounded_by"], said["down"]["bounded_by"]);
    assert_eq!(said["packets_lost"], said["down"]["packets_lost"]);
    let warnings = said["warnings"].to_string();
    assert!(
        warnings.contains("the server sends by newreno"),
        "{warnings}"
    );
}

#[test]
fn packets_leave_with_the_code_point_that_was_asked_for_or_not_at_all() {
    let here = TempDir::new().unwrap();
    let server = start(&["perf", "server", "--dscp", "46"]);
    let client = [
        "perf",
        "client",
        &server.address,
        "--pin",
        &server.pin,
        "--json",
    ];
    let ask = |more: &[&str]| run(&[&client[..], &["--download", "1MB"], more].concat());
    assert_eq!(json(&ask(&["--dscp", "10"]))["bytes_down"], 1_000_000);
    let wrong = ask(&["--dscp", "64"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let directory = here.path().to_str().unwrap();
    let wrong = run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--dir",
        directory,
        "--dscp",
        "x",
    ]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn what_is_not_a_plain_file_blocks_no_transfer() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let pipe = there.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::create_dir(there.path().join("sub")).unwrap();
    file(&there, "a", 10);
    let server = serve(there.path());
    let (out, pin) = (here.path().to_str().unwrap(), server.pin.as_str());
    let at = |name: &str| format!("{}/{name}", server.address);
    // More commands than the server has threads for tasks.
    for (name, word) in [
        ("pipe", "a pipe"),
        ("pipe", "a pipe"),
        ("pipe", "a pipe"),
        ("sub", "there is no file"),
    ] {
        let output = run(&["get", &at(name), "-o", out, "--pin", pin]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(word), "{text}");
    }
    json(&run(&["get", &at("a"), "-o", out, "--pin", pin, "--json"]));
    // This file has contents, although the system reports a size of zero.
    let endless = run(&["put", "/proc/self/status", &at("status"), "--pin", pin]);
    let text = String::from_utf8_lossy(&endless.stderr);
    assert_eq!(endless.status.code(), Some(1), "{text}");
    assert!(text.contains("how many bytes"), "{text}");
    assert_eq!(names(there.path()), ["a", "pipe", "sub"]);
}

#[test]
fn each_of_several_files_is_reported() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    for name in ["a", "b"] {
        file(&there, name, 10);
    }
    let server = serve(there.path());
    let (out, pin) = (here.path().to_str().unwrap(), server.pin.as_str());
    let at = |name: &str| format!("{}/{name}", server.address);
    let targets = [at("a"), at("gone"), at("b"), at("lost")];
    let mut get = vec!["get", "-o", out, "--pin", pin];
    get.extend(targets.iter().map(String::as_str));
    let output = run(&[&get[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = said["files"].as_array().unwrap();
    for (file, (name, came)) in
        files
            .iter()
            .zip([("a", true), ("gone", false), ("b", true), ("lost", false)])
    {
        assert_eq!(file["name"], name);
        assert_eq!(file["sha256"].is_string(), came, "{file}");
        assert_eq!(file["error"].is_string(), !came, "{file}");
    }
    assert_eq!(said["streams"], 2);
    let output = run(&get);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(out.contains("  a\n") && out.contains("  b\n"), "{out}");
    assert!(
        err.contains("fetch gone") && err.contains("fetch lost"),
        "{err}"
    );
}

#[test]
fn a_wrong_server_is_reported_for_each_file() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    file(&here, "a", 10);
    let server = serve(there.path());
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
    let server = serve(there.path());
    let pin = server.pin.as_str();
    let (sub, other) = (
        format!("{}/sub", server.address),
        format!("{}/other/", server.address),
    );
    let both = format!("{sub}/");
    json(&run(&["put", &a, &b, &both, "--pin", pin, "--json"]));
    assert_eq!(names(&there.path().join("sub")), ["a", "b"]);
    json(&run(&["put", &a, &other, "--pin", pin, "--json"]));
    assert_eq!(names(&there.path().join("other")), ["a"]);
    for more in [&[][..], &["--force"]] {
        let output = run(&[&["put", &a, &sub, "--pin", pin], more].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("a directory"), "{text}");
    }
}

#[test]
fn a_log_that_takes_nothing_changes_no_exit_code() {
    let there = Offered::new();
    for (arguments, code) in [
        (&["get", "nowhere:1/a", "-o", "/no/such"][..], 2),
        (
            &["serve", "--listen", "127.0.0.1:0", "--dir", "/no/such"],
            2,
        ),
        (&["compare", "--estimate"], 0),
        (&["vcp-router", "check", "--config", "/no/such"], 2),
        (&["vcp-router", "show", "--socket", "/no/such"], 1),
    ] {
        let full = fs::File::create("/dev/full").unwrap();
        let output = pathmark(arguments)
            .env("RUST_LOG", "trace")
            .current_dir(there.path())
            .stderr(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}
