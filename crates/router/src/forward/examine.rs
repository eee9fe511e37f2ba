//! Checks and lookups before a packet is forwarded.

use std::net::IpAddr;

use pathmark_cc::Instant;
use pathmark_shim::ip::Layout;

use super::accept::{accept, accept_tunnelled, room};
use super::addresses::{is_destination, is_neighbour, is_source};
use super::port::RouterPort;
use super::refuse::Refusal;
use super::route::{KernelHops, Route};
use super::router::{Router, Target};
use crate::ip::IcmpError;
use crate::offload::{Offload, Super};

impl Router {
    /// Receives a packet of `len` bytes on port `from`. It is at the start of `buffer`, which
    /// the router may keep, replacing it by another buffer of the same size.
    pub fn receive(
        &mut self,
        now: Instant,
        from: usize,
        buffer: &mut Box<[u8]>,
        len: usize,
        offload: Offload,
    ) {
        let settings = self.ports.get(from).map(|port| &port.settings);
        match settings.and_then(|settings| settings.tunnel) {
            None => accept(self, now, from, buffer, len, offload),
            Some(tunnel) => accept_tunnelled(self, now, from, tunnel, (buffer, len, offload)),
        }
    }

    /// Checks a packet, finds its output port, and decrements its TTL.
    #[inline]
    pub(super) fn examine(
        &mut self,
        from: usize,
        bytes: &mut [u8],
        offload: Offload,
    ) -> Result<Route, Refusal> {
        let layout = Layout::walk(bytes).map_err(|_| Refusal::Malformed)?;
        if !layout.header_checksum_ok(bytes) {
            return Err(Refusal::BadChecksum);
        }
        let (Some(source), Some(destination)) = (layout.source(bytes), layout.destination(bytes))
        else {
            return Err(Refusal::Malformed);
        };
        // A length of 0 in front of hop-by-hop options means that the options contain a larger
        // one (RFC 2675).
        if let [0x60..=0x6F, _, _, _, 0, 0, 0, ..] = bytes {
            return Err(Refusal::Jumbogram);
        }
        if self.is_own(source) {
            return Err(Refusal::SpoofedOwn);
        }
        let checks = |port: &RouterPort| port.settings.source_check;
        if self.ports.get(from).is_some_and(checks)
            && self.routes.lookup(source) != Some(&Target::Port(from))
        {
            return Err(Refusal::SourceCheck);
        }
        let port = match self.routes_of(from).lookup(destination) {
            Some(Target::Local) if is_neighbour(source) => return Err(Refusal::Local),
            _ if !is_source(source) || !is_destination(destination) => {
                return Err(Refusal::NotForwardable);
            }
            Some(Target::Port(port)) => *port,
            Some(Target::Local) => return Err(Refusal::NotForwardable),
            None => return Err(Refusal::Icmp(IcmpError::NoRoute)),
        };
        let whole = match offload.gso {
            Some(gso) => Some(Super::new(bytes, &layout, gso).map_err(|_| Refusal::BadOffload)?),
            None => None,
        };
        if layout.decrement_ttl(bytes).is_none() {
            return Err(Refusal::Icmp(IcmpError::TimeExceeded));
        }
        let settings = self.ports.get(port).map(|port| &port.settings);
        let mtu = settings.map_or(0, |settings| settings.mtu);
        let largest = whole.map_or(layout.len(), |whole| whole.largest());
        let room = match settings.and_then(|settings| settings.tunnel) {
            None => mtu,
            Some(tunnel) => room(tunnel, mtu, largest, bytes, &layout),
        };
        let fits = largest <= mtu as usize;
        if largest > room as usize && layout.dont_fragment(bytes) {
            return Err(Refusal::Icmp(IcmpError::TooBig(room)));
        }
        if port == from {
            let packets = whole.as_ref().map_or(1, Super::segments);
            self.counters.hairpin += u64::try_from(packets).unwrap_or(u64::MAX);
        }
        Ok(Route {
            port,
            layout,
            whole,
            fits,
            kernel: KernelHops {
                before: self.kernel_hops(from),
                behind: self.kernel_hops(port),
            },
        })
    }

    /// The hops that the kernel subtracts between port `port`'s interface and a network card.
    #[inline]
    fn kernel_hops(&self, port: usize) -> u8 {
        let forwards = |port: &RouterPort| port.settings.kernel_forwards;
        u8::from(self.ports.get(port).is_some_and(forwards))
    }

    /// Whether this is one of the router's own addresses.
    #[inline]
    fn is_own(&self, address: IpAddr) -> bool {
        match self.own.len() {
            0..=8 => self.own.contains(&address),
            _ => self.own.binary_search(&address).is_ok(),
        }
    }
}
