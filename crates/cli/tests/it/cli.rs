//! The `pathmark` command from a user's perspective: files over loopback, exit codes, JSON.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, names, settle};
use crate::common::{Server, json, pathmark};

fn serve(offered: &Offered) -> Server {
    Server::of_files(offered, "127.0.0.1:0", &["--allow-put"])
}

fn file(directory: &impl AsRef<Path>, name: &str, bytes: usize) -> Vec<u8> {
    let content: Vec<u8> = (0..bytes as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let path = directory.as_ref().join(name);
    fs::write(&path, &content).unwrap();
    settle(&path);
    content
}

#[test]
fn files_come_and_go_whole() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let big = file(&there, "big", 3_000_000);
    file(&there, "empty", 0);
    let server = serve(&there);
    let said = json(&server.run(&here, "get @/big @/empty --json"));
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

    let said = json(&server.run(&here, "put big @/sub/copy --cc cubic --json"));
    assert_eq!(said["bytes_up"], 3_000_000);
    assert_eq!(said["algorithm"], "cubic");
    assert_eq!(fs::read(there.path().join("sub/copy")).unwrap(), big);
    assert_eq!(names(&there.path().join("sub")), ["copy"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
    let there = Offered::new();
    file(&there, "a", 10);
    let server = serve(&there);
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
    let server = Server::start(&["perf", "server", "--cc", "newreno"]);
    let client = |more: &str| {
        let said = json(&server.run(&".", &format!("perf client @ --json {more}")));
        // This includes the time until another thread sends the first packet.
        let handshake = said["handshake_ms"].as_f64().unwrap();
        assert!(handshake >= said["rtt_ms"]["min"].as_f64().unwrap());
        said
    };
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
    assert!(
        warnings.contains("the server sends by newreno"),
        "{warnings}"
    );
}

#[test]
fn what_is_not_a_plain_file_blocks_no_transfer() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let pipe = there.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    fs::create_dir(there.path().join("sub")).unwrap();
    file(&there, "a", 10);
    let server = serve(&there);
    // More commands than the server has threads for tasks. The last file has contents, although the
    // system reports a size of zero.
    for (line, words) in [
        ("get @/pipe", "a pipe"),
        ("get @/pipe", "a pipe"),
        ("get @/pipe", "a pipe"),
        ("get @/sub", "there is no file"),
        ("put /proc/self/status @/status", "how many bytes"),
    ] {
        let output = server.run(&here, line);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(words), "{text}");
    }
    json(&server.run(&here, "get @/a --json"));
    assert_eq!(names(there.path()), ["a", "pipe", "sub"]);
}

#[test]
fn each_of_several_files_is_reported() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    for name in ["a", "b"] {
        file(&there, name, 10);
    }
    let server = serve(&there);
    let get = "get @/a @/gone @/b @/lost";
    let output = server.run(&here, &format!("{get} --json"));
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [("a", true), ("gone", false), ("b", true), ("lost", false)];
    for (file, (name, came)) in said["files"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(file["name"], name);
        assert_eq!(file["sha256"].is_string(), came, "{file}");
        assert_eq!(file["error"].is_string(), !came, "{file}");
    }
    assert_eq!(said["streams"], 2);
    let output = server.run(&here, get);
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
    let mut server = serve(&there);
    server.pin = "00".repeat(32);
    for line in ["get @/b --json", "put a @/b --json"] {
        let output = server.run(&here, line);
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
    for name in ["a", "b"] {
        file(&here, name, 10);
    }
    let server = serve(&there);
    json(&server.run(&here, "put a b @/sub/ --json"));
    assert_eq!(names(&there.path().join("sub")), ["a", "b"]);
    json(&server.run(&here, "put a @/other/ --json"));
    assert_eq!(names(&there.path().join("other")), ["a"]);
    for line in ["put a @/sub", "put a @/sub --force"] {
        let output = server.run(&here, line);
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
