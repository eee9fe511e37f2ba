//! Connections and datagrams that the kernel redirects from their target (TPROXY).

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

/// Opens transparent listeners on loopback, to which the rules redirect packets.
///
/// # Errors
/// [`ListenError`]. Lacking IPv6 is not an error.
pub fn tcp(port: u16) -> Result<Vec<TcpListener>, ListenError> {
    all(port, (Type::STREAM, Protocol::TCP), adopt)
}

/// Opens transparent sockets for datagrams like [`tcp`].
///
/// # Errors
/// The same as [`tcp`].
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
/// Fails if the kernel does. The option requires `CAP_NET_ADMIN`.
pub fn adopt(socket: Socket, address: SocketAddr) -> io::Result<TcpListener> {
    bind(&socket, address)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Binds a transparent socket to any address.
fn bind(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    prepare(socket, address.is_ipv4())?;
    socket.bind(&address.into())
}

/// Allows a socket to send from any address.
fn prepare(socket: &Socket, is_v4: bool) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if is_v4 {
        socket.set_ip_transparent_v4(true)?;
    } else {
        socket.set_ip_transparent_v6(true)?;
    }
    // Connections inherit this mark, so that the rules let their packets to clients pass.
    socket.set_mark(rules::OWN)
}

impl<O: Outbound> Ingress<O> {
    /// Joins a connection to a flow to its original target.
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
