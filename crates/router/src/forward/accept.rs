//! Takes a packet from the port on which it arrives to the port by which it leaves, after checks
//! and lookups.
//!
//! A port in front of a tunnel copies the inner shim in front of each departing packet. For
//! arriving packets, it merges the copy's result back into the inner shim. Packets that cannot
//! leave whole are cut: super-packets into segments, large IPv4 packets into fragments.

use std::net::IpAddr;

use pathmark_cc::Instant;
use pathmark_shim::ip::{Layout, Version};

use super::pool::{Frame, LARGE};
use super::port::{Refused, RouterPort};
use super::refuse::{Refusal, generated, is_destination, is_neighbour, is_source};
use super::router::{KernelHops, Route, Router, Target, enqueue};
use crate::encapsulation::{Encapsulation, MAX_INSERTED};
use crate::ip::{Fragments, IcmpError, complete};
use crate::offload::{Offload, Super};

/// Minimum link MTU for IPv6 (RFC 8200 §5). Senders ignore a lower reported MTU.
const MIN_MTU_V6: u32 = 1280;

/// Examines a packet of `len` bytes that arrived on port `from`, and dispatches or refuses it.
pub(super) fn accept(
    router: &mut Router,
    now: Instant,
    from: usize,
    buffer: &mut Box<[u8]>,
    len: usize,
    offload: Offload,
) {
    router.counters.received += 1;
    let is_port = from < router.ports.len();
    let Some(bytes) = buffer.get_mut(..len).filter(|_| is_port) else {
        router.counters.malformed += 1;
        router.discard(from, Refused::Malformed, 1);
        return;
    };
    let route = match router.examine(from, bytes, offload) {
        Ok(route) => route,
        Err(refusal) => {
            router.refuse(now, from, bytes, offload, refusal);
            return;
        }
    };
    if let Some(port) = router.ports.get_mut(from) {
        let packets = route.whole.as_ref().map_or(1, Super::segments) as u64;
        port.tally.received += packets;
        port.tally.forwarded += packets;
    }
    let settings = router.ports.get(route.port).map(|port| &port.settings);
    match settings.and_then(|settings| settings.tunnel) {
        Some(tunnel) if route.fits => {
            dispatch_tunnelled(router, now, from, tunnel, (buffer, offload), &route);
        }
        _ => router.dispatch(now, from, buffer, offload, &route),
    }
}

/// Returns the part of `mtu` that remains after inserting a copy into a packet of `len` bytes.
/// For a super-packet, `len` is the length of its largest segment, and the first segment's
/// headers decide for all segments.
pub(super) fn room(
    tunnel: Encapsulation,
    mtu: u32,
    len: usize,
    bytes: &[u8],
    layout: &Layout,
) -> u32 {
    if len + MAX_INSERTED <= mtu as usize {
        return mtu;
    }
    let insertion = tunnel.insertion(bytes, layout, 0);
    let inserted = insertion.map_or(0, |insertion| insertion.len());
    let room = mtu.saturating_sub(u32::try_from(inserted).unwrap_or(u32::MAX));
    match layout.version() {
        Version::V4 => room,
        Version::V6 => room.max(mtu.min(MIN_MTU_V6)),
    }
}

/// Accepts a packet that arrived on a port in front of a tunnel.
#[cold]
fn accept_tunnelled(
    router: &mut Router,
    now: Instant,
    from: usize,
    tunnel: Encapsulation,
    (buffer, len, offload): (&mut Box<[u8]>, usize, Offload),
) {
    let bytes = buffer.get(..len).unwrap_or(&[]);
    let outside = Layout::walk(bytes)
        .ok()
        .filter(|layout| layout.header_checksum_ok(bytes) && tunnel.comes_outside(bytes, layout));
    let whole = outside.and_then(|layout| Super::new(bytes, &layout, offload.gso?).ok());
    if let Some(whole) = whole {
        let Some(mut piece) = router.store.pool.take(LARGE) else {
            router.counters.no_buffer += whole.segments() as u64;
            return;
        };
        for index in 0..whole.segments() {
            let bytes = buffer.get(..len).unwrap_or(&[]);
            if let Some((len, offload)) = whole.segment(bytes, index, &mut piece) {
                accept_one(router, now, from, tunnel, (&mut piece, len, offload));
            }
        }
        router.store.pool.give_buffer(piece);
    } else if outside.is_some() && offload.gso.is_none() {
        accept_one(router, now, from, tunnel, (buffer, len, offload));
    } else {
        accept(router, now, from, buffer, len, offload);
    }
}

/// Accepts one packet after removing the shim in front of it.
fn accept_one(
    router: &mut Router,
    now: Instant,
    from: usize,
    tunnel: Encapsulation,
    (buffer, mut len, mut offload): (&mut Box<[u8]>, usize, Offload),
) {
    let bytes = buffer.get_mut(..len).unwrap_or(&mut []);
    if let Some(partial) = offload.checksum.take() {
        complete(bytes, partial);
    }
    let removed = Layout::walk(bytes)
        .ok()
        .and_then(|layout| tunnel.remove(bytes, &layout));
    if let Some(removed) = removed {
        len = removed.len;
        if let (Some(port), Some(merged)) = (router.ports.get_mut(from), removed.merged) {
            if merged {
                port.tunnel.merged += 1;
            } else {
                port.tunnel.refused += 1;
            }
        }
    }
    accept(router, now, from, buffer, len, offload);
}

/// Dispatches packets that fit to a port in front of a tunnel.
#[cold]
fn dispatch_tunnelled(
    router: &mut Router,
    now: Instant,
    from: usize,
    tunnel: Encapsulation,
    (buffer, offload): (&mut Box<[u8]>, Offload),
    route: &Route,
) {
    let Some(whole) = route.whole else {
        return dispatch_one(router, now, from, tunnel, (buffer, offload), route);
    };
    let bytes = buffer.get(..route.layout.len()).unwrap_or(&[]);
    let piece = if tunnel.comes_outside(bytes, &route.layout) {
        router.store.pool.take(LARGE)
    } else {
        None
    };
    let Some(mut piece) = piece else {
        return router.dispatch(now, from, buffer, offload, route);
    };
    for index in 0..whole.segments() {
        let bytes = buffer.get(..route.layout.len()).unwrap_or(&[]);
        let Some((len, offload)) = whole.segment(bytes, index, &mut piece) else {
            continue;
        };
        if let Ok(layout) = Layout::walk(piece.get(..len).unwrap_or(&[])) {
            let route = alone(route, layout);
            dispatch_one(router, now, from, tunnel, (&mut piece, offload), &route);
        }
    }
    router.store.pool.give_buffer(piece);
}

/// Dispatches one packet, putting a copy of its shim in front if there is room.
fn dispatch_one(
    router: &mut Router,
    now: Instant,
    from: usize,
    tunnel: Encapsulation,
    (buffer, mut offload): (&mut Box<[u8]>, Offload),
    route: &Route,
) {
    let bytes = buffer.get_mut(..route.layout.len()).unwrap_or(&mut []);
    let insertion = tunnel.insertion(bytes, &route.layout, router.classifier.seed);
    let (Some(insertion), Some(port)) = (insertion, router.ports.get_mut(route.port)) else {
        return router.dispatch(now, from, buffer, offload, route);
    };
    let mut inserted = None;
    if route.layout.len() + insertion.len() <= port.settings.mtu as usize {
        if let Some(partial) = offload.checksum.take() {
            complete(bytes, partial);
        }
        inserted = insertion.insert(buffer, &route.layout);
    }
    let shims = u64::from(insertion.copied());
    match inserted {
        Some(layout) => {
            port.tunnel.copied += shims;
            router.dispatch(now, from, buffer, offload, &alone(route, layout));
        }
        None => {
            port.tunnel.refused += shims;
            router.dispatch(now, from, buffer, offload, route);
        }
    }
}

/// The route of a single packet that fits the MTU and takes the same way as `of`.
fn alone(of: &Route, layout: Layout) -> Route {
    Route {
        port: of.port,
        kernel: of.kernel,
        layout,
        whole: None,
        fits: true,
    }
}

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
    fn examine(
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
    fn kernel_hops(&self, port: usize) -> u8 {
        let forwards = |port: &RouterPort| port.settings.kernel_forwards;
        u8::from(self.ports.get(port).is_some_and(forwards))
    }

    /// Whether this is one of the router's own addresses.
    fn is_own(&self, address: IpAddr) -> bool {
        match self.own.len() {
            0..=8 => self.own.contains(&address),
            _ => self.own.binary_search(&address).is_ok(),
        }
    }
}

impl Router {
    /// Cuts a super-packet, and sends each segment separately.
    pub(super) fn cut(
        &mut self,
        now: Instant,
        bytes: &[u8],
        whole: &Super,
        route: &Route,
        believed: bool,
    ) {
        for index in 0..whole.segments() {
            let Some(mut buffer) = self.store.pool.take(whole.segment_len(index)) else {
                self.no_buffer(route.port);
                continue;
            };
            let Some((len, offload)) = whole.segment(bytes, index, &mut buffer) else {
                self.store.pool.give_buffer(buffer);
                continue;
            };
            let mut frame = Frame::new(buffer, len, offload);
            frame.hops = route.kernel.hops();
            if !route.fits {
                self.fragment(
                    now,
                    frame.bytes(),
                    offload,
                    route.port,
                    route.kernel,
                    believed,
                );
                self.store.pool.give(frame);
                continue;
            }
            let Ok(layout) = Layout::walk(frame.bytes()) else {
                self.store.pool.give(frame);
                continue;
            };
            let known = self
                .classifier
                .classify(frame.bytes(), &layout, route.kernel.before);
            let Some(port) = self.ports.get_mut(route.port) else {
                self.store.pool.give(frame);
                return;
            };
            let (arrival, carrier) = port.heed(believed, known, 1);
            self.enqueue(now, route.port, Some(frame), arrival, carrier, 1);
        }
    }

    /// Counts a packet for port `port` that was dropped for want of a buffer.
    fn no_buffer(&mut self, port: usize) {
        self.counters.no_buffer += 1;
        if let Some(port) = self.ports.get_mut(port) {
            port.no_buffer(1);
        }
    }

    pub(super) fn fragment(
        &mut self,
        now: Instant,
        bytes: &[u8],
        offload: Offload,
        port: usize,
        kernel: KernelHops,
        believed: bool,
    ) {
        let mtu = self.ports.get(port).map_or(0, |p| p.settings.mtu as usize);
        let Some(mut whole) = self.store.pool.copy(bytes, Offload::default()) else {
            self.no_buffer(port);
            return;
        };
        if let Some(partial) = offload.checksum {
            complete(whole.bytes_mut(), partial);
        }
        match Fragments::new(whole.bytes(), mtu) {
            Ok(mut fragments) => {
                self.counters.fragmented += 1;
                let mut pieces = 0;
                while let Some(len) = fragments.next_into(&mut self.scratch) {
                    let part = self.scratch.get(..len).unwrap_or(&[]);
                    pieces += 1;
                    let Ok(layout) = Layout::walk(part) else {
                        continue;
                    };
                    let known = self.classifier.classify(part, &layout, kernel.before);
                    let Some(heeding) = self.ports.get_mut(port) else {
                        break;
                    };
                    let (arrival, carrier) = heeding.heed(believed, known, 1);
                    let mut frame = self.store.pool.copy(part, Offload::default());
                    kernel.note(&mut frame);
                    self.wake(port);
                    enqueue(
                        &mut self.ports,
                        &mut self.store,
                        &mut self.counters,
                        now,
                        port,
                        frame,
                        (arrival, carrier, 1),
                    );
                }
                // The first fragment counts as the packet itself.
                generated(&mut self.ports, port, usize::saturating_sub(pieces, 1));
            }
            Err(_) => {
                self.counters.too_big += 1;
                if let Some(port) = self.ports.get_mut(port) {
                    port.tally.offered += 1;
                    port.tally.too_big += 1;
                }
            }
        }
        self.store.pool.give(whole);
    }
}
