//! Programs on nodes of a testbed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pathmark");

/// Starts the program with `--json` on a node, and returns it with the first line that it prints.
pub(crate) fn start(node: &Node, arguments: &[&str]) -> (ChildGuard, Value) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--json").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut guard = node.spawn(command, &[]).unwrap();
    let mut line = String::new();
    let stdout = guard.child().stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (guard, serde_json::from_str(&line).unwrap())
}
