//! Sockets that set and read the ECN field of their packets.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::sockopt::{IpRecvTos, Ipv4Tos, Ipv6RecvTClass, Ipv6TClass};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

/// A socket that reads the ECN field of received packets.
pub(crate) struct Marked(UdpSocket);

impl Marked {
    pub(crate) fn new(socket: UdpSocket) -> Self {
        match socket.local_addr().unwrap() {
            SocketAddr::V4(_) => setsockopt(&socket, IpRecvTos, &true).unwrap(),
            SocketAddr::V6(_) => setsockopt(&socket, Ipv6RecvTClass, &true).unwrap(),
        }
        Self(socket)
    }

    pub(crate) fn send(&self, payload: &[u8], to: SocketAddr, ecn: u8) {
        match to {
            SocketAddr::V4(_) => setsockopt(&self.0, Ipv4Tos, &ecn.into()).unwrap(),
            SocketAddr::V6(_) => setsockopt(&self.0, Ipv6TClass, &ecn.into()).unwrap(),
        }
        self.0.send_to(payload, to).unwrap();
    }

    pub(crate) fn receive(&self) -> (Vec<u8>, SocketAddr, u8) {
        let (mut buffer, mut control) = ([0; 2000], cmsg_space!(i32));
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let (fd, flags) = (self.0.as_raw_fd(), MsgFlags::empty());
        let received = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags);
        let received = received.unwrap();
        let ecn = received.cmsgs().unwrap().map(|message| match message {
            ControlMessageOwned::Ipv4Tos(tos) => tos,
            ControlMessageOwned::Ipv6TClass(class) => class as u8,
            other => panic!("{other:?}"),
        });
        let ecn = ecn.last().unwrap();
        let from = received.address.unwrap();
        let v4 = from.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        let v6 = || SocketAddr::V6((*from.as_sockaddr_in6().unwrap()).into());
        let length = received.bytes;
        (buffer[..length].to_vec(), v4.unwrap_or_else(v6), ecn)
    }
}
