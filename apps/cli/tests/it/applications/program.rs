//! Programs other than pathmark on nodes.

use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use pathmark_testbed::Node;

use crate::common::foreign::in_network;

/// A process with the rights of this user in a PID namespace. Its children end with this value,
/// including those that lead their own sessions.
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program in the network of a node.
    pub(crate) fn start(node: &Node, line: &str, errors: Stdio) -> Self {
        let mut command = in_network(Some(node));
        command.args(["unshare", "--pid", "--fork", "--kill-child"]);
        command.args(line.split(' ')).process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        Self(command.spawn().unwrap())
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // This only fails if all have ended.
        let _ = killpg(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}
