//! A shim in front of a tunnel's packet (XCP Linux paper, section VI-D), for routers that cannot
//! read the packet inside.
//!
//! At the tunnel's entry the shim inside is copied outward. Routers answer the copy. At the exit
//! its result is merged into the shim inside: the lower grant, the higher code. No router outside
//! raises what the shim inside allows.
//!
//! `shift` is the IP TTL outside less the IP TTL inside, modulo 256: some shims repeat the TTL.

use pathmark_cc::Carried;
use pathmark_shim::frame::MAX_LEN;
use pathmark_shim::{Framed, Kind};

use crate::registry;
use crate::shim::{NoHeader, read};

/// A shim by itself.
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

/// The shim at the start of a UDP payload, if it is sound and one that routers answer.
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

/// The copy of the shim inside for the packet outside.
pub fn copy_outward(inner: &Shim, shift: u8) -> Shim {
    let mut copy = *inner;
    // A sound shim that routers answer can be rewritten.
    let _ = match copy.kind {
        Kind::XCP => xcp_proto::tunnel::shift_ttl(copy.as_mut(), shift),
        Kind::QUICK_START => qs_proto::tunnel::shift_ttl(copy.as_mut(), shift),
        _ => true,
    };
    copy
}

/// The shim inside with the result of its copy, as that arrived at the exit. `None` if the copy is
/// not of its kind and length, or says what no router may say.
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
