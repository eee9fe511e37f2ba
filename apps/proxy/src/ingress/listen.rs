//! Listening sockets, and the addresses and targets of ingresses in the syntax of ssh.
//!
//! ```text
//!   -L [BIND:]PORT:HOST:HOSTPORT[/udp]
//!   -D [BIND:]PORT
//! ```
//!
//! BIND is an address, with IPv6 in brackets, or `localhost`. An empty BIND or `*` means all
//! addresses. If BIND and its colon are omitted, the listener is on loopback.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::Counters;
use crate::outbound;
use crate::target::{Target, TargetError};

/// Maximum number of connections that wait in the kernel to be accepted.
pub(super) const BACKLOG: i32 = 1024;
/// Initial pause after failing to accept a connection. It doubles up to …
const PAUSE: Duration = Duration::from_millis(10);
/// … this pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The reason why an ingress can't listen. Its message suggests a remedy.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process uses the port.
    #[error("another process has {0}; choose another port")]
    Taken(SocketAddr),
    /// The address belongs to another machine.
    #[error("this machine does not have the address of {0}; choose one that `ip address` lists")]
    Foreign(SocketAddr),
    /// The port requires privileges.
    #[error("{0} needs root or CAP_NET_BIND_SERVICE; choose a port from 1024 on")]
    Denied(SocketAddr),
    /// A transparent listener requires privileges.
    #[error("a transparent listener needs root or CAP_NET_ADMIN")]
    Transparent,
    /// Any other error.
    #[error("cannot listen on {0}: {1}")]
    Other(SocketAddr, io::Error),
}

impl ListenError {
    pub(super) fn transparent(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::PermissionDenied => Self::Transparent,
            _ => Self::new(address, error),
        }
    }

    fn new(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::AddrInUse => Self::Taken(address),
            ErrorKind::AddrNotAvailable => Self::Foreign(address),
            ErrorKind::PermissionDenied => Self::Denied(address),
            _ => Self::Other(address, error),
        }
    }
}

/// Opens TCP listeners, one for each IP version of the address.
///
/// # Errors
/// [`ListenError`]. Lacking one of two IP versions is not an error.
pub fn tcp(bind: &Bind) -> Result<Vec<TcpListener>, ListenError> {
    all(bind, Type::STREAM, |socket| {
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    })
}

/// Opens UDP sockets like [`tcp`].
///
/// # Errors
/// The same as [`tcp`].
pub fn udp(bind: &Bind) -> Result<Vec<UdpSocket>, ListenError> {
    all(bind, Type::DGRAM, |socket| {
        outbound::observe(&socket, socket.domain()? == Domain::IPV4)?;
        UdpSocket::from_std(socket.into())
    })
}

/// Binds sockets, and adopts them once all are bound. If the system chooses the port, they all use
/// the same port.
fn all<T>(
    bind: &Bind,
    kind: Type,
    adopt: impl Fn(Socket) -> io::Result<T>,
) -> Result<Vec<T>, ListenError> {
    let mut bound: Vec<(SocketAddr, Socket)> = Vec::new();
    let mut lacking = None;
    let mut port = bind.port;
    for mut address in bind.addresses() {
        address.set_port(port);
        match socket(address, kind) {
            Ok((own, socket)) => {
                port = own.port();
                bound.push((own, socket));
            }
            Err(error) if lacks_version(&error) && !matches!(bind.place, Place::Address(_)) => {
                lacking = Some(ListenError::new(address, error));
            }
            Err(error) => return Err(ListenError::new(address, error)),
        }
    }
    match lacking {
        Some(error) if bound.is_empty() => Err(error),
        _ => bound
            .into_iter()
            .map(|(address, socket)| {
                adopt(socket).map_err(|error| ListenError::new(address, error))
            })
            .collect(),
    }
}

/// Returns true if the machine doesn't support this IP version.
pub(super) fn lacks_version(error: &io::Error) -> bool {
    // Only newer compilers have an error kind for EAFNOSUPPORT.
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn socket(address: SocketAddr, kind: Type) -> io::Result<(SocketAddr, Socket)> {
    let protocol = match kind {
        Type::STREAM => socket2::Protocol::TCP,
        _ => socket2::Protocol::UDP,
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    let own = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((own, socket))
}

/// Accepts the next connection. Errors of accept(2) don't end the listener, because they either
/// concern that connection or are a temporary lack of descriptors or memory.
pub(super) async fn accept(listener: &TcpListener, counters: &Counters) -> (TcpStream, SocketAddr) {
    let mut pause = PAUSE;
    loop {
        let error = match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        if matches!(
            error.kind(),
            ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
        ) {
            continue;
        }
        counters.accept_failed(&error);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The addresses of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Loopback for each IP version that the machine supports.
    Loopback,
    /// All addresses for each IP version that the machine supports.
    All,
    /// This address.
    Address(IpAddr),
}

/// The addresses and port of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bind {
    /// The addresses.
    pub place: Place,
    /// The port, or 0 to let the system choose.
    pub port: u16,
}

/// The kind of traffic of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Byte streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A local port that forwards its flows to one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Where to listen.
    pub bind: Bind,
    /// The target of its flows.
    pub target: Target,
    /// Its kind of traffic.
    pub protocol: Protocol,
}

/// The reason why a text is invalid. Its message suggests a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The number of parts is wrong.
    #[error(
        "`{0}` has {1} of the parts [BIND:]PORT:HOST:HOSTPORT; write, for example, \
         8080:example.org:80, and an IPv6 address in brackets"
    )]
    ForwardParts(String, usize),
    /// There are too many parts.
    #[error("`{0}` is not [BIND:]PORT; write, for example, 1080 or 127.0.0.1:1080")]
    BindParts(String),
    /// The protocol is unknown.
    #[error("`{0}` is no protocol; write /udp for UDP, and nothing for TCP")]
    Protocol(String),
    /// A path of a Unix socket, which only ssh supports.
    #[error("`{0}` is a path; forwards join ports, so write [BIND:]PORT:HOST:HOSTPORT")]
    Path(String),
    /// A bracket lacks its counterpart.
    #[error("`{0}` has a bracket without its pair; write an IPv6 address as [2001:db8::1]")]
    Bracket(String),
    /// The address to listen on is invalid.
    #[error(
        "`{0}` is no address to listen on; write an address of this machine, an IPv6 address in \
         brackets, localhost, or * for all"
    )]
    Address(String),
    /// The port to listen on is invalid.
    #[error("`{0}` is no port to listen on; write a number from 0 to 65535, 0 for any free port")]
    Port(String),
    /// The target is invalid.
    #[error("`{0}` is no target: {1}")]
    Target(String, TargetError),
}

impl FromStr for Bind {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match parts(text)?.as_slice() {
            [port] => Self::new(None, port),
            [address, port] => Self::new(Some(address), port),
            _ => Err(SpecError::BindParts(text.to_owned())),
        }
    }
}

impl FromStr for Forward {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.starts_with('/') {
            return Err(SpecError::Path(text.to_owned()));
        }
        let (ports, protocol) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.strip_suffix("/tcp").unwrap_or(text), Protocol::Tcp),
            Some((ports, "udp")) => (ports, Protocol::Udp),
            Some((_, path)) if path.contains(['/', ':']) => {
                return Err(SpecError::Path(text.to_owned()));
            }
            Some((_, other)) => return Err(SpecError::Protocol(other.to_owned())),
        };
        let parts = parts(ports)?;
        let (bind, host, port) = match parts.as_slice() {
            [port, host, host_port] => (Bind::new(None, port)?, host, host_port),
            [address, port, host, host_port] => (Bind::new(Some(address), port)?, host, host_port),
            parts => return Err(SpecError::ForwardParts(text.to_owned(), parts.len())),
        };
        let wrong = |error| SpecError::Target(format!("{host}:{port}"), error);
        let number = port.parse().map_err(|_| wrong(TargetError::Port))?;
        Ok(Self {
            bind,
            target: Target::new(host, number).map_err(wrong)?,
            protocol,
        })
    }
}

/// Splits a text at colons outside brackets.
fn parts(text: &str) -> Result<Vec<&str>, SpecError> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match (c, inside) {
            ('[', false) => inside = true,
            (']', true) => inside = false,
            ('[', true) | (']', false) => return Err(SpecError::Bracket(text.to_owned())),
            (':', false) => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(SpecError::Bracket(text.to_owned()));
    }
    parts.push(text.get(start..).unwrap_or_default());
    Ok(parts)
}

impl Bind {
    fn new(address: Option<&str>, port: &str) -> Result<Self, SpecError> {
        let place = match address {
            None | Some("localhost") => Place::Loopback,
            Some("" | "*") => Place::All,
            Some(text) => {
                let bare = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'));
                let address = match bare {
                    Some(bare) => bare.parse().map(IpAddr::V6),
                    None => text.parse().map(IpAddr::V4),
                };
                Place::Address(address.map_err(|_| SpecError::Address(text.to_owned()))?)
            }
        };
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits => Ok(Self { place, port }),
            _ => Err(SpecError::Port(port.to_owned())),
        }
    }

    /// Returns the addresses to listen on. If there are several, the machine may lack all but one.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let both =
            |v4: Ipv4Addr, v6: Ipv6Addr| vec![(v4, self.port).into(), (v6, self.port).into()];
        match self.place {
            Place::Loopback => both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST),
            Place::All => both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED),
            Place::Address(address) => vec![(address, self.port).into()],
        }
    }

    /// Returns true if only this machine can reach the listener.
    pub fn is_local(&self) -> bool {
        match self.place {
            Place::Loopback => true,
            Place::All => false,
            Place::Address(address) => address.is_loopback(),
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Loopback => {}
            Place::All => f.write_str("*:")?,
            Place::Address(IpAddr::V4(address)) => write!(f, "{address}:")?,
            Place::Address(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
        }
        write!(f, "{}", self.port)
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "",
            Protocol::Udp => "/udp",
        };
        write!(f, "{}:{}{protocol}", self.bind, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_in_the_forms_of_ssh() {
        for (text, shown) in [
            ("8080:example.org:80", "8080:example.org:80"),
            ("localhost:8080:example.org:80", "8080:example.org:80"),
            (":8080:example.org:80", "*:8080:example.org:80"),
            ("*:8080:example.org:80", "*:8080:example.org:80"),
            ("0.0.0.0:53:192.0.2.1:53/udp", "0.0.0.0:53:192.0.2.1:53/udp"),
            ("[::1]:0:[2001:db8::1]:22", "[::1]:0:[2001:db8::1]:22"),
            ("22:a:22/tcp", "22:a:22"),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(forward.to_string(), shown);
            assert_eq!(shown.parse(), Ok(forward));
        }
    }

    #[test]
    fn listeners_are_on_loopback_unless_an_address_is_named() {
        for (text, first, count, local) in [
            ("1080", "127.0.0.1:1080", 2, true),
            ("localhost:1080", "127.0.0.1:1080", 2, true),
            ("127.0.0.2:1080", "127.0.0.2:1080", 1, true),
            (":1080", "0.0.0.0:1080", 2, false),
            ("*:1080", "0.0.0.0:1080", 2, false),
            ("[::]:1080", "[::]:1080", 1, false),
            ("192.0.2.1:0", "192.0.2.1:0", 1, false),
        ] {
            let bind: Bind = text.parse().unwrap();
            let addresses = bind.addresses();
            assert_eq!(addresses.first().unwrap().to_string(), first, "{text}");
            assert_eq!((addresses.len(), bind.is_local()), (count, local), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        for (text, message) in [
            ("8080", "8080:example.org:80"),
            ("8080:example.org", "8080:example.org:80"),
            ("1:2:3:4:5", "8080:example.org:80"),
            ("8080:2001:db8::1:80", "in brackets"),
            ("8080:[::1:80", "bracket"),
            ("8080:a:80/sctp", "/udp for UDP"),
            ("/run/a:b:80", "forwards join ports"),
            ("80:/run/a", "forwards join ports"),
            ("host:8080:a:80", "no address to listen on"),
            ("::1:8080:a:80", "has 6 of the parts"),
            ("70000:a:80", "no port to listen on"),
            ("+80:a:80", "no port to listen on"),
            ("80:a:0", "a port is a number from 1"),
            ("80::80", "a host is a name or an address"),
        ] {
            let error = text.parse::<Forward>().unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        let error = "1:2:3".parse::<Bind>().unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:1080"), "{error}");
    }
}
