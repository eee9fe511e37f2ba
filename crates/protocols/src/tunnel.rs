//! A shim in front of a tunnel's packet (XCP Linux paper, section VI-D), for routers that can't
//! read the packet inside.
//!
//! The tunnel's entry copies the inner shim to the outside, where routers answer the copy. The exit
//! merges the result into the inner shim, taking the lower grant or the higher code. Therefore no
//! router outside can raise the inner shim's grant or lower its code.
//!
//! `shift` is the outer IP TTL minus the inner IP TTL, modulo 256, because some shims repeat the
//! TTL.

use pathmark_cc::Carried;
use pathmark_shim::frame::MAX_LEN;
use pathmark_shim::{Framed, Kind};

use crate::registry;
use crate::shim::{NoHeader, read};

/// A shim without its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shim {
    kind: Kind,
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl AsRef<[u8]> for Shim {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl AsMut<[u8]> for Shim {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or(&mut [])
    }
}

/// Returns the shim at the start of a UDP payload if it is valid and of a kind that routers answer.
pub fn lift(payload: &[u8]) -> Option<Shim> {
    if read(payload, 0, &NoHeader) == Carried::Foreign {
        return None;
    }
    let framed = Framed::parse(payload).ok()?;
    let mut bytes = [0; MAX_LEN];
    bytes
        .get_mut(..framed.len())?
        .copy_from_slice(framed.bytes());
    Some(Shim {
        kind: framed.kind(),
        bytes,
        len: framed.len(),
    })
}

/// Returns a copy of the inner shim for the outer packet.
pub fn copy_outward(inner: &Shim, shift: u8) -> Shim {
    let mut copy = *inner;
    // A valid shim that routers answer can be rewritten.
    let _ = match copy.kind {
        Kind::XCP => xcp_proto::tunnel::shift_ttl(copy.as_mut(), shift),
        Kind::QUICK_START => qs_proto::tunnel::shift_ttl(copy.as_mut(), shift),
        _ => true,
    };
    copy
}

/// Returns the inner shim after merging `outer`, its copy as it arrived at the exit. Returns `None`
/// if the copy differs in kind or length, or contains an answer that routers may not give.
pub fn merge_back(inner: &Shim, outer: &Shim, shift: u8) -> Option<Shim> {
    if (inner.kind, inner.len) != (outer.kind, outer.len) {
        return None;
    }
    let (mut left, outer) = (*inner, outer.as_ref());
    let merged = match inner.kind {
        Kind::VCP => vcp_proto::tunnel::merge(left.as_mut(), outer),
        Kind::XCP => xcp_proto::tunnel::merge(left.as_mut(), outer, shift),
        Kind::QUICK_START => qs_proto::tunnel::merge(left.as_mut(), outer, shift),
        kind => registry::find(kind.number()).is_some_and(|own| own.merge(left.as_mut(), outer)),
    };
    merged.then_some(left)
}
