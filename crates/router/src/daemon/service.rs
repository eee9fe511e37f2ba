//! What surrounds the process: a service manager, and limits of memory.
//!
//! The service manager is notified of readiness, reloads, and for its watchdog. The protocol is
//! that of sd_notify(3): lines of text in one datagram to the socket in `$NOTIFY_SOCKET`. The
//! memory for packets is compared with the limits that the system sets for this process.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use pathmark_cc::{Duration, Instant};

use crate::tun::sys;

/// Maximum length of a status, which `systemctl status` shows on a few lines.
const STATUS: usize = 400;

/// The service manager, if `$NOTIFY_SOCKET` names one.
#[derive(Debug, Default)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two keep-alive messages: half of the watchdog's timeout.
    interval: Option<Duration>,
    due: Instant,
}

impl Supervisor {
    /// Reads the environment.
    pub fn from_environment(now: Instant) -> Self {
        let text = |key: &str| env::var(key).ok();
        let interval = interval(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        let socket = env::var_os("NOTIFY_SOCKET")
            .and_then(|name| address(&name))
            .and_then(|address| {
                let socket = UnixDatagram::unbound().ok()?;
                // A manager that does not read must not delay packets.
                socket.set_nonblocking(true).ok()?;
                Some((socket, address))
            });
        Self {
            interval: interval.filter(|_| socket.is_some()),
            socket,
            due: now,
        }
    }

    /// Reports that everything is open and packets are forwarded.
    pub fn ready(&self, status: &dyn fmt::Display) {
        self.tell(&format!("READY=1\n{}", Status(status)));
    }

    /// Reports the start of a reload; [`Self::ready`] later reports its result.
    pub fn reloading(&self) {
        let now = sys::monotonic_micros();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// Reports that the router is stopping.
    pub fn stopping(&self, status: &dyn fmt::Display) {
        self.tell(&format!("STOPPING=1\n{}", Status(status)));
    }

    /// When [`Self::beat`] is due next.
    pub fn due(&self) -> Option<Instant> {
        self.interval.map(|_| self.due)
    }

    /// Reports to the watchdog, if this is due, that the packet thread is alive.
    pub fn beat(&mut self, now: Instant) {
        if let Some(interval) = self.interval
            && now >= self.due
        {
            self.tell("WATCHDOG=1");
            self.due = now + interval;
        }
    }

    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            // If the manager is gone, nothing needs to be sent.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// Formats a status as one line of limited length.
struct Status<'a>(&'a dyn fmt::Display);

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        write!(f, "STATUS={}", line.take(STATUS).collect::<String>())
    }
}

/// Parses a path, or a name after `@` (an abstract socket).
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        _ => None,
    }
}

/// Returns half the watchdog's timeout if it watches this process.
fn interval(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let micros: u64 = micros?.parse().ok()?;
    // The loop should not have to wake up more often than this.
    (micros > 0).then(|| Duration::from_micros((micros / 2).max(1_000)))
}

/// Where control groups are mounted (cgroups(7), version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// The lowest of the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ceiling {
    bytes: u64,
    set_by: SetBy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SetBy {
    /// `memory.max` of this control group or one of its ancestors.
    Group(PathBuf),
    /// RLIMIT_AS (setrlimit(2)).
    AddressSpace,
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(file) => write!(f, "{} (systemd: MemoryMax=)", file.display()),
            Self::AddressSpace => f.write_str("the limit of address space (ulimit -v)"),
        }
    }
}

/// Returns a warning if `memory` bytes of packets exceed this process's limits.
pub(super) fn too_little(memory: u64) -> Option<String> {
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| group_ceiling(Path::new(GROUPS), &text));
    let space = sys::address_space().map(|bytes| Ceiling {
        bytes,
        set_by: SetBy::AddressSpace,
    });
    let least = group.into_iter().chain(space).min_by_key(|all| all.bytes)?;
    exceeded(memory, &least)
}

fn exceeded(memory: u64, least: &Ceiling) -> Option<String> {
    let Ceiling { bytes, set_by } = least;
    (memory > *bytes).then(|| {
        let what_then = match set_by {
            SetBy::Group(_) => "the kernel ends the router when packets need more",
            SetBy::AddressSpace => "packets that need more are dropped",
        };
        format!(
            "memory: packets may take {memory} bytes, but {set_by} leaves {bytes}: {what_then}; \
             lower `memory` or raise that limit"
        )
    })
}

/// Returns the lowest `memory.max` between the control group in `text` (proc(5),
/// /proc/PID/cgroup) and the root of version 2, which is at `mount`.
fn group_ceiling(mount: &Path, text: &str) -> Option<Ceiling> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = mount.join(group);
    let levels = path
        .ancestors()
        .take_while(|level| level.starts_with(mount));
    let limits = levels.filter_map(|level| {
        let file = level.join("memory.max");
        // "max" means that there is no limit.
        let bytes = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        Some(Ceiling {
            bytes,
            set_by: SetBy::Group(file),
        })
    });
    limits.min_by_key(|ceiling| ceiling.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_fed_twice_in_its_time_if_it_is_ours() {
        let half = Some(Duration::from_secs(5));
        assert_eq!(interval(Some("10000000"), None, 7), half);
        assert_eq!(interval(Some("10000000"), Some("7"), 7), half);
        assert_eq!(interval(Some("1"), None, 7), Some(Duration::from_millis(1)));
        for (micros, pid) in [
            (None, None),
            (Some("0"), None),
            (Some("-1"), None),
            (Some("soon"), None),
            (Some("99999999999999999999"), None),
            (Some("10000000"), Some("8")),
            (Some("10000000"), Some("x")),
        ] {
            assert_eq!(interval(micros, pid, 7), None, "{micros:?} {pid:?}");
        }
    }

    #[test]
    fn sockets_have_paths_or_abstract_names() {
        let address = |name: &str| address(OsStr::new(name));
        let path = address("/run/systemd/notify").unwrap();
        assert!(path.as_pathname().is_some());
        let named = address("@a/b").unwrap();
        assert_eq!(named.as_abstract_name(), Some(&b"a/b"[..]));
        let long = format!("/{}", "x".repeat(200));
        for bad in ["", "relative", "vsock:2:1", &long] {
            assert!(address(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_status_is_one_line() {
        let status = Status(&"two\nlines\tand READY=0").to_string();
        assert_eq!(status, "STATUS=two lines and READY=0");
        let long = Status(&"é".repeat(1000)).to_string();
        assert_eq!(long.chars().count(), 7 + STATUS);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let text = "1:name=systemd:/other\n0::/a/b\n";
        assert_eq!(group_ceiling(dir.path(), text), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_ceiling(dir.path(), text), None);
        fs::write(dir.path().join("a/memory.max"), "1000\n").unwrap();
        fs::write(dir.path().join("memory.max"), "2000\n").unwrap();
        let least = group_ceiling(dir.path(), text).unwrap();
        assert_eq!(least.bytes, 1000);
        assert_eq!(exceeded(1000, &least), None);
        let warning = exceeded(1001, &least).unwrap();
        let file = dir.path().join("a/memory.max");
        assert!(warning.contains(file.to_str().unwrap()), "{warning}");
        assert!(warning.contains("lower `memory`"), "{warning}");
        // Version 1, and none.
        assert_eq!(group_ceiling(dir.path(), "3:memory:/a\n"), None);
        assert_eq!(group_ceiling(dir.path(), ""), None);
    }
}
