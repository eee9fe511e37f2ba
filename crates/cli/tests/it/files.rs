//! Files of one name, the law that a server sends by, and a server that is stopped. Real sockets
//! and processes.

use std::fs;
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::gate::Gate;
use crate::common::offered::{Offered, names, unfinished_bytes, until};
use crate::common::{Process, Server, json, pathmark};

/// Checks that a command ended with this exit code and printed `word` on stderr. Usage errors are
/// not on stdout, whereas failures are, with the reason.
#[track_caller]
fn refused(output: &Output, code: i32, word: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(word), "{text}");
    if code == 2 {
        return assert!(output.stdout.is_empty());
    }
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    for file in said["files"].as_array().unwrap() {
        let error = file["error"].as_str().unwrap();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn two_sources_of_one_name_are_refused_before_anything_moves() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    for name in ["x", "y"] {
        fs::create_dir(there.path().join(name)).unwrap();
        fs::write(there.path().join(name).join("f"), name).unwrap();
    }
    let server = Server::of_files(&there, "127.0.0.1:0", &["--allow-put"]);
    // No packet could reach the last host, but it isn't even tried.
    for second in ["@/y/f", "@/x/f", "192.0.2.1:1/f"] {
        let both = server.run(&here, &format!("get @/x/f {second} --json"));
        refused(&both, 2, "would both become");
    }
    let unfinished = server.run(&here, "get @/x/.pathmark-f.part --json");
    refused(&unfinished, 2, "unfinished");
    assert!(names(here.path()).is_empty());
    fs::create_dir(here.path().join("f")).unwrap();
    refused(&server.run(&here, "get @/x/f --json"), 2, "directory");
    refused(&server.run(&there, "put x/f y/f @"), 2, "would both become");
    assert_eq!(names(there.path()), ["x", "y"]);
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
        let (there, here) = (Offered::new(), TempDir::new().unwrap());
        fs::write(there.path().join("a"), [7; 100_000]).unwrap();
        let server = Server::of_files(&there, "127.0.0.1:0", &["--cc", listed]);
        let wishes = wish.map_or(String::new(), |wish| format!(" --cc {wish}"));
        let said = json(&server.run(&here, &format!("get @/a --json{wishes}")));
        assert_eq!(said["algorithm"], used, "{wish:?} of {listed}");
        let warnings = said["warnings"].to_string();
        let warned = warnings.contains(&format!("the server sends by {used}"));
        assert_eq!(warned, wish.is_some_and(|wish| wish != used), "{warnings}");
    }
    let server = ["serve", "--listen", "127.0.0.1:0", "--dir", "."];
    let mut wrong = pathmark(&[&server[..], &["--cc", "vcp,vpc"]].concat());
    refused(&wrong.output().unwrap(), 2, "vcp");
}

#[test]
fn a_server_that_is_stopped_says_so_and_leaves_nothing_unfinished() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    let mut server = Server::of_files(&there, "127.0.0.1:0", &["--allow-put"]);
    let path = here.path().join("f");
    fs::write(&path, vec![7; 2_000_000]).unwrap();
    // Enough for a handshake and some of the file.
    let gate = Gate::new(&server.address, 500_000);
    let (file, slow) = (path.to_str().unwrap(), gate.address.to_string());
    let client = Process::start(&["put", file, &slow, "--pin", &server.pin, "--json"]);
    until(|| unfinished_bytes(there.path()) > 0);
    server.process.signal(Signal::SIGTERM);
    until(|| names(there.path()).is_empty());
    gate.open();
    refused(&client.finish(), 1, "the server was stopped");
    assert_eq!(server.process.0.wait().unwrap().code(), Some(0));
}
