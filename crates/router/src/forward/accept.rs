//! Takes a packet from the port on which it arrives to the port by which it leaves.
//!
//! A port in front of a tunnel copies the inner shim in front of each departing packet. For
//! arriving packets, it merges the copy's result back into the inner shim.

use pathmark_cc::Instant;
use pathmark_shim::ip::{Layout, Version};

use super::pool::LARGE;
use super::route::Route;
use super::router::Router;
use super::tally::Refused;
use crate::encapsulation::{Encapsulation, MAX_INSERTED};
use crate::ip::complete;
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
pub(super) fn accept_tunnelled(
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
            match merged {
                true => port.tunnel.merged += 1,
                false => port.tunnel.refused += 1,
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
    let piece = match tunnel.comes_outside(bytes, &route.layout) {
        true => router.store.pool.take(LARGE),
        false => None,
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
