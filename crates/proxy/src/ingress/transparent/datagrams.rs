//! Datagrams that the kernel takes from their way to a target. The kernel names the target of each;
//! answers have the target's address as their source.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::libc::sockaddr_in6;
use nix::sys::socket::sockopt::{Ipv4OrigDstAddr, Ipv6OrigDstAddr};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg, setsockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::sleep;

use super::super::udp::{Back, Flows, LONGEST, PAUSE};
use super::super::{Ingress, count};
use super::bind;
use crate::outbound::Outbound;
use crate::target::{Host, Target};

/// Makes a socket a transparent one that learns where datagrams were going.
pub(super) fn adopt(socket: Socket, address: SocketAddr) -> io::Result<UdpSocket> {
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4OrigDstAddr, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6OrigDstAddr, &true)?,
    }
    bind(&socket, address)?;
    UdpSocket::from_std(socket.into())
}

/// A datagram's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    from: SocketAddr,
    to: SocketAddr,
}

/// Receives a datagram.
async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Option<Way>)> {
    let receive = || {
        let mut control = cmsg_space!(sockaddr_in6);
        let mut parts = [IoSliceMut::new(buffer)];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        let received = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags)?;
        let from = received.address.as_ref().and_then(address);
        let to = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4OrigDstAddr(to) => {
                Some(SocketAddrV4::from(SockaddrIn::from(to)).into())
            }
            ControlMessageOwned::Ipv6OrigDstAddr(to) => {
                Some(SocketAddrV6::from(SockaddrIn6::from(to)).into())
            }
            _ => None,
        });
        let way = from.zip(to).map(|(from, to)| Way { from, to });
        Ok((received.bytes, way))
    };
    socket.async_io(Interest::READABLE, receive).await
}

fn address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|v4| SocketAddrV4::from(*v4).into());
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|v6| SocketAddrV6::from(*v6).into())
    })
}

/// A client of a target, whose answers come from the target's address.
struct Client {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Client {
    fn new(way: Way) -> io::Result<Self> {
        let domain = Domain::for_address(way.to);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        bind(&socket, way.to)?;
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            address: way.from,
        })
    }
}

impl Back for Client {
    async fn deliver(&self, payload: &[u8]) -> io::Result<()> {
        self.socket.send_to(payload, self.address).await.map(drop)
    }
}

impl<O: Outbound> Ingress<O> {
    /// Takes datagrams to where they were going, without end. Each pair of a client's address and
    /// a target's has a flow of its own.
    pub async fn serve_transparent_udp(&self, socket: UdpSocket) {
        let own = socket.local_addr().ok();
        let flows = Flows::new();
        let mut buffer = vec![0; LONGEST];
        loop {
            let (length, way) = match receive(&socket, &mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    self.counters.accept_failed(&error);
                    sleep(PAUSE).await;
                    continue;
                }
            };
            // A client that names the listener names no target.
            let Some(way) = way.filter(|way| Some(way.to) != own && way.to.port() != 0) else {
                count(&self.counters.bad_requests);
                continue;
            };
            let target = Target {
                host: Host::Address(way.to.ip()),
                port: way.to.port(),
            };
            let payload = buffer.get(..length).unwrap_or_default();
            let listed = ("tproxy", way.from, &target);
            flows.offer(self, way, listed, payload, || Client::new(way));
        }
    }
}
