//! A systemd of a test's own: first process of namespaces, with a root made of this system's
//! `/usr`, the packaged units and the packaged configuration.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use tempfile::TempDir;

/// What has not happened by then does not happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct System {
    /// Waits for systemd.
    child: Child,
    /// systemd, as seen from here.
    pid: u32,
    cgroup: PathBuf,
    _dir: TempDir,
}

/// What is missing here for a systemd of a test's own.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        Some("only root may start a systemd")
    } else if !Path::new("/lib/systemd/systemd").exists() {
        Some("systemd is not installed")
    } else if cgroups().is_none() {
        Some("no cgroup2 hierarchy is mounted")
    } else {
        None
    }
}

/// Where the cgroup2 hierarchy is.
fn cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut words = mounts.lines().map(|line| line.split(' '));
    let found = words.find_map(|mut words| {
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then_some(place)
    });
    found.map(PathBuf::from)
}

impl System {
    /// Boots; `None`, and it says why, where that cannot be. In CI, root must be able to.
    pub(crate) fn boot() -> Option<Self> {
        if let Some(why) = missing() {
            let root = rustix::process::geteuid().is_root();
            assert!(env::var_os("CI").is_none() || !root, "{why}");
            eprintln!("{why}: the units are not run");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vcp-router-test-{}-{number}", process::id());
        let cgroup = cgroups()?.join(name);
        fs::create_dir(&cgroup).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let here = env!("CARGO_MANIFEST_DIR");
        let mut command = Command::new("sh");
        // It dies with the thread that started it, and all that it has started with it.
        command.args([
            "-euc",
            "echo $$ > \"$1/cgroup.procs\"; shift; exec setpriv --pdeathsig KILL unshare --fork \
             --kill-child --pid --mount --net --uts --ipc --cgroup sh \"$@\"",
            "sh",
        ]);
        command.arg(&cgroup);
        command.arg(format!("{here}/tests/it/systemd/boot.sh"));
        command.arg(dir.path());
        command.arg(env!("CARGO_BIN_EXE_vcp-router"));
        command.arg(format!("{here}/packaging"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut system = Self {
            pid: 0,
            child,
            cgroup,
            _dir: dir,
        };
        // Each look is a command of its own, which takes some milliseconds.
        let start = Instant::now();
        while system.pid == 0 || !system.asks("systemctl is-active test.target") {
            if let Some(ended) = system.child.try_wait().unwrap() {
                let mut said = String::new();
                let mut errors = system.child.stderr.take().unwrap();
                errors.read_to_string(&mut said).unwrap();
                panic!("no systemd: {ended}: {said}");
            }
            assert!(start.elapsed() < PATIENCE, "systemd does not get ready");
            let shell = system.child.id();
            let children = format!("/proc/{shell}/task/{shell}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            system.pid = children.trim().parse().unwrap_or(0);
        }
        Some(system)
    }

    /// Runs a line of shell inside.
    pub(crate) fn run(&self, line: &str) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["-m", "-u", "-i", "-n", "-p", "-C", "-t"]);
        command.arg(self.pid.to_string());
        command.args(["sh", "-euc", line]);
        command.stdin(Stdio::null());
        command.output().unwrap()
    }

    /// True if a line of shell succeeds.
    pub(crate) fn asks(&self, line: &str) -> bool {
        self.run(line).status.success()
    }

    /// What a line of shell says; it must succeed.
    pub(crate) fn says(&self, line: &str) -> String {
        let output = self.run(line);
        let said = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let ok = output.status.success();
        assert!(ok, "{line}: {said}{errors}\n{}", self.journal());
        said.trim_end().to_owned()
    }

    /// What the units wrote.
    pub(crate) fn journal(&self) -> String {
        let output = self.run("journalctl --no-pager -o short-precise -n 60");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A property of `vcp-router.service`.
    pub(crate) fn property(&self, name: &str) -> String {
        self.says(&format!("systemctl show --value -p {name} vcp-router"))
    }

    /// The router's process, as seen inside; 0 if there is none.
    pub(crate) fn main_pid(&self) -> u32 {
        self.property("MainPID").parse().unwrap()
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Duration {
        let start = Instant::now();
        while !holds(self) {
            let late = start.elapsed() >= PATIENCE;
            assert!(!late, "not in time: {what}\n{}", self.journal());
        }
        start.elapsed()
    }

    /// Waits until another process than `old` is active: the router was started again.
    pub(crate) fn until_another(&self, old: u32) -> (u32, Duration) {
        let mut new = 0;
        let took = self.until("started again", |system| {
            new = system.main_pid();
            new != old && new != 0 && system.property("ActiveState") == "active"
        });
        (new, took)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // With the first process of the namespace all others end before it is waited for.
        let ended = match self.pid {
            0 => self.child.kill().is_ok(),
            pid => {
                let mut kill = Command::new("kill");
                kill.args(["-KILL", &pid.to_string()]);
                kill.status().is_ok_and(|status| status.success())
            }
        };
        if !ended {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        remove_cgroups(&self.cgroup);
    }
}

/// A cgroup goes away only after those in it.
fn remove_cgroups(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroups(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}
