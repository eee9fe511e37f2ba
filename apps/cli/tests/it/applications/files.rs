//! Files that applications transfer, and the configuration of servers.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// More than the path carries during a run.
const BYTES: u64 = 4 << 30;
/// Stores the body of a request as a file.
const TAKES: &str = "
import http.server, sys

class Takes(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_PUT(self):
        left = int(self.headers['Content-Length'])
        with open(sys.argv[2], 'wb', 0) as file:
            while left and (piece := self.rfile.read1(min(left, 65536))):
                left -= file.write(piece)
        self.send_response(201)
        self.send_header('Content-Length', '0')
        self.end_headers()

    do_POST = do_PUT

http.server.ThreadingHTTPServer((sys.argv[1], 8001), Takes).serve_forever()
";

/// Files of zeros on tmpfs, and the configuration of servers.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new_in("/dev/shm").unwrap();
        let files = Self(directory);
        // The FTP server reads as another user, which can write in one directory.
        fs::set_permissions(files.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(files.to()).unwrap();
        fs::set_permissions(files.to(), PermissionsExt::from_mode(0o777)).unwrap();
        for number in 0..4 {
            let file = fs::File::create(files.path(&number.to_string())).unwrap();
            file.set_len(BYTES).unwrap();
        }
        let d = files.0.path().display();
        let key = files.path("key").display().to_string();
        let keygen = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &key])
            .stdin(Stdio::null())
            .status();
        if keygen.is_ok_and(|status| status.success()) {
            // sshd only starts if this directory exists.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        // smbd keeps its state in one directory; by default, there are several.
        fs::create_dir(files.path("state")).unwrap();
        let state = [
            "state directory",
            "lock directory",
            "pid directory",
            "cache directory",
        ];
        let state: String = [&state[..], &["private dir", "ncalrpc dir"]]
            .concat()
            .iter()
            .map(|key| format!("{key} = {d}/state\n"))
            .collect();
        let texts = [
            ("takes.py", TAKES.to_owned()),
            (
                "serve.py",
                format!(
                    "import functools, http.server, runpy, sys, threading\n\
                     handler = functools.partial(\n    \
                     http.server.SimpleHTTPRequestHandler, directory='{d}')\n\
                     server = http.server.ThreadingHTTPServer((sys.argv[1], 8000), handler)\n\
                     threading.Thread(target=server.serve_forever).start()\n\
                     runpy.run_path('{d}/takes.py')\n"
                ),
            ),
            (
                "rsyncd.conf",
                format!("use chroot = no\nuid = 0\ngid = 0\n[d]\npath = {d}\nread only = no\n"),
            ),
            (
                "sshd.conf",
                format!(
                    // Without HOME, the shell would read the user's own files, which may take long.
                    "Port 2222\nHostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\n\
                     PidFile none\nSubsystem sftp internal-sftp\nSetEnv HOME={d}\n"
                ),
            ),
            (
                "vsftpd.conf",
                format!(
                    "listen=YES\nlisten_port=2121\nbackground=NO\nanonymous_enable=YES\n\
                     no_anon_password=YES\nanon_root={d}\nwrite_enable=YES\n\
                     anon_upload_enable=YES\nanon_world_readable_only=NO\n\
                     seccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\n"
                ),
            ),
            (
                "smb.conf",
                format!(
                    "[global]\nsmb ports = 1445\ndisable netbios = yes\nload printers = no\n\
                     map to guest = Bad User\nguest account = root\nlog file = {d}/state/log\n\
                     {state}[d]\npath = {d}\nguest ok = yes\nread only = no\n"
                ),
            ),
            // The commands for smbclient are a single argument.
            (
                "smb",
                "target=$1\nshift\nexec smbclient //$target/d --port=1445 --no-pass \
                 --configfile=/dev/null --command=\"$*\"\n"
                    .to_owned(),
            ),
        ];
        for (name, text) in texts {
            fs::write(files.path(name), text).unwrap();
        }
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn to(&self) -> PathBuf {
        self.path("to")
    }

    pub(crate) fn line(&self, command: &str, target: IpAddr, number: u32) -> String {
        let ssh = "-i {d}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
                   -o BatchMode=yes";
        command
            .replace("{ssh}", ssh)
            .replace("{to}", self.to().to_str().unwrap())
            .replace("{d}", self.0.path().to_str().unwrap())
            .replace("{t}", &target.to_string())
            .replace("{n}", &number.to_string())
    }
}
