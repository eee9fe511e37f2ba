//! Programs on nodes of a testbed.

use std::process::{Command, Stdio};

use pathmark_testbed::chain::RouterProgram;
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

use super::first_object;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pathmark");

/// Returns the program that runs routers.
pub(crate) fn router() -> RouterProgram {
    RouterProgram {
        program: PROGRAM.into(),
        prefix: vec!["vcp-router".to_owned()],
    }
}

/// Starts the program with `--json` on a node, and returns it with the first line that it prints.
pub(crate) fn start(node: &Node, arguments: &[&str]) -> (ChildGuard, Value) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--json").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut guard = node.spawn(command, &[]).unwrap();
    let said = first_object(guard.child().stdout.take().unwrap());
    (guard, said)
}
