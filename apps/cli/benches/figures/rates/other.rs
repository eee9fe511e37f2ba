//! Tools other than pathmark on the same path: scp, rsync and curl.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Bed, Files, measured};
use crate::common::foreign::until_open;

/// A program other than pathmark, the command of its server, and the server's port.
struct Tool {
    name: &'static str,
    server: String,
    port: u16,
}

/// Runs `client`, which gets the directory for writing.
fn other(
    Tool { name, server, port }: Tool,
    client: impl Fn(&str) -> String,
    bed: &Bed,
    files: &Files,
    most: Duration,
) {
    let program = client("");
    let program = program.split(' ').next().unwrap();
    let found = Command::new("which").arg(program).output().unwrap();
    if !found.status.success() {
        return println!("{name:<24} is not installed");
    }
    let _server = bed.start_other(true, &server);
    until_open(bed.node(true), bed.server(), port);
    let here = TempDir::new().unwrap();
    let begun = Instant::now();
    let client = bed.start_other(false, &client(here.path().to_str().unwrap()));
    measured(name, client, begun, most, files, here.path());
}

/// Runs scp, an rsync daemon and, for a single file, curl with HTTP/1.1.
pub(crate) fn others(bed: &Bed, files: &Files, is_single: bool, most: Duration) {
    let host = bed.server();
    let (data, key) = (files.path("data"), files.path("key"));
    // The files of an earlier measurement may include a key.
    let _ = fs::remove_file(&key);
    let keygen = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
        .stdin(Stdio::null())
        .status();
    if keygen.is_ok_and(|status| status.success()) {
        let config = format!(
            "Port 2222\nHostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\n\
             PidFile none\nSubsystem sftp internal-sftp\n"
        );
        fs::write(files.path("sshd.conf"), config).unwrap();
        fs::create_dir_all("/run/sshd").unwrap();
        let server = format!("/usr/sbin/sshd -D -f {}", files.path("sshd.conf"));
        let client = |to: &str| {
            format!(
                "scp -q -r -P 2222 -i {key} -o StrictHostKeyChecking=no \
                 -o UserKnownHostsFile=/dev/null {host}:{data}/d {to}"
            )
        };
        other(
            Tool {
                name: "scp",
                server,
                port: 2222,
            },
            client,
            bed,
            files,
            most,
        );
    }
    let config = format!("use chroot = no\nuid = 0\ngid = 0\n[data]\npath = {data}\n");
    fs::write(files.path("rsyncd.conf"), config).unwrap();
    let conf = files.path("rsyncd.conf");
    let server = format!("rsync --daemon --no-detach --port=8730 --config={conf}");
    let client = |to: &str| format!("rsync -a rsync://{host}:8730/data/d {to}");
    other(
        Tool {
            name: "rsync daemon",
            server,
            port: 8730,
        },
        client,
        bed,
        files,
        most,
    );
    if is_single {
        let server = format!("python3 -m http.server 8000 --bind {host} --directory {data}");
        let client = |to: &str| format!("curl -sf http://{host}:8000/d/00000 -o {to}/f");
        other(
            Tool {
                name: "curl",
                server,
                port: 8000,
            },
            client,
            bed,
            files,
            most,
        );
    }
}
