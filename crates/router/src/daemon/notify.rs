//! Notifications to a service manager: readiness, reloads, the watchdog. The protocol is that of
//! sd_notify(3): lines of text in one datagram to the socket in `$NOTIFY_SOCKET`.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

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
}
