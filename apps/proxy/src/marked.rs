//! UDP sockets that also transfer the ECN field of datagrams' packets (RFC 3168 section 5).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo, sockaddr_in6};
use nix::sys::socket::sockopt::{IpRecvTos, Ipv6RecvTClass};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage,
    recvmsg, sendmsg, setsockopt,
};
use pathmark_transport::Ecn;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) length: usize,
    pub(crate) ecn: Ecn,
    pub(crate) from: Option<SocketAddr>,
    /// The original destination of a transparent socket's datagram.
    pub(crate) to: Option<SocketAddr>,
}

/// Makes the kernel report the ECN field of received packets.
pub(crate) fn observe(socket: &impl AsFd, is_v4: bool) -> io::Result<()> {
    match is_v4 {
        true => setsockopt(socket, IpRecvTos, &true)?,
        false => setsockopt(socket, Ipv6RecvTClass, &true)?,
    }
    Ok(())
}

/// Receives a datagram. The future can be cancelled without losing any.
pub(crate) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let receive = || {
        let mut control = cmsg_space!(sockaddr_in6, i32);
        let mut parts = [IoSliceMut::new(buffer)];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        let received = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), flags)?;
        let (mut ecn, mut to) = (Ecn::NotEct, None);
        for message in received.cmsgs()? {
            match message {
                ControlMessageOwned::Ipv4Tos(tos) => ecn = Ecn::from_bits(tos),
                ControlMessageOwned::Ipv6TClass(class) => ecn = Ecn::from_bits(class as u8),
                ControlMessageOwned::Ipv4OrigDstAddr(address) => {
                    to = Some(SocketAddrV4::from(SockaddrIn::from(address)).into());
                }
                ControlMessageOwned::Ipv6OrigDstAddr(address) => {
                    to = Some(SocketAddrV6::from(SockaddrIn6::from(address)).into());
                }
                _ => {}
            }
        }
        Ok(Received {
            length: received.bytes,
            ecn,
            from: received.address.as_ref().and_then(address),
            to,
        })
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

/// Sends a datagram to `to`, or to the socket's peer by default. Returns its length.
pub(crate) async fn send(
    socket: &UdpSocket,
    payload: &[u8],
    to: Option<SocketAddr>,
    ecn: Ecn,
) -> io::Result<usize> {
    if ecn == Ecn::NotEct {
        return match to {
            Some(to) => socket.send_to(payload, to).await,
            None => socket.send(payload).await,
        };
    }
    let (tos, class) = (ecn as u8, ecn as i32);
    // The kernel ignores the message for the other IP version.
    let control = [
        ControlMessage::Ipv4Tos(&tos),
        ControlMessage::Ipv6TClass(&class),
    ];
    let to = to.map(SockaddrStorage::from);
    let send = || {
        let parts = [IoSlice::new(payload)];
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        Ok(sendmsg(fd, &parts, &control, flags, to.as_ref())?)
    };
    socket.async_io(Interest::WRITABLE, send).await
}

/// Sends a packet on a raw transparent socket. The source address can belong to another machine.
pub(crate) async fn send_from(
    socket: &UdpSocket,
    packet: &[u8],
    source: IpAddr,
    mut to: SocketAddr,
    ecn: Ecn,
) -> io::Result<()> {
    let (tos, class) = (ecn as u8, ecn as i32);
    let (v4, v6);
    let control = match source {
        IpAddr::V4(source) => {
            v4 = in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr {
                    s_addr: u32::from_ne_bytes(source.octets()),
                },
                ipi_addr: in_addr { s_addr: 0 },
            };
            [
                ControlMessage::Ipv4PacketInfo(&v4),
                ControlMessage::Ipv4Tos(&tos),
            ]
        }
        IpAddr::V6(source) => {
            v6 = in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: source.octets(),
                },
                ipi6_ifindex: 0,
            };
            [
                ControlMessage::Ipv6PacketInfo(&v6),
                ControlMessage::Ipv6TClass(&class),
            ]
        }
    };
    // Raw sockets don't have ports.
    to.set_port(0);
    let to = SockaddrStorage::from(to);
    let send = || {
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        Ok(sendmsg(
            fd,
            &[IoSlice::new(packet)],
            &control,
            flags,
            Some(&to),
        )?)
    };
    socket.async_io(Interest::WRITABLE, send).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_field_arrives_over_both_ip_versions() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let [one, other] = [(); 2].map(|()| {
                let socket = std::net::UdpSocket::bind(address).unwrap();
                socket.set_nonblocking(true).unwrap();
                let socket = UdpSocket::from_std(socket).unwrap();
                observe(&socket, address.starts_with('1')).unwrap();
                socket
            });
            let to = other.local_addr().unwrap();
            let mut buffer = [0; 9];
            for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
                assert_eq!(send(&one, b"abc", Some(to), ecn).await.unwrap(), 3);
                let received = receive(&other, &mut buffer).await.unwrap();
                let expected = Received {
                    length: 3,
                    ecn,
                    from: one.local_addr().ok(),
                    to: None,
                };
                assert_eq!(received, expected);
            }
            one.connect(to).await.unwrap();
            send(&one, b"a", None, Ecn::Ce).await.unwrap();
            assert_eq!(receive(&other, &mut buffer).await.unwrap().ecn, Ecn::Ce);
        }
    }
}
