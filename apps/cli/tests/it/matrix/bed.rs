//! A transfer of the file `f` through a relay that holds it up midway, and checks of the outcome.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::common::gate::Gate;
use crate::common::offered::{Offered, settle, until_unfinished};
use crate::common::{Process, Server, content, json, names, pathmark, run, words};

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Get,
    Put,
}

/// A file system of a few megabytes, in a separate mount namespace.
struct Disk {
    holder: Child,
    path: PathBuf,
}

/// Size of a [`Disk`] in bytes.
const DISK: usize = 3_000_000;

impl Disk {
    fn at(directory: &Path) -> Self {
        let mount = format!("mount -t tmpfs -o size={DISK} none \"$0\" && echo ready && exec cat");
        let mut holder = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", &mount])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = holder.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let path = root.join(directory.strip_prefix("/").unwrap());
        Self { holder, path }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Both calls only fail if the process has already ended.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The setup of a [`Bed`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) way: Way,
    pub(crate) bytes: usize,
    /// The destination only has a little more room than the file needs.
    pub(crate) small_disk: bool,
    /// The processes have no capabilities, so that permission bits also apply to root.
    pub(crate) unprivileged: bool,
    /// Further arguments of the client.
    pub(crate) more: &'static [&'static str],
}

pub(crate) struct Bed {
    plan: Plan,
    server: Option<Server>,
    listen: String,
    pin: String,
    pub(crate) gate: Gate,
    disk: Option<Disk>,
    offered: Offered,
    here: TempDir,
    /// The expected content of the file at the destination.
    pub(crate) expected: Vec<u8>,
}

/// Enough for the handshake and some of the file.
const SOME: u64 = 500_000;

/// Returns a command. With `unprivileged`, it runs in a separate user namespace, without
/// capabilities outside of this.
fn command(plan: Plan, arguments: &[&str]) -> Command {
    let command = pathmark(arguments);
    if !plan.unprivileged {
        return command;
    }
    let mut apart = Command::new("unshare");
    apart.arg("--user").arg(command.get_program());
    apart.args(command.get_args()).stdin(Stdio::null());
    apart
        .env("XDG_STATE_HOME", "/dev/null")
        .env_remove("RUST_LOG");
    apart
}

fn serve(plan: Plan, directory: &Path, listen: &str) -> Server {
    let directory = directory.display();
    let serve = format!("serve --dir {directory} --listen {listen} --allow-put --json");
    Server::of(command(plan, &words(&serve)))
}

/// A file that no transfer changes.
const OUTSIDE: &str = "outside";
const KEPT: &[u8] = b"keep me";

impl Bed {
    pub(crate) fn new(plan: Plan) -> Self {
        let (offered, here) = (Offered::new(), TempDir::new().unwrap());
        let to = match plan.way {
            Way::Get => here.path(),
            Way::Put => offered.path(),
        };
        let disk = plan.small_disk.then(|| Disk::at(to));
        let directory = match (&disk, plan.way) {
            (Some(disk), Way::Put) => &disk.path,
            _ => offered.path(),
        };
        let server = serve(plan, directory, "127.0.0.1:0");
        let bed = Self {
            plan,
            listen: server.address.clone(),
            pin: server.pin.clone(),
            gate: Gate::new(&server.address, SOME),
            server: Some(server),
            disk,
            offered,
            here,
            expected: content(plan.bytes, 0),
        };
        fs::write(bed.source(), &bed.expected).unwrap();
        settle(&bed.source());
        bed
    }

    pub(crate) fn source(&self) -> PathBuf {
        match self.plan.way {
            Way::Get => self.offered.path().join("f"),
            Way::Put => self.here.path().join("f"),
        }
    }

    pub(crate) fn destination(&self) -> &Path {
        match (&self.disk, self.plan.way) {
            (Some(disk), _) => &disk.path,
            (None, Way::Get) => self.here.path(),
            (None, Way::Put) => self.offered.path(),
        }
    }

    pub(crate) fn start_server(&mut self) {
        let directory = match self.plan.way {
            Way::Get => self.offered.path(),
            Way::Put => self.destination(),
        };
        self.server = Some(serve(self.plan, directory, &self.listen));
    }

    pub(crate) fn kill_server(&mut self) {
        self.server = None;
    }

    fn start(&self, source: &Path, address: &str) -> Process {
        let target = format!("{address}/f");
        let mut arguments = match self.plan.way {
            Way::Get => vec!["get", &target, "-o", self.destination().to_str().unwrap()],
            Way::Put => vec!["put", source.to_str().unwrap(), &target],
        };
        arguments.extend(["--pin", &self.pin, "--json"]);
        arguments.extend(self.plan.more);
        Process::of(command(self.plan, &arguments))
    }

    /// Starts the transfer, and returns once it is held up midway.
    pub(crate) fn begin(&self) -> Process {
        let client = self.start(&self.source(), &self.gate.address.to_string());
        until_unfinished(self.destination(), 1);
        client
    }

    /// Runs another transfer to the same name, bypassing the relay; a `put` transfers `source`.
    pub(crate) fn directly(&self, source: &Path) -> Output {
        self.start(source, &self.listen).finish()
    }

    /// Runs a command that transfers two files to the same name.
    pub(crate) fn both(&self, one: &Path, two: &Path) -> Output {
        let (one, two, at) = (one.display(), two.display(), &self.listen);
        let line = match self.plan.way {
            Way::Get => format!(
                "get {at}{one} {at}{two} -o {}",
                self.destination().display()
            ),
            Way::Put => format!("put {one} {two} {at} --force"),
        };
        run(&words(&format!("{line} --pin {}", self.pin)))
    }

    /// Repeats the transfer, which must succeed. `resumes` says whether a `get` uses the received
    /// part.
    pub(crate) fn again(&self, resumes: bool) {
        let again = self.start(&self.source(), &self.gate.address.to_string());
        let said = json(&again.finish());
        let resumed = said["files"][0]["resumed_bytes"].as_u64().unwrap();
        if self.plan.way == Way::Get {
            assert_eq!(resumed > 0, resumes, "{said}");
        }
        self.is_whole();
    }

    /// Checks that the file is complete and correct. Unfinished files of uploads can be kept for
    /// later.
    pub(crate) fn is_whole(&self) {
        let path = self.destination().join("f");
        assert!(!path.is_symlink() && fs::read(path).unwrap() == self.expected);
        self.has_parts_alone(1);
        if self.plan.way == Way::Get {
            assert_eq!(self.names(), ["f"]);
        }
    }

    /// Checks that apart from `others` files, the destination only contains the part of one
    /// transfer.
    pub(crate) fn has_parts_alone(&self, others: usize) {
        let names = self.names();
        let is_part = |name: &&String| name.starts_with(".pathmark-") && name.ends_with(".part");
        let parts = names.iter().filter(is_part).count();
        assert!(parts <= 2 && names.len() == parts + others, "{names:?}");
        if let Ok(outside) = fs::read(self.aside(OUTSIDE)) {
            assert_eq!(outside, KEPT);
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names = names(self.destination());
        names.retain(|name| name != "other");
        names
    }

    /// Creates a symbolic link with the file's name at the destination that leads outside.
    pub(crate) fn plant_link(&self) {
        fs::write(self.aside(OUTSIDE), KEPT).unwrap();
        symlink(self.aside(OUTSIDE), self.destination().join("f")).unwrap();
    }

    /// Uses up all remaining room on a small disk.
    pub(crate) fn fill_disk(&self) {
        let full = fs::write(self.destination().join("other"), vec![1; 2 * DISK]);
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
    }

    /// Frees room on a small disk.
    pub(crate) fn free_space(&self) {
        fs::remove_file(self.destination().join("other")).unwrap();
    }

    /// Returns a path for further files of a test.
    pub(crate) fn aside(&self, name: &str) -> PathBuf {
        self.offered.key().with_file_name(name)
    }
}
