//! Programs other than pathmark, with the rights of this user.

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use pathmark_testbed::Node;

/// Returns a command in the network of a node or of the test. Its first argument is the program.
pub(crate) fn in_network(node: Option<&Node>) -> Command {
    let Some(node) = node else {
        return Command::new("env");
    };
    let (_, net) = node.namespaces();
    let net = format!("/proc/{}/fd/{}", std::process::id(), net.as_raw_fd());
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={net}"));
    command
}

/// Waits up to 10 s until a server accepts connections.
pub(crate) fn until_open(node: Option<&Node>, address: IpAddr, port: u16) {
    for _ in 0..500 {
        let mut probe = in_network(node);
        probe.args(["bash", "-c", &format!("exec<>/dev/tcp/{address}/{port}")]);
        let opened = probe.stderr(Stdio::null()).status().unwrap();
        if opened.success() {
            return;
        }
        // Other servers don't report that they are listening.
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no server at port {port}");
}
