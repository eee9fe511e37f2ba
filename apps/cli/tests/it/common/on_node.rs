//! Programs on nodes of a testbed.

use std::process::{Command, Stdio};

use pathmark_router::daemon::{Query, ask};
use pathmark_testbed::chain::{Chain, RouterProgram};
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;

use super::{first_object, piped};

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

/// Starts a command whose output is in a pipe.
pub(crate) fn spawn(node: &Node, arguments: &[&str]) -> ChildGuard {
    node.spawn(piped(arguments), &[]).unwrap()
}

/// Starts a server, and returns it with the line that it prints once it accepts connections.
pub(crate) fn serve(node: &Node, arguments: &[&str]) -> (ChildGuard, Value) {
    let mut server = spawn(node, arguments);
    let said = first_object(server.child().stdout.take().unwrap());
    (server, said)
}

/// Waits until a client has succeeded, and returns its figures.
pub(crate) fn figures(mut client: ChildGuard) -> Value {
    let output = client.child().stdout.take().unwrap();
    let figures = serde_json::from_reader(output).unwrap();
    assert!(client.wait().unwrap().success());
    figures
}

/// Returns the report of a router.
pub(crate) fn shown(chain: &Chain, router: usize) -> Value {
    let answer = ask(&chain.control(router), &Query::Json).unwrap();
    serde_json::from_str(&answer).unwrap()
}
