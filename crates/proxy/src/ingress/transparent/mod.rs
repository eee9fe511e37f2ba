//! Connections and datagrams that the kernel takes from their way to a target (TPROXY).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::listen::{self, BACKLOG, ListenError};
use super::splice;
use super::{Ingress, count};
use crate::outbound::Outbound;
use crate::target::{Host, Target};

mod datagrams;
pub mod rules;

/// Transparent listeners on loopback: the rules bring packets there.
///
/// # Errors
/// [`ListenError`]; not for an IP version that the machine lacks.
pub fn tcp(port: u16) -> Result<Vec<TcpListener>, ListenError> {
    all(port, (Type::STREAM, Protocol::TCP), adopt)
}

/// Transparent sockets for datagrams, as [`tcp`].
///
/// # Errors
/// As [`tcp`].
pub fn udp(port: u16) -> Result<Vec<UdpSocket>, ListenError> {
    all(port, (Type::DGRAM, Protocol::UDP), datagrams::adopt)
}

fn all<T>(
    port: u16,
    (kind, protocol): (Type, Protocol),
    adopt: impl Fn(Socket, SocketAddr) -> io::Result<T>,
) -> Result<Vec<T>, ListenError> {
    let mut listeners = Vec::new();
    let loopback: [SocketAddr; 2] = [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ];
    for address in loopback {
        let domain = Domain::for_address(address);
        let opened = Socket::new(domain, kind, Some(protocol));
        let opened = opened.and_then(|socket| adopt(socket, address));
        match opened {
            Ok(listener) => listeners.push(listener),
            Err(error) if !listeners.is_empty() && listen::lacks_version(&error) => {}
            Err(error) => return Err(ListenError::transparent(address, error)),
        }
    }
    Ok(listeners)
}

/// Makes a socket a transparent listener.
///
/// # Errors
/// Those of the kernel: the option needs `CAP_NET_ADMIN`.
pub fn adopt(socket: Socket, address: SocketAddr) -> io::Result<TcpListener> {
    bind(&socket, address)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Binds a transparent socket, to any address.
fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    prepare(socket, address.is_ipv4())?;
    socket.bind(&address.into())
}

/// Has a socket send from any address.
fn prepare(socket: &Socket, is_v4: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if is_v4 {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_ip_transparent_v6(true)?;
    }
    // Connections inherit the mark, so that the rules let their packets to clients pass.
    socket.set_mark(rules::OWN)
}

impl<O: Outbound> Ingress<O> {
    /// Joins a connection with a flow to where it was going.
    pub(super) async fn transparent(&self, local: TcpStream) {
        let target = match local.local_addr() {
            Ok(address) => Target {
                host: Host::Address(address.ip()),
                port: address.port(),
            },
            Err(_) => {
                count(&self.counters.bad_requests);
                return splice::reset_on_close(&local);
            }
        };
        self.forward(local, "tproxy", &target).await;
    }
}
