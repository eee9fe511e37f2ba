//! Datagrams that the kernel takes from their way to a target. The kernel names the target of each;
//! answers have the target's address as their source.

use std::io;
use std::net::SocketAddr;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4OrigDstAddr, Ipv6OrigDstAddr};
use pathmark_transport::Ecn;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::sleep;

use super::super::udp::{Back, Flows, LONGEST, PAUSE};
use super::super::{Ingress, count};
use super::bind;
use crate::marked;
use crate::outbound::Outbound;
use crate::target::{Host, Target};

/// Makes a socket a transparent one that learns where datagrams were going.
pub(super) fn adopt(socket: Socket, address: SocketAddr) -> io::Result<UdpSocket> {
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4OrigDstAddr, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6OrigDstAddr, &true)?,
    }
    bind(&socket, address)?;
    marked::observe(&socket, address.is_ipv4())?;
    UdpSocket::from_std(socket.into())
}

/// A datagram's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    from: SocketAddr,
    to: SocketAddr,
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
    async fn deliver(&self, payload: &[u8], ecn: Ecn) -> io::Result<()> {
        let sent = marked::send(&self.socket, payload, Some(self.address), ecn);
        sent.await.map(drop)
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
            let received = match marked::receive(&socket, &mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    self.counters.accept_failed(&error);
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let way = received.from.zip(received.to);
            let way = way.map(|(from, to)| Way { from, to });
            // A client that names the listener names no target.
            let Some(way) = way.filter(|way| Some(way.to) != own && way.to.port() != 0) else {
                count(&self.counters.bad_requests);
                continue;
            };
            let target = Target {
                host: Host::Address(way.to.ip()),
                port: way.to.port(),
            };
            let payload = buffer.get(..received.length).unwrap_or_default();
            let listed = ("tproxy", way.from, &target);
            let datagram = (payload, received.ecn);
            flows.offer(self, way, listed, datagram, || Client::new(way));
        }
    }
}
