//! Notifications to a service manager: readiness, reloads, the watchdog. The protocol is
//! sd_notify(3)'s: lines of text in one datagram to the socket that `$NOTIFY_SOCKET` names.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use pathmark_cc::{Duration, Instant};

use crate::tun::sys;

/// Longest text of a status: what `systemctl status` shows on a few lines.
const STATUS: usize = 400;

/// The service manager, if `$NOTIFY_SOCKET` names one.
#[derive(Debug, Default)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two signs of life: half of what the watchdog allows.
    interval: Option<Duration>,
    due: Instant,
}

impl Supervisor {
    /// The one that the environment names.
    #[must_use]
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
                // A manager that does not read holds up no packet.
                socket.set_nonblocking(true).ok()?;
                Some((socket, address))
            });
        Self {
            interval: interval.filter(|_| socket.is_some()),
            socket,
            due: now,
        }
    }

    /// Everything is open, packets move.
    pub fn ready(&self, status: &dyn fmt::Display) {
        self.tell(&format!("READY=1\n{}", Status(status)));
    }

    /// A reload begins; [`Self::ready`] says how it ended.
    pub fn reloading(&self) {
        let now = sys::monotonic_micros();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// The end has begun.
    pub fn stopping(&self, status: &dyn fmt::Display) {
        self.tell(&format!("STOPPING=1\n{}", Status(status)));
    }

    /// When [`Self::beat`] is due next.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.interval.map(|_| self.due)
    }

    /// Tells the watchdog that this thread, which moves the packets, is alive; does nothing before
    /// it is due.
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
            // A manager that is gone needs no word.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// One line, not too long.
struct Status<'a>(&'a dyn fmt::Display);

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        write!(f, "STATUS={}", line.take(STATUS).collect::<String>())
    }
}

/// A path, or a name after `@` (an abstract socket).
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        _ => None,
    }
}

/// Half the watchdog's time, if it watches this process.
fn interval(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let micros: u64 = micros?.parse().ok()?;
    // Not below what the loop may be asked to keep.
    (micros > 0).then(|| Duration::from_micros((micros / 2).max(1_000)))
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
        assert_eq!(
            address("@a/b").unwrap().as_abstract_name(),
            Some(&b"a/b"[..])
        );
        let long = format!("/{}", "x".repeat(200));
        for bad in ["", "relative", "vsock:2:1", &long] {
            assert!(address(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_status_is_one_line() {
        let status = Status(&"two\nlines\tand READY=0").to_string();
        assert_eq!(status, "STATUS=two lines and READY=0");
        assert_eq!(
            Status(&"é".repeat(1000)).to_string().chars().count(),
            7 + STATUS
        );
    }
}
