//! `cargo xtask parity`: downloads by `serve` and `get` on TUN interfaces next to the emulator's.

use std::process::Command;

use anyhow::{Context, Result};

/// The test that has a few short paths in its place.
const TEST: &str = "real_downloads_take_as_long_as_emulated";

/// Runs the matrix of a satellite link. True: no medians are too far apart.
pub(crate) fn run() -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "test",
            "--release",
            "-p",
            "pathmark-cli",
            TEST,
            "--",
            "--nocapture",
        ])
        .env("PATHMARK_PARITY", "all")
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}
