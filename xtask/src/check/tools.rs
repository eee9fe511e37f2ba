//! Tools that others keep: licences, spelling, dependencies, features.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Tools, with the package that has them and their arguments.
const TOOLS: [(&str, &str, &[&str]); 6] = [
    (
        "cargo-deny",
        "cargo",
        &[
            "deny",
            "--log-level",
            "error",
            "check",
            "licenses",
            "bans",
            "sources",
        ],
    ),
    ("typos-cli", "typos", &[]),
    ("cargo-machete", "cargo-machete", &[]),
    (
        "cargo-hack",
        "cargo",
        &[
            "hack",
            "check",
            "--quiet",
            "--feature-powerset",
            "--depth",
            "2",
            "--at-least-one-of",
            "aws-lc-rs,ring",
            "--locked",
            "-p",
            "pathmark-transport",
            "-p",
            "pathmark-driver",
        ],
    ),
    (
        "cargo-hack",
        "cargo",
        &[
            "hack",
            "check",
            "--quiet",
            "--feature-powerset",
            "--depth",
            "2",
            "--locked",
            "-p",
            "pathmark-link",
            "-p",
            "pathmark-protocols",
            "-p",
            "pathmark-shim",
            "-p",
            "qs-proto",
            "-p",
            "vcp-proto",
            "-p",
            "xcp-proto",
        ],
    ),
    (
        "cargo-hack",
        "cargo",
        &[
            "hack",
            "check",
            "--quiet",
            "--feature-powerset",
            "--depth",
            "2",
            "--at-least-one-of",
            "aws-lc-rs,rust-crypto",
            "--locked",
            "-p",
            "xcp-edge",
        ],
    ),
];

/// Runs every tool; true if all of them are content.
pub(super) fn run(root: &Path) -> Result<bool> {
    let mut content = true;
    for tool in &TOOLS {
        content &= run_tool(root, tool)?;
    }
    Ok(content)
}

fn run_tool(root: &Path, (package, program, arguments): &(&str, &str, &[&str])) -> Result<bool> {
    let status = Command::new(program)
        .args(*arguments)
        .current_dir(root)
        .status();
    let content = match status {
        Ok(status) => status.success(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("cannot run {program}")),
    };
    match content {
        true => println!("{package}: all right"),
        false => println!(
            "{package}: not content, or missing; `cargo install --locked {package}` installs it"
        ),
    }
    Ok(content)
}
