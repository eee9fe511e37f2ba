//! The addresses of a client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A client's addresses as others see them, with the last one used first. It sends from each and
/// receives at each; a NAT changes their ports.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// The addresses, and whether the path from each carries anything.
    known: Vec<(SocketAddr, bool)>,
}

impl Addresses {
    pub(crate) fn new() -> Self {
        let mut new = Self { known: Vec::new() };
        new.add(true);
        new
    }

    pub(crate) fn add(&mut self, works: bool) -> IpAddr {
        let ip = IpAddr::from(Ipv4Addr::new(10, 0, 1 + self.known.len() as u8, 1));
        self.known.push((SocketAddr::new(ip, 1000), works));
        ip
    }

    /// Returns the address at `ip`, or the last one.
    fn at(&mut self, ip: Option<IpAddr>) -> &mut (SocketAddr, bool) {
        let mut known = self.known.iter();
        let found = known.position(|(known, _)| Some(known.ip()) == ip);
        let last = self.known.len() - 1;
        &mut self.known[found.unwrap_or(last)]
    }

    /// Returns the visible source of a datagram from `local`.
    pub(crate) fn source(&mut self, local: Option<IpAddr>) -> SocketAddr {
        self.at(local).0
    }

    /// Lets a NAT change the port of the address at `local`.
    pub(crate) fn rebind(&mut self, local: Option<IpAddr>, port: u16) {
        self.at(local).0.set_port(port);
    }

    /// Returns true if the client receives datagrams sent to this address.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        self.known.iter().any(|(known, _)| *known == address)
    }

    /// Returns false if the path from or to the client's `address` carries nothing.
    pub(crate) fn works(&self, address: SocketAddr) -> bool {
        let here = |known: &&(SocketAddr, bool)| known.0.ip() == address.ip();
        self.known.iter().find(here).is_none_or(|(_, works)| *works)
    }
}
