//! UDP ASSOCIATE (RFC 1928 section 7).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_transport::Ecn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::super::udp::{Back, Flows, LONGEST, Shared, receive};
use super::super::{Ingress, count};
use super::wire;
use crate::marked;
use crate::outbound::Outbound;

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
            return self.farewell(local, &wire::reply(1, UNSPECIFIED)).await;
        };
        let Ok(own) = socket.local_addr() else {
            return;
        };
        if local.write_all(&wire::reply(0, own)).await.is_err() {
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
            let datagram = wire::datagram(buffer.get(..length).unwrap_or_default());
            let known = address.ip() == peer.ip() && port.is_none_or(|port| port == address.port());
            let (Ok((target, payload)), true) = (datagram, known) else {
                count(&self.counters.dropped);
                continue;
            };
            port = Some(address.port());
            let way = ("socks", address, &target);
            flows.offer(self, target.clone(), way, (payload, ecn), || {
                let header = wire::datagram_header(&target);
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
    marked::observe(&socket, own.is_ipv4())?;
    Ok((socket, local.peer_addr()?))
}
