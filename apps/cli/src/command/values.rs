//! Values with units on the command line.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::anyhow;
use pathmark_cc::Algorithm;
use pathmark_cc::units::{self, ReadError, Round, SECOND, Units};

/// Units of [`bytes`].
const BYTES: Units = Units {
    read: &[
        ("k", 1_000),
        ("KB", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    round: Round::Nearest,
    ..units::BYTES
};

/// Units of [`duration`]. Numbers without a unit are seconds.
const TIME: Units = Units {
    read: &[("m", 60 * SECOND), ("min", 60 * SECOND)],
    bare: Some(SECOND),
    round: Round::Nearest,
    ..units::TIME
};

/// Parses a number of bytes: `1500`, `5_000_000`, `64KiB`, `1GB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    match BYTES.read(&text.replace('_', "")) {
        Ok(bytes) => Ok(bytes),
        // This exceeds any transfer.
        Err(ReadError::TooLarge) => Ok(u64::MAX),
        Err(ReadError::Unit(unit)) if text.starts_with(|c: char| c.is_ascii_digit()) => Err(
            format!("unknown unit `{unit}`; try kB, MB, GB, KiB, MiB or GiB"),
        ),
        Err(_) => Err(format!(
            "`{text}` is no number of bytes such as 5_000_000 or 5MB"
        )),
    }
}

/// Parses a duration: `30s`, `250ms`, `2m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no length of time such as 30s, 250ms or 2m");
    let nanos: u128 = TIME.read(text).map_err(|_| wrong())?;
    let second = u128::from(SECOND);
    let seconds = u64::try_from(nanos / second).map_err(|_| wrong())?;
    Ok(Duration::new(seconds, (nanos % second) as u32))
}

/// The same, or hours.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    match text
        .strip_suffix('h')
        .and_then(|hours| hours.parse::<u32>().ok())
    {
        Some(hours) => Ok(Duration::from_secs(u64::from(hours) * 3600)),
        None => duration(text),
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    /// The text as written.
    text: String,
    /// The addresses to try in order. The next one is used if the host lacks the IP version.
    addresses: Vec<SocketAddr>,
}

impl Listen {
    pub(super) fn ip(&self) -> IpAddr {
        let first = self.addresses.first();
        first.map_or(Ipv4Addr::UNSPECIFIED.into(), SocketAddr::ip)
    }

    /// Tries `bind` with each address.
    pub(super) fn bind<T>(
        &self,
        mut bind: impl FnMut(SocketAddr) -> io::Result<T>,
    ) -> anyhow::Result<T> {
        let mut ended = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            match bind(*address) {
                Ok(bound) => return Ok(bound),
                Err(error) => ended = error,
            }
            let lacks_version = ended.raw_os_error() == Some(libc::EAFNOSUPPORT)
                || ended.kind() == io::ErrorKind::AddrNotAvailable;
            if !lacks_version {
                break;
            }
        }
        let port = self.addresses.first().map_or(0, SocketAddr::port);
        let why = match ended.kind() {
            io::ErrorKind::AddrInUse => format!("another process has UDP port {port}"),
            io::ErrorKind::AddrNotAvailable => "this host does not have the address".to_owned(),
            io::ErrorKind::PermissionDenied => format!(
                "UDP port {port} needs root or CAP_NET_BIND_SERVICE; ports from {} on are free to \
                 all",
                first_free_port()
            ),
            _ => return Err(anyhow::Error::new(ended).context(self.fails())),
        };
        Err(anyhow!("{}: {why}", self.fails()))
    }

    fn fails(&self) -> String {
        format!("cannot listen on {}", self.text)
    }
}

/// Returns the lowest port that an unprivileged process can bind.
fn first_free_port() -> u32 {
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let port = setting.ok().and_then(|text| text.trim().parse().ok());
    port.unwrap_or(1024)
}

/// Parses `ADDRESS:PORT`, or `:PORT` or `PORT` for all addresses of both IP versions.
pub(super) fn listen(text: &str) -> Result<Listen, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let addresses = match (port, text.parse::<SocketAddr>()) {
        (Ok(port), _) => vec![
            (Ipv6Addr::UNSPECIFIED, port).into(),
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ],
        (_, Ok(address)) => vec![address],
        // The standard library parses zones only as numbers.
        _ if text.contains('%') => scoped(text)?,
        _ => {
            return Err(format!(
                "`{text}` is no address such as 192.0.2.1:4433 or [::]:4433, and no port such as \
                 :4433"
            ));
        }
    };
    Ok(Listen {
        text: text.to_owned(),
        addresses,
    })
}

/// Parses `[ADDRESS%ZONE]:PORT`.
fn scoped(text: &str) -> Result<Vec<SocketAddr>, String> {
    let parts = text
        .strip_prefix('[')
        .and_then(|text| text.split_once("]:"));
    let parts = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some(parts) = parts else {
        return Err(format!(
            "`{text}` is no address such as [fe80::1%eth0]:4433"
        ));
    };
    let found = parts.to_socket_addrs();
    let found = found.map_err(|error| format!("`{text}` is no address here: {error}"))?;
    Ok(found.collect())
}

/// Parses a congestion controller's name with its options.
pub(super) fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::parse(text).map_err(|error| error.to_string())
}

/// Congestion controllers in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Algorithms(pub(super) Vec<Algorithm>);

/// Parses names with options, separated by commas: `vcp[alpha=1.0,t_rho=200ms],xcp`.
pub(super) fn algorithms(text: &str) -> Result<Algorithms, String> {
    let mut depth = 0_u32;
    let names = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    names
        .map(algorithm)
        .collect::<Result<_, _>>()
        .map(Algorithms)
}

/// Formats bytes in hexadecimal with two digits each.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_cannot_be_bound_is_reported_with_its_cause() {
        let fails = |text, error: fn() -> io::Error| {
            let bound = listen(text).unwrap().bind::<()>(|_| Err(error()));
            bound.unwrap_err().to_string()
        };
        let denied = fails(":443", || io::ErrorKind::PermissionDenied.into());
        assert!(denied.contains("CAP_NET_BIND_SERVICE"), "{denied}");
        let taken = fails(":443", || io::ErrorKind::AddrInUse.into());
        let reason = "cannot listen on :443: another process has UDP port 443";
        assert_eq!(taken, reason);
        let mut tried = Vec::new();
        let without_ipv6 = listen("443").unwrap().bind(|address| {
            tried.push(address);
            if address.is_ipv6() {
                Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
            } else {
                Ok(())
            }
        });
        assert!(without_ipv6.is_ok());
        assert_eq!(tried.len(), 2);
    }

    #[test]
    fn known_answers() {
        assert_eq!(bytes("5_000_000"), Ok(5_000_000));
        assert_eq!(bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes(".5k"), Ok(500));
        assert_eq!(bytes("2 T"), Ok(2_000_000_000_000));
        assert_eq!(bytes("1.5B"), Ok(2));
        assert_eq!(bytes("9_007_199_254_740_993"), Ok((1 << 53) + 1));
        assert_eq!(bytes("20_000_000TB"), Ok(u64::MAX));
        let unknown = bytes("5 parsecs").unwrap_err();
        assert!(unknown.contains("`parsecs`; try kB"), "{unknown}");
        assert!(bytes("MB").unwrap_err().contains("such as 5_000_000"));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0.3us"), Ok(Duration::from_nanos(300)));
        assert_eq!(duration("1e3s").ok(), None);
        let longest = duration("18446744073709551615s");
        assert_eq!(longest, Ok(Duration::from_secs(u64::MAX)));
        for wrong in ["soon", "", "s", "-1s", "18446744073709551616s"] {
            assert!(duration(wrong).unwrap_err().contains("30s, 250ms or 2m"));
        }
        assert!(algorithm("vpc").unwrap_err().contains("vcp"));
        let first = |text| listen(text).map(|listen| listen.addresses[0].to_string());
        for (text, address) in [
            ("127.0.0.1:4433", "127.0.0.1:4433"),
            ("[::1]:4433", "[::1]:4433"),
            (":4433", "[::]:4433"),
            ("4433", "[::]:4433"),
        ] {
            assert_eq!(first(text), Ok(address.to_owned()));
        }
        for text in ["", ":", "localhost:4433", "127.0.0.1", ":70000", "::1", "+"] {
            assert!(listen(text).unwrap_err().contains("4433"), "{text}");
        }
        let list = |text| algorithms(text).unwrap().0;
        let both = list("vcp[alpha=2,t_rho=100ms],xcp");
        let shown: Vec<String> = both.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["vcp[alpha=2,t_rho=100ms]", "xcp"]);
        assert_eq!(list("cubic").len(), 1);
        for wrong in ["", "cubic,", "vcp[alpha=2,cubic", "cubic xcp", "xcp],cubic"] {
            assert!(algorithms(wrong).is_err(), "{wrong}");
        }
    }
}
