//! Programs on nodes of a testbed.

use std::process::{Command, Stdio};

use pathmark_testbed::chain::{Chain, RouterProgram};
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

use super::{first_line, pathmark};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_pathmark");

/// Returns the program that runs routers.
pub(crate) fn router() -> RouterProgram {
    RouterProgram {
        program: PROGRAM.into(),
        prefix: vec!["vcp-router".to_owned()],
    }
}

/// Returns the state of a chain's router.
pub(crate) fn shown(chain: &Chain, router: usize) -> Value {
    let query = pathmark_router::daemon::Query::Json;
    let state = pathmark_router::daemon::ask(&chain.control(router), &query).unwrap();
    serde_json::from_str(&state).unwrap()
}

/// Starts the program with `--json` on a node, and returns it with the first line that it prints.
pub(crate) fn start(node: &Node, arguments: &[&str]) -> (ChildGuard, Value) {
    let mut command = pathmark(arguments);
    command.arg("--json");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut guard = node.spawn(command, &[]).unwrap();
    let line = first_line(guard.child().stdout.take().unwrap());
    (guard, serde_json::from_str(&line).unwrap())
}

/// Starts a command on a node, for [`figures`].
pub(crate) fn client(node: &Node, mut command: Command) -> ChildGuard {
    command.stdout(Stdio::piped());
    node.spawn(command, &[]).unwrap()
}

/// Waits until a command has succeeded, and returns the object that it printed.
pub(crate) fn figures(mut client: ChildGuard) -> Value {
    let output = client.child().stdout.take().unwrap();
    let figures = serde_json::from_reader(output).unwrap();
    assert!(client.wait().unwrap().success());
    figures
}
