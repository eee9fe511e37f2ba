//! Connections and datagrams that the kernel redirects from their target (TPROXY). The kernel
//! reports each datagram's original target, whose address must be the source of answers.

pub mod rules;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4OrigDstAddr, Ipv6OrigDstAddr};
use pathmark_transport::Ecn;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::sleep;

use super::listen::{self, BACKLOG, ListenError};
use super::udp::{Back, Ends, Flows, LONGEST, PAUSE};
use super::{Ingress, splice};
use crate::count;
use crate::outbound::{self, Outbound};
use crate::target::Target;

/// Opens transparent listeners on loopback, to which the rules redirect packets.
///
/// # Errors
/// [`ListenError`]. Lacking IPv6 is not an error.
pub fn tcp(port: u16) -> Result<Vec<TcpListener>, ListenError> {
    all(port, Type::STREAM, Protocol::TCP, adopt)
}

/// Opens transparent sockets for datagrams like [`tcp`].
///
/// # Errors
/// The same as [`tcp`].
pub fn udp(port: u16) -> Result<Vec<UdpSocket>, ListenError> {
    all(port, Type::DGRAM, Protocol::UDP, adopt_udp)
}

fn all<T>(
    port: u16,
    kind: Type,
    protocol: Protocol,
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
        let Ok(target) = local.local_addr() else {
            count(&self.counters.bad_requests);
            return splice::reset_on_close(&local);
        };
        self.forward(local, "tproxy", &target.into()).await;
    }
}

/// Makes a socket transparent, so that it receives the original targets of datagrams.
fn adopt_udp(socket: Socket, address: SocketAddr) -> io::Result<UdpSocket> {
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4OrigDstAddr, &true)?,
        SocketAddr::V6(_) => setsockopt(&socket, Ipv6OrigDstAddr, &true)?,
    }
    bind(&socket, address)?;
    outbound::observe(&socket, address.is_ipv4())?;
    UdpSocket::from_std(socket.into())
}

/// The addresses of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Way {
    from: SocketAddr,
    to: SocketAddr,
}

/// A client of a target. Its answers are sent from the target's address.
struct Client {
    source: Source,
    way: Way,
}

/// How to send datagrams from a target's address.
#[derive(Clone)]
enum Source {
    /// Uses a raw socket for all flows. Since it has no port, it doesn't conflict with this
    /// machine's services at the target's port.
    Raw(Arc<UdpSocket>),
    /// Uses a socket bound to the target's address, if this process can't open raw sockets. This
    /// fails if a service uses the same port on all addresses.
    Bound(Arc<UdpSocket>),
}

impl Client {
    fn new(raw: Option<&Arc<UdpSocket>>, way: Way) -> io::Result<Self> {
        let source = match raw {
            Some(raw) => Source::Raw(Arc::clone(raw)),
            None => {
                let domain = Domain::for_address(way.to);
                let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
                bind(&socket, way.to)?;
                Source::Bound(Arc::new(UdpSocket::from_std(socket.into())?))
            }
        };
        Ok(Self { source, way })
    }
}

impl Back for Client {
    async fn deliver(&self, payload: &[u8], ecn: Ecn) -> io::Result<()> {
        match &self.source {
            Source::Raw(socket) => {
                let packet = packet(self.way.to, self.way.from, payload)?;
                let source = self.way.to.ip();
                outbound::send_from(socket, &packet, source, self.way.from, ecn).await
            }
            Source::Bound(socket) => {
                let sent = outbound::send(socket, payload, Some(self.way.from), ecn);
                sent.await.map(drop)
            }
        }
    }
}

/// Opens a raw socket that sends UDP from any address and receives nothing.
fn raw(domain: Domain) -> io::Result<UdpSocket> {
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::UDP))?;
    // Otherwise it would receive a copy of each datagram for this machine. `ret 0` drops them all.
    socket.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)])?;
    prepare(&socket, domain == Domain::IPV4)?;
    UdpSocket::from_std(socket.into())
}

/// Builds a UDP header with its payload (RFC 768, RFC 8200 section 8.1).
fn packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(payload.len() + 8).map_err(io::Error::other)?;
    let [from_port, to_port] = [from, to].map(|address| address.port().to_be_bytes());
    let length = length.to_be_bytes();
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let pseudo = [&octets(from)[..], &octets(to), &[0, 17], &length].concat();
    let ports = [from_port, to_port].concat();
    let sum = words(&pseudo) + words(&ports) + words(&length) + words(payload);
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = match !((sum & 0xffff) + (sum >> 16)) as u16 {
        // 0 would mean that there is no checksum.
        0 => 0xffff,
        checksum => checksum,
    };
    Ok([&ports[..], &length, &checksum.to_be_bytes(), payload].concat())
}

/// Returns the sum of 16-bit words (RFC 1071).
fn words(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)));
    let rest = rest.first().map_or(0, |last| u32::from(*last) << 8);
    words.sum::<u32>() + rest
}

impl<O: Outbound> Ingress<O> {
    /// Forwards datagrams to their original targets indefinitely. Each pair of a client's and a
    /// target's address has a separate flow.
    pub async fn serve_transparent_udp(&self, socket: UdpSocket) {
        let own = socket.local_addr().ok();
        let raw = match raw(own.map_or(Domain::IPV4, Domain::for_address)) {
            Ok(raw) => Some(Arc::new(raw)),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "without CAP_NET_RAW a service of this machine at a target's port, such as \
                     DNS, keeps answers from that port away"
                );
                None
            }
        };
        let flows = Flows::new();
        let mut buffer = vec![0; LONGEST];
        loop {
            let received = match outbound::receive(&socket, &mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    self.counters.accept_failed(&error);
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let way = received.from.zip(received.to);
            let way = way.map(|(from, to)| Way { from, to });
            // The client sent to the listener itself, which is not a target.
            let Some(way) = way.filter(|way| Some(way.to) != own && way.to.port() != 0) else {
                count(&self.counters.bad_requests);
                continue;
            };
            let target = Target::from(way.to);
            let payload = buffer.get(..received.length).unwrap_or_default();
            let ends = Ends {
                by: "tproxy",
                client: way.from,
                target: &target,
            };
            flows.offer(self, way, ends, payload, received.ecn, || {
                Client::new(raw.as_ref(), way)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over pseudo-header, header and payload must be all ones (RFC 1071).
    #[test]
    fn the_checksum_covers_addresses_ports_and_payload() {
        for (from, to) in [
            ("192.0.2.1:53", "198.51.100.7:40000"),
            ("[2001:db8::1]:53", "[2001:db8::2]:40000"),
        ] {
            for payload in [&b""[..], b"a", b"answer", &[0xff; 1400]] {
                let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
                let packet = packet(from, to, payload).unwrap();
                assert_eq!(packet[..2], 53_u16.to_be_bytes());
                assert_eq!(packet[8..], *payload);
                let octets = |address: SocketAddr| match address.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                let length = (packet.len() as u16).to_be_bytes();
                let mut all = [octets(from), octets(to), vec![0, 17], length.to_vec()].concat();
                all.extend(&packet);
                all.resize(all.len().next_multiple_of(2), 0);
                let sum = all.chunks(2).fold(0_u16, |sum, pair| {
                    let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([pair[0], pair[1]]));
                    sum + u16::from(carry)
                });
                assert_eq!(sum, 0xffff);
            }
        }
    }
}
