//! Connects to targets: resolves names, applies the policy, and tries the addresses. Relays bytes
//! between a tunnel and a TCP connection.
//!
//! A FIN only ends its direction, whereas a reset of either side in either direction also resets
//! the other side.
//!
//! After the client has ended a direction, this direction outlives the client's connection. This
//! is necessary because a client can leave as soon as the transport has acknowledged all bytes,
//! when the target might not have received them yet.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use pathmark_driver::Connection;
use pathmark_http3::wire::{TunnelRecv, TunnelSend};
use pathmark_transport::Ecn;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::Instant;

use super::usage::Tally;
use crate::outbound::{self, Received, Refusal};
use crate::policy::{self, Policy};
use crate::target::{Host, Target};
use crate::target::{race, unspecified};

/// TCP keep-alive for targets: idle time before the first probe, interval between probes, and
/// their number.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Opens a TCP connection to a target within `time`.
pub(super) async fn tcp(
    target: &Target,
    policy: &Policy,
    time: Duration,
) -> Result<TcpStream, Refusal> {
    let connecting = async {
        let raced = race(addresses(target, policy).await?, TcpStream::connect).await;
        let last = |errors: Vec<io::Error>| errors.last().map_or(Refusal::Unreachable, refusal);
        let stream = raced.map_err(last)?;
        let socket = SockRef::from(&stream);
        let (silence, interval, questions) = KEEP_ALIVE;
        let keepalive = TcpKeepalive::new()
            .with_time(silence)
            .with_interval(interval)
            .with_retries(questions);
        let options = stream
            .set_nodelay(true)
            .and_then(|()| socket.set_tcp_keepalive(&keepalive))
            // If the client goes away before its flow is relayed, the target should see a reset.
            // The kernel sends RST when a socket with zero linger time is closed.
            .and_then(|()| socket.set_linger(Some(Duration::ZERO)));
        options.map_err(|error| refusal(&error))?;
        Ok(stream)
    };
    let connected = tokio::time::timeout(time, connecting).await;
    connected.unwrap_or(Err(Refusal::TimedOut))
}

/// The time since a flow's first datagram in which all addresses are tried that have not answered.
const TRIAL: Range<Duration> = Duration::from_millis(250)..Duration::from_secs(5);

/// Connected sockets of a UDP flow, for an address of each IP version. Since UDP has no handshake,
/// only an answer shows which address works.
pub(super) struct Ways {
    sockets: Vec<UdpSocket>,
    first: OnceLock<Instant>,
    /// The place of the socket to use.
    used: OnceLock<usize>,
}

/// Opens UDP sockets connected to a target.
pub(super) async fn udp(target: &Target, policy: &Policy, time: Duration) -> Result<Ways, Refusal> {
    let connecting = async {
        let (mut sockets, mut last) = (Vec::<UdpSocket>::new(), Refusal::Unreachable);
        for address in addresses(target, policy).await? {
            let is_like = |socket: &UdpSocket| {
                let peer = socket.peer_addr();
                peer.is_ok_and(|peer| peer.is_ipv4() == address.is_ipv4())
            };
            if sockets.iter().any(is_like) {
                continue;
            }
            match connected(address).await {
                Ok(socket) => sockets.push(socket),
                Err(error) => last = refusal(&error),
            }
        }
        if sockets.is_empty() {
            return Err(last);
        }
        Ok(Ways::new(sockets))
    };
    let connected = tokio::time::timeout(time, connecting).await;
    connected.unwrap_or(Err(Refusal::TimedOut))
}

impl Ways {
    const fn new(sockets: Vec<UdpSocket>) -> Self {
        Self {
            sockets,
            first: OnceLock::new(),
            used: OnceLock::new(),
        }
    }

    /// Sends a datagram, to all addresses while none has answered for a moment.
    pub(super) async fn send(&self, payload: &[u8], ecn: Ecn) -> io::Result<usize> {
        let age = self.first.get_or_init(Instant::now).elapsed();
        let is_open = self.used.get().is_none();
        let place = self.used.get().copied().unwrap_or(0);
        let most = if is_open && TRIAL.contains(&age) {
            2
        } else {
            1
        };
        let mut sent = Err(io::ErrorKind::NotConnected.into());
        for socket in self.sockets.iter().skip(place).take(most) {
            let one = outbound::send(socket, payload, None, ecn).await;
            sent = sent.or(one);
        }
        sent
    }

    /// Receives a datagram. The future can be cancelled without losing any.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let (place, received) = match (self.used.get(), self.sockets.as_slice()) {
            (None, [one, two]) => {
                let mut other = vec![0; buffer.len()];
                tokio::select! {
                    received = outbound::receive(one, buffer) => (0, received),
                    received = outbound::receive(two, &mut other) => {
                        buffer.copy_from_slice(&other);
                        (1, received)
                    }
                }
            }
            (used, sockets) => {
                let place = used.copied().unwrap_or(0);
                let socket = sockets.get(place).ok_or(io::ErrorKind::NotConnected)?;
                return outbound::receive(socket, buffer).await;
            }
        };
        // An error comes from an ICMP message: nothing is at this address.
        let works = if received.is_ok() { place } else { 1 - place };
        let _ = self.used.set(works);
        received
    }
}

/// Opens a UDP socket that only receives datagrams from this address. No packet is sent.
async fn connected(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(unspecified(address)).await?;
    socket.connect(address).await?;
    outbound::observe(&socket, address.is_ipv4())?;
    Ok(socket)
}

/// Returns the addresses of a target that the policy allows, at least one.
async fn addresses(target: &Target, policy: &Policy) -> Result<Vec<SocketAddr>, Refusal> {
    let found: Vec<SocketAddr> = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name) => {
            let found = lookup_host((name.as_str(), target.port)).await;
            found.map_err(|_| Refusal::Name)?.collect()
        }
    };
    if found.is_empty() {
        return Err(Refusal::Name);
    }
    let (mut allowed, mut denied) = (Vec::new(), false);
    for address in found {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let leads_to = policy::embedded(address.ip()).map(|ip| SocketAddr::new(ip, address.port()));
        let mut is_own = self::is_own(address).await;
        if let Some(inner) = leads_to {
            is_own |= self::is_own(inner).await;
        }
        if !policy.allows(address.ip(), is_own) {
            denied = true;
        } else if !allowed.contains(&address) {
            allowed.push(address);
        }
    }
    if allowed.is_empty() && denied {
        Err(Refusal::Denied)
    } else {
        Ok(allowed)
    }
}

/// Returns true for an address of this host, which means that an interface has it, or that the
/// kernel would use it as the source of packets to itself. If this can't be determined, it also
/// returns true.
async fn is_own(address: SocketAddr) -> bool {
    if interfaces_have(address.ip()).unwrap_or(true) {
        return true;
    }
    let source = connected(address).await;
    match source.and_then(|socket| socket.local_addr()) {
        Ok(source) => source.ip() == address.ip(),
        // Without a route, connecting fails.
        Err(error) => is_scarce(&error),
    }
}

fn interfaces_have(address: IpAddr) -> nix::Result<bool> {
    let ip = |storage: SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        let v6 = || storage.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip()));
        v4.or_else(v6)
    };
    let has = |own: Option<SockaddrStorage>, mask: Option<SockaddrStorage>| {
        is_of_interface(address, own.and_then(ip), mask.and_then(ip))
    };
    let mut interfaces = getifaddrs()?;
    Ok(interfaces.any(|interface| has(interface.address, interface.netmask)))
}

/// Returns true for the interface's own address and for the anycast address of the routers in
/// its subnet (RFC 4291 section 2.6.1), which a forwarding host also has.
fn is_of_interface(address: IpAddr, own: Option<IpAddr>, mask: Option<IpAddr>) -> bool {
    let is_anycast = match (address, own, mask) {
        (IpAddr::V6(address), Some(IpAddr::V6(own)), Some(IpAddr::V6(mask))) => {
            address.to_bits() == own.to_bits() & mask.to_bits()
        }
        _ => false,
    };
    is_anycast || own == Some(address)
}

/// Converts a connection error to a refusal.
fn refusal(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Refusal::Refused,
        io::ErrorKind::TimedOut => Refusal::TimedOut,
        io::ErrorKind::PermissionDenied => Refusal::Denied,
        _ if is_scarce(error) => Refusal::Busy,
        _ => Refusal::Unreachable,
    }
}

/// Returns true if this host has run out of descriptors, ports or memory.
fn is_scarce(error: &io::Error) -> bool {
    // EMFILE and ENFILE have no error kind.
    matches!(
        error.kind(),
        io::ErrorKind::OutOfMemory | io::ErrorKind::AddrNotAvailable
    ) || matches!(error.raw_os_error(), Some(23 | 24))
}

/// Initial and maximum number of bytes per socket read. The size doubles when a flow fills it.
const READ: (usize, usize) = (4 * 1024, 256 * 1024);
/// Time for a target to accept a piece of data after its client's connection has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Relays until both directions have ended. Dropping the future earlier resets both sides,
/// because the target's socket has zero linger time.
///
/// A reset of either side, which the other side has got then.
pub(super) async fn relay(
    target: TcpStream,
    client: &Connection,
    mut send: TunnelSend,
    mut recv: TunnelRecv,
    tally: &Tally<'_>,
) -> io::Result<()> {
    let relayed = tokio::try_join!(
        up(&target, client, &mut recv, tally),
        down(&target, &mut send, tally),
    );
    match relayed {
        Ok(_) => SockRef::from(&target).set_linger(None),
        Err(error) => {
            send.reset();
            recv.stop();
            Err(error)
        }
    }
}

/// Relays from the tunnel to the target.
async fn up(
    target: &TcpStream,
    client: &Connection,
    recv: &mut TunnelRecv,
    tally: &Tally<'_>,
) -> io::Result<()> {
    loop {
        let chunk = tokio::select! {
            chunk = recv.chunk() => chunk?,
            error = broken(target) => return Err(error),
        };
        let Some(chunk) = chunk else {
            // The target may have already closed its side.
            let _ = SockRef::from(target).shutdown(Shutdown::Write);
            return Ok(());
        };
        tally.up(chunk.len());
        let writing = async {
            tally.account.pass(chunk.len()).await;
            write_all(target, chunk).await
        };
        tokio::select! {
            written = tally.flow.up.hand_over(writing) => written?,
            // If the target reads nothing, waiting only for the write would hide a reset forever.
            () = recv.was_reset() => return Err(io::ErrorKind::ConnectionReset.into()),
            () = given_up(client) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Waits until the client is gone and the target has had enough time.
async fn given_up(client: &Connection) {
    client.closed().await;
    tokio::time::sleep(PATIENCE).await;
}

async fn write_all(target: &TcpStream, mut data: Bytes) -> io::Result<()> {
    while data.has_remaining() {
        target.writable().await?;
        match target.try_write(&data) {
            Ok(written) => data.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Relays from the target to the tunnel.
async fn down(target: &TcpStream, send: &mut TunnelSend, tally: &Tally<'_>) -> io::Result<()> {
    let stopped = send.stopped();
    tokio::pin!(stopped);
    let mut size = READ.0;
    loop {
        tokio::select! {
            ready = target.readable() => ready?,
            _ = &mut stopped => return Err(io::ErrorKind::ConnectionReset.into()),
        }
        // Allocated per read, so that idle flows hold no buffer.
        let mut buffer = BytesMut::with_capacity(size);
        let read = match target.try_read_buf(&mut buffer) {
            Ok(0) => return send.finish().await,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        tally.down(read);
        let data = if read * 2 < buffer.capacity() {
            // Copy a small piece, which would otherwise keep the whole buffer until it is
            // acknowledged.
            Bytes::copy_from_slice(&buffer)
        } else {
            buffer.freeze()
        };
        size = if read == size {
            (size * 2).min(READ.1)
        } else {
            read.next_power_of_two().clamp(READ.0, size)
        };
        let sending = async {
            tally.account.pass(read).await;
            send.send(data).await
        };
        tokio::select! {
            sent = tally.flow.down.hand_over(sending) => sent?,
            error = broken(target) => return Err(error),
        }
    }
}

/// Waits for a reset by the target or another error of its connection.
async fn broken(target: &TcpStream) -> io::Error {
    match target.ready(Interest::ERROR).await {
        Ok(_) => match target.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // A read or a write has already returned it.
            Ok(None) => std::future::pending().await,
        },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_address_that_answers_is_used() {
        let bind = || UdpSocket::bind("127.0.0.1:0");
        let (dead, alive) = (bind().await.unwrap(), bind().await.unwrap());
        let mut sockets = Vec::new();
        for socket in [&dead, &alive] {
            sockets.push(connected(socket.local_addr().unwrap()).await.unwrap());
        }
        let ways = Ways::new(sockets);
        let mut buffer = [0; 4];
        ways.send(b"1", Ecn::NotEct).await.unwrap();
        assert_eq!(dead.recv(&mut buffer).await.unwrap(), 1);
        assert!(alive.try_recv(&mut buffer).is_err());
        tokio::time::advance(TRIAL.start).await;
        ways.send(b"22", Ecn::NotEct).await.unwrap();
        assert_eq!(dead.recv(&mut buffer).await.unwrap(), 2);
        let (length, from) = alive.recv_from(&mut buffer).await.unwrap();
        assert_eq!(length, 2);
        alive.send_to(b"back", from).await.unwrap();
        assert_eq!(ways.receive(&mut buffer).await.unwrap().length, 4);
        assert_eq!(&buffer, b"back");
        ways.send(b"333", Ecn::NotEct).await.unwrap();
        assert_eq!(alive.recv(&mut buffer).await.unwrap(), 3);
        assert!(dead.try_recv(&mut buffer).is_err());
    }

    #[test]
    fn a_host_has_its_address_and_the_anycast_address_of_its_subnet() {
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        let v4 = ("192.0.2.1", "255.255.255.0");
        let v6 = ("2001:db8:1::5", "ffff:ffff:ffff:ffff::");
        for (address, (own, mask), expected) in [
            ("192.0.2.1", v4, true),
            ("192.0.2.0", v4, false),
            ("2001:db8:1::5", v6, true),
            ("2001:db8:1::", v6, true),
            ("2001:db8:1::4", v6, false),
            ("2001:db8:2::", v6, false),
        ] {
            let is_own = is_of_interface(ip(address).unwrap(), ip(own), ip(mask));
            assert_eq!(is_own, expected, "{address} {own}");
        }
        assert!(!is_of_interface(Ipv6Addr::UNSPECIFIED.into(), None, None));
    }
}
