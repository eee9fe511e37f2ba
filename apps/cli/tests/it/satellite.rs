//! Runs all blocks of commands in `docs/start/satellite.md`, in separate namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const DOCUMENT: &str = include_str!("../../../../docs/start/satellite.md");

/// Returns the blocks to run, as one script.
fn script() -> String {
    let blocks = DOCUMENT.split("\n```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("\n```\n").next().unwrap());
    let script: Vec<&str> = blocks.collect();
    assert_eq!(script.len(), 7, "blocks of commands");
    script.join("\n")
}

/// Copies the two programs that the tutorial calls into a directory.
fn programs(directory: &Path) {
    let pathmark = env!("CARGO_BIN_EXE_pathmark");
    std::os::unix::fs::symlink(pathmark, directory.join("pathmark")).unwrap();
    let router = directory.join("vcp-router");
    fs::write(
        &router,
        format!("#!/bin/sh\nexec {pathmark} vcp-router \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(&router, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_tutorial_ends_with_a_transfer_that_the_router_steered() {
    let directory = TempDir::new().unwrap();
    programs(directory.path());
    let path = format!(
        "{}:{}",
        directory.path().display(),
        std::env::var("PATH").unwrap()
    );
    // Processes that the script leaves running end with the first process of their namespace.
    let output = Command::new("unshare")
        .args(["-rnm", "--pid", "--fork", "--kill-child", "sh", "-e", "-c"])
        .arg(script())
        .current_dir(directory.path())
        .env("PATH", path)
        .env("XDG_STATE_HOME", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let report = printed.lines().find(|line| line.starts_with('{'));
    let report: Value = serde_json::from_str(report.unwrap()).unwrap();
    // The table of the page.
    assert_eq!(report["feedback"], "xcp", "{report}");
    assert_eq!(report["router_id"], 7, "{report}");
    assert_eq!(report["start"], "used", "{report}");
    let lost = report["packets_lost"].as_u64().unwrap();
    assert!((10..100).contains(&lost), "{report}");
    let router = report["bounded_by"]["router"].as_f64().unwrap();
    assert!(router > 0.5, "{report}");
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds < 20.0, "{report}");
    assert!(printed.contains("STAMPED"), "{printed}");
}
