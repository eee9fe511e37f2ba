//! Listening sockets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::Counters;
use super::spec::{Bind, Place};
use crate::marked;

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
    all(bind, Type::STREAM, |socket| socket.set_reuse_address(true))?
        .into_iter()
        .map(|(address, socket)| {
            let listening = socket
                .listen(BACKLOG)
                .and_then(|()| TcpListener::from_std(socket.into()));
            listening.map_err(|error| ListenError::new(address, error))
        })
        .collect()
}

/// Opens UDP sockets like [`tcp`].
///
/// # Errors
/// The same as [`tcp`].
pub fn udp(bind: &Bind) -> Result<Vec<UdpSocket>, ListenError> {
    all(bind, Type::DGRAM, |_| Ok(()))?
        .into_iter()
        .map(|(address, socket)| {
            let observed = marked::observe(&socket, address.is_ipv4());
            let adopted = observed.and_then(|()| UdpSocket::from_std(socket.into()));
            adopted.map_err(|error| ListenError::new(address, error))
        })
        .collect()
}

/// Binds sockets. If the system chooses the port, they all use the same port.
fn all(
    bind: &Bind,
    kind: Type,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> Result<Vec<(SocketAddr, Socket)>, ListenError> {
    let mut bound: Vec<(SocketAddr, Socket)> = Vec::new();
    let mut lacking = None;
    let mut port = bind.port;
    for mut address in bind.addresses() {
        address.set_port(port);
        match socket(address, kind, &prepare) {
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
        _ => Ok(bound),
    }
}

/// Returns true if the machine doesn't support this IP version.
pub(super) fn lacks_version(error: &io::Error) -> bool {
    // Only newer compilers have an error kind for EAFNOSUPPORT.
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn socket(
    address: SocketAddr,
    kind: Type,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<(SocketAddr, Socket)> {
    let protocol = match kind {
        Type::STREAM => Protocol::TCP,
        _ => Protocol::UDP,
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    prepare(&socket)?;
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
