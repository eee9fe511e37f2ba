//! Interrupted uploads, which `put` continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{self, Process, Server, json, names, pathmark, words};

const BYTES: usize = 40_000_000;

struct Scene {
    offered: Offered,
    here: TempDir,
}

impl Scene {
    fn new() -> Self {
        let (offered, here) = (Offered::new(), TempDir::new().unwrap());
        let content: Vec<u8> = (0..BYTES as u32).map(|n| (n / 7 % 251) as u8).collect();
        fs::write(here.path().join("source"), content).unwrap();
        Self { offered, here }
    }

    fn source(&self) -> PathBuf {
        self.here.path().join("source")
    }

    fn serve(&self, listen: &str) -> Server {
        Server::offering(&self.offered, listen, &["--allow-put"])
    }

    fn put(&self, server: &Server, more: &[&str]) -> Command {
        let (source, target) = (self.source(), server.at("stored"));
        let put = format!(
            "put {} {target} --pin {} --json",
            source.display(),
            server.pin
        );
        let mut command = pathmark(&[&words(&put)[..], more].concat());
        command.env("XDG_STATE_HOME", self.here.path());
        command
    }

    /// Returns the bytes of the unfinished file on the server.
    fn arrived(&self) -> u64 {
        let entries = fs::read_dir(self.offered.path()).unwrap();
        let sizes = entries.filter_map(|entry| entry.unwrap().metadata().ok());
        sizes.map(|metadata| metadata.len()).max().unwrap_or(0)
    }

    fn is_kept(&self) -> bool {
        let uploads = self.here.path().join("pathmark/uploads");
        fs::read_dir(uploads).is_ok_and(|entries| entries.count() == 1)
    }

    fn is_stored(&self) {
        let stored = fs::read(self.offered.path().join("stored")).unwrap();
        assert!(stored == fs::read(self.source()).unwrap());
        assert_eq!(names(self.offered.path()), ["stored"]);
        assert!(!self.is_kept());
    }
}

fn resumed(output: &std::process::Output) -> u64 {
    json(output)["files"][0]["resumed_bytes"].as_u64().unwrap()
}

#[test]
fn a_client_that_was_killed_goes_on() {
    let scene = Scene::new();
    let server = scene.serve("127.0.0.1:0");
    for (signal, bytes) in [(Signal::SIGKILL, 2_000_000), (Signal::SIGINT, 4_000_000)] {
        let client = Process::of(scene.put(&server, &["--limit", "10MB"]));
        until(|| scene.arrived() >= bytes && scene.is_kept());
        client.signal(signal);
        let ended = client.finish();
        if signal == Signal::SIGINT {
            let moved = common::object(&ended)["bytes_up"].as_u64().unwrap();
            assert!(moved > 1_000_000, "{moved} bytes");
        }
    }
    let output = scene.put(&server, &[]).output().unwrap();
    assert!(resumed(&output) >= 4_000_000, "{output:?}");
    scene.is_stored();
    // The log contains the name of the file rather than that of the upload's resource.
    server.logged("stored client=127.0.0.1", 30);
}

#[test]
fn a_server_that_was_killed_takes_the_rest() {
    let scene = Scene::new();
    let server = scene.serve("127.0.0.1:0");
    let address = server.address.clone();
    let more = ["--limit", "10MB", "--reconnect=60s", "--no-state"];
    let client = Process::of(scene.put(&server, &more));
    until(|| scene.arrived() >= 4_000_000);
    server.process.signal(Signal::SIGKILL);
    drop(server);
    let server = scene.serve(&address);
    let output = client.finish();
    assert!(resumed(&output) >= 4_000_000, "{output:?}");
    scene.is_stored();
    drop(server);
}

/// A source that was replaced by one with the same size and time is sent from the beginning.
#[test]
fn a_source_that_was_replaced_is_sent_whole() {
    let scene = Scene::new();
    let server = scene.serve("127.0.0.1:0");
    let client = Process::of(scene.put(&server, &["--limit", "10MB"]));
    until(|| scene.arrived() >= 2_000_000 && scene.is_kept());
    client.signal(Signal::SIGKILL);
    drop(client.finish());
    rewrite(&scene.source());
    let output = scene.put(&server, &[]).output().unwrap();
    assert_eq!(resumed(&output), 0);
    scene.is_stored();
}

/// Writes other content into a file, keeping its size and time.
fn rewrite(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let content = fs::read(path).unwrap();
    fs::write(path, content.into_iter().rev().collect::<Vec<_>>()).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(modified).unwrap();
}
