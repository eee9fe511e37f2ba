//! SOCKS version 5 (RFC 1928): CONNECT and UDP ASSOCIATE (section 7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use pathmark_transport::Ecn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::Ingress;
use super::udp::{Back, Ends, Flows, LONGEST, Shared, receive};
use crate::count;
use crate::outbound::{self, Outbound, Refusal};
use crate::target::{Host, Target, TargetError};

impl<O: Outbound> Ingress<O> {
    pub(super) async fn socks(&self, mut local: TcpStream) {
        let handshake = tokio::time::timeout(self.limits().handshake, handshake(&mut local));
        let request = match handshake.await {
            Ok(Ok(Ok(request))) => request,
            Ok(Ok(Err(refused))) => {
                count(&self.counters.bad_requests);
                tracing::debug!(error = %refused.error, "no flow for a SOCKS client");
                return self.farewell(local, &refused.answer).await;
            }
            Ok(Err(_)) | Err(_) => return count(&self.counters.bad_requests),
        };
        match request {
            Request::Connect(target) => self.socks_connect(local, &target).await,
            Request::Associate(port) => self.associate(local, port).await,
        }
    }

    async fn socks_connect(&self, mut local: TcpStream, target: &Target) {
        let Ok(own) = local.local_addr() else {
            return;
        };
        let listed = self.list(&local, "socks", target);
        let mut early = tokio::io::empty();
        let (read, write) = match self.open(&local, target, &mut early).await {
            Some(Ok(flow)) => flow,
            Some(Err(refusal)) => {
                let answer = reply(code(&refusal), own);
                return self.farewell(local, &answer).await;
            }
            None => return,
        };
        if local.write_all(&reply(0, own)).await.is_err() {
            return self.give_up(read, write);
        }
        self.join(local, Vec::new(), read, write, &listed).await;
    }
}

/// The answer to a client that can't be served.
struct Refused {
    error: SocksError,
    answer: Vec<u8>,
}

/// Reads a client's greeting and request, without reading any further bytes.
async fn handshake(local: &mut TcpStream) -> io::Result<Result<Request, Refused>> {
    let own = local.local_addr()?;
    let mut bytes = Vec::new();
    if let Err(error) = message(local, &mut bytes, greeting).await? {
        let answer = match error {
            SocksError::Method => UNACCEPTABLE.to_vec(),
            _ => Vec::new(),
        };
        return Ok(Err(Refused { error, answer }));
    }
    local.write_all(&ACCEPTED).await?;
    bytes.clear();
    let request = message(local, &mut bytes, request).await?;
    Ok(request
        .map(|(request, _)| request)
        .map_err(|error| Refused {
            error,
            answer: reply(error.code(), own),
        }))
}

/// Reads a message by requesting the missing bytes until it is complete.
async fn message<T>(
    local: &mut TcpStream,
    bytes: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<T, SocksError>,
) -> io::Result<Result<T, SocksError>> {
    loop {
        let needed = match parse(bytes) {
            Err(SocksError::Incomplete(needed)) => needed,
            done => return Ok(done),
        };
        let missing = needed.saturating_sub(bytes.len()) as u64;
        if (&mut *local).take(missing).read_buf(bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

const VERSION: u8 = 5;
/// The method "no authentication required" (section 3).
const NO_AUTHENTICATION: u8 = 0;
/// Address types (section 5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The answer to a client that offers "no authentication required".
pub const ACCEPTED: [u8; 2] = [VERSION, NO_AUTHENTICATION];
/// The answer to a client that doesn't offer it.
pub const UNACCEPTABLE: [u8; 2] = [VERSION, 0xff];

/// The reason why bytes aren't a valid client message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// The message is incomplete. It has at least this many bytes.
    #[error("the message has at least {0} bytes")]
    Incomplete(usize),
    /// The version is not 5.
    #[error("version {0} of SOCKS; configure the client for SOCKS5")]
    Version(u8),
    /// The client requires authentication.
    #[error("the client offers no method without authentication; remove its user name")]
    Method,
    /// The command is not supported.
    #[error("command {0} is not CONNECT or UDP ASSOCIATE")]
    Command(u8),
    /// The address type is unknown.
    #[error("address type {0} is unknown")]
    AddressType(u8),
    /// A reserved field is set, or the datagram is a fragment.
    #[error("a reserved field has a value, or the datagram is a fragment")]
    Reserved,
    /// The host or port is invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl SocksError {
    /// Returns the reply code for this error (section 6).
    pub const fn code(self) -> u8 {
        match self {
            Self::Command(_) => 7,
            Self::AddressType(_) => 8,
            _ => 1,
        }
    }
}

/// Returns the reply code for a refusal (section 6). Most servers report a timeout as code 6.
pub const fn code(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Denied => 2,
        Refusal::Unreachable => 3,
        Refusal::Name => 4,
        Refusal::Refused => 5,
        Refusal::TimedOut => 6,
        Refusal::Busy | Refusal::Unauthorized | Refusal::Proxy(_) => 1,
    }
}

/// A client's request (section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// CONNECT.
    Connect(Target),
    /// UDP ASSOCIATE, with the port from which the client sends, if it is known.
    Associate(Option<u16>),
}

/// Reads consecutive fields.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], SocksError> {
        let end = self.at + length;
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or(SocksError::Incomplete(end))?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SocksError> {
        let end = self.at + N;
        let array = self.take(N)?.first_chunk().copied();
        array.ok_or(SocksError::Incomplete(end))
    }

    fn byte(&mut self) -> Result<u8, SocksError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn version(&mut self) -> Result<(), SocksError> {
        match self.byte()? {
            VERSION => Ok(()),
            other => Err(SocksError::Version(other)),
        }
    }

    /// Reads a host and a port (section 5). A name that is a numeric address becomes an address.
    fn address(&mut self) -> Result<(Named<'a>, u16), SocksError> {
        let host = match self.byte()? {
            IPV4 => Named::Address(Ipv4Addr::from(self.array::<4>()?).into()),
            IPV6 => Named::Address(Ipv6Addr::from(self.array::<16>()?).into()),
            NAME => {
                let length = self.byte()?;
                Named::Name(self.take(length.into())?)
            }
            other => return Err(SocksError::AddressType(other)),
        };
        Ok((host, u16::from_be_bytes(self.array()?)))
    }
}

#[derive(Clone, Copy)]
enum Named<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

fn target(host: Named<'_>, port: u16) -> Result<Target, SocksError> {
    let host = match host {
        Named::Address(address) => Host::Address(address),
        Named::Name(name) => {
            let name = str::from_utf8(name).map_err(|_| TargetError::Host)?;
            return Ok(Target::new(name, port)?);
        }
    };
    match port {
        0 => Err(TargetError::Port.into()),
        port => Ok(Target { host, port }),
    }
}

/// Parses the methods that a client offers (section 3). The following bytes belong to the request.
///
/// # Errors
/// [`SocksError`].
pub fn greeting(bytes: &[u8]) -> Result<usize, SocksError> {
    let mut reader = Reader::new(bytes);
    reader.version()?;
    let count = reader.byte()?;
    if reader.take(count.into())?.contains(&NO_AUTHENTICATION) {
        Ok(reader.at)
    } else {
        Err(SocksError::Method)
    }
}

/// Parses a request (section 4). The following bytes belong to the flow.
///
/// # Errors
/// [`SocksError`].
pub fn request(bytes: &[u8]) -> Result<(Request, usize), SocksError> {
    let mut reader = Reader::new(bytes);
    reader.version()?;
    let command = reader.byte()?;
    if reader.byte()? != 0 {
        return Err(SocksError::Reserved);
    }
    let (host, port) = reader.address()?;
    let request = match command {
        1 => Request::Connect(target(host, port)?),
        3 => Request::Associate(Some(port).filter(|port| *port != 0)),
        other => return Err(SocksError::Command(other)),
    };
    Ok((request, reader.at))
}

/// Formats a reply with a code, which is 0 for success, and the address of the server's socket
/// (section 6).
pub fn reply(code: u8, bound: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, code, 0];
    push(&mut reply, &Host::Address(bound.ip()), bound.port());
    reply
}

/// Parses a datagram's target and payload (section 7). Fragments are rejected, which this
/// section allows.
///
/// # Errors
/// [`SocksError`].
pub fn datagram(bytes: &[u8]) -> Result<(Target, &[u8]), SocksError> {
    let mut reader = Reader::new(bytes);
    if reader.array()? != [0; 3] {
        return Err(SocksError::Reserved);
    }
    let (host, port) = reader.address()?;
    let target = target(host, port)?;
    Ok((target, bytes.get(reader.at..).unwrap_or_default()))
}

/// Formats the header of a datagram from a target (section 7). If the client requested a name,
/// it stays a name, because only the proxy knows its address.
pub fn datagram_header(from: &Target) -> Vec<u8> {
    let mut header = vec![0; 3];
    push(&mut header, &from.host, from.port);
    header
}

fn push(message: &mut Vec<u8>, host: &Host, port: u16) {
    match host {
        Host::Address(IpAddr::V4(address)) => {
            message.push(IPV4);
            message.extend_from_slice(&address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            message.push(IPV6);
            message.extend_from_slice(&address.octets());
        }
        Host::Name(name) => {
            // A name has at most 255 bytes.
            let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
            message.extend_from_slice(&[NAME, length]);
            message.extend(name.bytes().take(length.into()));
        }
    }
    message.extend_from_slice(&port.to_be_bytes());
}

/// Maximum length of the header before a payload, which can have a name of 255 bytes.
const LONGEST_HEADER: usize = 3 + 2 + 255 + 2;

/// A client that receives datagrams from one target.
struct Client {
    socket: Shared,
    address: SocketAddr,
    header: Vec<u8>,
}

impl Back for Client {
    async fn deliver(&self, payload: &[u8], ecn: Ecn) -> io::Result<()> {
        let datagram = [&self.header, payload].concat();
        self.socket.send(&datagram, self.address, ecn).await
    }
}

impl<O: Outbound> Ingress<O> {
    /// Relays a client's datagrams until its connection ends.
    ///
    /// The socket uses the local address of the client's connection, and only accepts datagrams
    /// from the client's address. If the request has no port, the first datagram determines it.
    pub(super) async fn associate(&self, mut local: TcpStream, port: Option<u16>) {
        let Ok((socket, peer)) = open(&local).await else {
            return self.farewell(local, &reply(1, UNSPECIFIED)).await;
        };
        let Ok(own) = socket.local_addr() else {
            return;
        };
        if local.write_all(&reply(0, own)).await.is_err() {
            return;
        }
        let relay = self.relay(socket, peer, port);
        let ended = async {
            // Clients should send nothing on this connection. Any bytes are ignored.
            let mut ignored = [0; 64];
            while local.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
        };
        tokio::select! {
            () = relay => {}
            () = ended => {}
        }
    }

    async fn relay(&self, socket: UdpSocket, peer: SocketAddr, port: Option<u16>) {
        let socket = Arc::new(socket);
        let flows = Flows::new();
        let mut port = port;
        let mut buffer = vec![0; LONGEST + LONGEST_HEADER];
        loop {
            let (length, address, ecn) = receive(self, &socket, &mut buffer).await;
            let datagram = datagram(buffer.get(..length).unwrap_or_default());
            let known = address.ip() == peer.ip() && port.is_none_or(|port| port == address.port());
            let (Ok((target, payload)), true) = (datagram, known) else {
                count(&self.counters.dropped);
                continue;
            };
            port = Some(address.port());
            let ends = Ends {
                by: "socks",
                client: address,
                target: &target,
            };
            flows.offer(self, target.clone(), ends, payload, ecn, || {
                let header = datagram_header(&target);
                Ok(Client {
                    socket: Shared::new(&socket),
                    address,
                    header,
                })
            });
        }
    }
}

const UNSPECIFIED: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// Opens the socket of an association, and returns it with the client's address.
async fn open(local: &TcpStream) -> io::Result<(UdpSocket, SocketAddr)> {
    let mut own = local.local_addr()?;
    own.set_port(0);
    let socket = UdpSocket::bind(own).await?;
    outbound::observe(&socket, own.is_ipv4())?;
    Ok((socket, local.peer_addr()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings() {
        assert_eq!(greeting(&[5, 1, 0]), Ok(3));
        assert_eq!(greeting(&[5, 3, 2, 0, 1, 9]), Ok(5));
        assert_eq!(greeting(&[]), Err(SocksError::Incomplete(1)));
        assert_eq!(greeting(&[5, 2, 0]), Err(SocksError::Incomplete(4)));
        assert_eq!(greeting(&[5, 1, 2]), Err(SocksError::Method));
        assert_eq!(greeting(&[4, 1, 0]), Err(SocksError::Version(4)));
        assert_eq!(greeting(b"GET"), Err(SocksError::Version(b'G')));
    }

    #[test]
    fn requests() {
        let connect = |text: &str| Request::Connect(text.parse().unwrap());
        let name = b"\x05\x01\0\x03\x05a.bcd\x00\x50rest";
        assert_eq!(request(name), Ok((connect("a.bcd:80"), 12)));
        let number = b"\x05\x01\0\x03\x09127.0.0.1\x00\x50";
        assert_eq!(request(number), Ok((connect("127.0.0.1:80"), 16)));
        let v4 = [5, 1, 0, 1, 192, 0, 2, 1, 1, 187];
        assert_eq!(request(&v4), Ok((connect("192.0.2.1:443"), 10)));
        let mut v6 = vec![5, 1, 0, 4];
        v6.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        v6.extend_from_slice(&[0, 22]);
        assert_eq!(request(&v6), Ok((connect("[::1]:22"), 22)));
        let associate = [5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(request(&associate), Ok((Request::Associate(None), 10)));
        let from = [5, 3, 0, 1, 127, 0, 0, 1, 4, 0];
        assert_eq!(request(&from), Ok((Request::Associate(Some(1024)), 10)));
        for length in 0..v4.len() {
            let got = request(v4.get(..length).unwrap());
            assert!(matches!(got, Err(SocksError::Incomplete(_))), "{length}");
        }
        for (bytes, error) in [
            (&b"\x05\x02\0\x01\0\0\0\0\0\x50"[..], SocksError::Command(2)),
            (b"\x05\x01\x01\x01", SocksError::Reserved),
            (b"\x05\x01\0\x02", SocksError::AddressType(2)),
            (b"\x05\x01\0\x01\x7f\0\0\x01\0\0", TargetError::Port.into()),
            (b"\x05\x01\0\x03\0\0\x50", TargetError::Host.into()),
            (b"\x05\x01\0\x03\x01\xff\0\x50", TargetError::Host.into()),
        ] {
            assert_eq!(request(bytes), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn datagrams_have_the_header_that_replies_get() {
        for text in ["a.bcd:80", "192.0.2.1:53", "[2001:db8::1]:65535"] {
            let target: Target = text.parse().unwrap();
            let mut bytes = datagram_header(&target);
            assert_eq!(datagram(&bytes), Ok((target.clone(), &[][..])));
            bytes.extend_from_slice(b"data");
            assert_eq!(datagram(&bytes), Ok((target, &b"data"[..])));
            bytes[2] = 1;
            assert_eq!(datagram(&bytes), Err(SocksError::Reserved));
        }
    }

    #[test]
    fn replies() {
        let v4 = reply(0, "127.0.0.1:1080".parse().unwrap());
        assert_eq!(v4, [5, 0, 0, 1, 127, 0, 0, 1, 4, 56]);
        let v6 = reply(5, "[::1]:1".parse().unwrap());
        assert_eq!((v6.len(), v6[1], v6[3]), (22, 5, IPV6));
        for (refusal, expected) in [
            (Refusal::Denied, 2),
            (Refusal::Unreachable, 3),
            (Refusal::Name, 4),
            (Refusal::Refused, 5),
            (Refusal::TimedOut, 6),
            (Refusal::Busy, 1),
        ] {
            assert_eq!(code(&refusal), expected);
        }
    }
}
