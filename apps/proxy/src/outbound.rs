//! The interface between ingresses and a tunnel, through which flows leave.
//!
//! A refused flow is a status in the response to CONNECT and a `Proxy-Status` (RFC 9209). UDP
//! sockets transfer the ECN field of datagrams' packets (RFC 3168 section 5).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use bytes::Bytes;
use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo, sockaddr_in6};
use nix::sys::socket::sockopt::{IpRecvTos, Ipv6RecvTClass};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage,
    recvmsg, sendmsg, setsockopt,
};
use pathmark_driver::Stall;
use pathmark_transport::{Ecn, QueueCounters};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::UdpSocket;

use crate::target::Target;

/// Opens flows to targets. Clones share the same connection.
pub trait Outbound: Clone + Send + Sync + 'static {
    /// Bytes from a target.
    type Read: AsyncRead + Abort + Send + Unpin + 'static;
    /// Bytes to a target. Shutting it down ends only this direction.
    type Write: AsyncWrite + Abort + Send + Unpin + 'static;
    /// Datagrams to and from a target.
    type Datagrams: Datagrams;

    /// Opens a TCP connection from the proxy to a target.
    fn tcp(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<(Self::Read, Self::Write), Refusal>> + Send {
        async { self.tcp_early(target, &mut tokio::io::empty()).await }
    }

    /// Does the same with early data. Bytes that can be read from `early` before the response
    /// may be sent right after the request, and are lost if the flow is refused.
    fn tcp_early(
        &self,
        target: &Target,
        early: &mut (impl AsyncRead + Send + Unpin),
    ) -> impl Future<Output = Result<(Self::Read, Self::Write), Refusal>> + Send;

    /// Opens a UDP flow from the proxy to a target.
    fn udp(&self, target: &Target)
    -> impl Future<Output = Result<Self::Datagrams, Refusal>> + Send;
}

/// One direction of a byte stream that can be aborted without its last bytes, as with a TCP
/// reset. After the other side's reset, a reader returns `ConnectionReset`.
pub trait Abort {
    /// Ends the direction immediately.
    fn abort(&mut self);

    /// Sets the direction's weight among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}

    /// Returns a handle that reports whether the flow's far end, rather than the path to it,
    /// accepts no bytes.
    fn stall(&self) -> Option<Stall> {
        None
    }
}

/// The ECN fields of a datagram from a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The ECN field of the target's packet.
    pub inner: Ecn,
    /// The ECN field of the packet between proxy and client, or Not-ECT if a stream carried the
    /// datagram.
    pub outer: Ecn,
}

/// The datagrams of one flow. Sending and receiving can run concurrently, and both can be
/// cancelled.
pub trait Datagrams: Send + Sync + 'static {
    /// Sends a payload of at most 65,527 bytes, whose packet has this ECN field.
    fn send_marked(&self, payload: Bytes, ecn: Ecn) -> impl Future<Output = io::Result<()>> + Send;
    /// Sets the flow's weight among those that share its path.
    fn set_weight(&self, _weight: NonZeroU8) {}
    /// Returns the counters of the queue in which payloads wait, if there is one.
    fn queue(&self) -> Option<Arc<QueueCounters>> {
        None
    }
    /// Waits for the next payload from the target and returns its ECN fields, or an error once
    /// the flow has ended.
    fn receive_marked(&self) -> impl Future<Output = io::Result<(Bytes, Marks)>> + Send;

    /// Sends a payload without ECN.
    fn send(&self, payload: Bytes) -> impl Future<Output = io::Result<()>> + Send {
        self.send_marked(payload, Ecn::NotEct)
    }

    /// Waits for the next payload from the target.
    fn receive(&self) -> impl Future<Output = io::Result<Bytes>> + Send {
        async { self.receive_marked().await.map(|(payload, _)| payload) }
    }
}

/// The reason why a flow was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The target refused the connection.
    #[error("the target refused the connection")]
    Refused,
    /// The target did not respond in time.
    #[error("the target did not answer in time")]
    TimedOut,
    /// There is no route to the target.
    #[error("no route leads to the target")]
    Unreachable,
    /// The target's name could not be resolved.
    #[error("the name of the target has no address")]
    Name,
    /// The proxy doesn't allow this target for this client.
    #[error("the proxy does not allow this target")]
    Denied,
    /// The proxy or its client has reached a limit.
    #[error("the proxy has reached its limit of flows")]
    Busy,
    /// The proxy could not authenticate this client.
    #[error("the proxy knows neither the token nor the certificate")]
    Unauthorized,
    /// The proxy can't be reached or ended the connection.
    #[error("the proxy cannot be reached: {0}")]
    Proxy(String),
}

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
    if is_v4 {
        setsockopt(socket, IpRecvTos, &true)?;
    } else {
        setsockopt(socket, Ipv6RecvTClass, &true)?;
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

/// The field name in lowercase.
pub const PROXY_STATUS: &str = "proxy-status";
/// This proxy's name in the field.
const OWN: &str = "pathmark";

/// Each refusal with its status and error type. If a refusal has several, a proxy sends the first.
const TYPES: [(Refusal, u16, &str); 9] = [
    (Refusal::Refused, 502, "connection_refused"),
    (Refusal::TimedOut, 504, "connection_timeout"),
    (Refusal::TimedOut, 504, "dns_timeout"),
    (Refusal::Unreachable, 502, "destination_ip_unroutable"),
    (Refusal::Unreachable, 503, "destination_unavailable"),
    (Refusal::Name, 502, "dns_error"),
    (Refusal::Denied, 502, "destination_ip_prohibited"),
    (Refusal::Denied, 403, "http_request_denied"),
    (Refusal::Busy, 503, "connection_limit_reached"),
];

/// Returns the status and the field's value for a refusal.
pub fn status_of(refusal: &Refusal) -> (u16, String) {
    let found = TYPES.iter().find(|(known, ..)| known == refusal);
    let (status, kind) = found.map_or((502, "proxy_internal_error"), |(_, status, kind)| {
        (*status, *kind)
    });
    (status, format!("{OWN}; error={kind}"))
}

/// Converts a response to a refusal.
pub fn refusal_of(status: u16, field: Option<&[u8]>) -> Refusal {
    let kind = field.and_then(error_type);
    let known = TYPES
        .iter()
        .find(|(.., name)| kind == Some(name.as_bytes()));
    if let Some((refusal, ..)) = known {
        return refusal.clone();
    }
    match status {
        401 | 407 => Refusal::Unauthorized,
        403 => Refusal::Denied,
        502 => Refusal::Unreachable,
        503 => Refusal::Busy,
        504 => Refusal::TimedOut,
        status => Refusal::Proxy(format!("it responds with status {status}")),
    }
}

/// Returns the first parameter `error` in the list that is a token.
fn error_type(field: &[u8]) -> Option<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = field.split(|byte| {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && *byte == b'\\' && !escaped;
        !quoted && matches!(byte, b';' | b',')
    });
    parts
        .map(<[u8]>::trim_ascii)
        .find_map(|part| part.strip_prefix(b"error="))
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

    #[test]
    fn refusals_come_back() {
        for (refusal, ..) in &TYPES {
            let (status, field) = status_of(refusal);
            assert_eq!(refusal_of(status, Some(field.as_bytes())), *refusal);
        }
    }

    #[test]
    fn statuses_alone_and_fields_of_others() {
        assert_eq!(refusal_of(504, None), Refusal::TimedOut);
        assert_eq!(refusal_of(403, Some(b"x")), Refusal::Denied);
        let field = br#"a; details="; error=dns_error, \"", b;error=connection_refused"#;
        assert_eq!(refusal_of(502, Some(field)), Refusal::Refused);
        assert_eq!(refusal_of(407, None), Refusal::Unauthorized);
        assert!(matches!(refusal_of(200, None), Refusal::Proxy(_)));
    }
}
