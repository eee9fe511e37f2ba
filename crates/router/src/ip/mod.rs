//! IP: routes, ICMP, fragmentation, reassembly and checksums.
//!
//! These parts still do no I/O. They turn packets into verdicts and replies.

mod fragment;
mod icmp;
#[cfg(test)]
mod icmp_tests;
mod route;

use pathmark_shim::checksum::Sum;

use crate::offload::Partial;
pub use fragment::{BadFragment, Fragments, Reassembly, cut_v6};
pub use icmp::{IcmpError, TokenBucket, checksum_holds, echo_reply, error as icmp_error};
pub use route::{Prefix, PrefixError, RouteTable, Routes};

/// Sums `bytes` from `partial.start` and writes the checksum. If its place is outside the
/// packet, returns false without changing anything.
pub fn complete(bytes: &mut [u8], partial: Partial) -> bool {
    let start = usize::from(partial.start);
    let at = start + usize::from(partial.offset);
    if at + 2 > bytes.len() {
        return false;
    }
    let mut sum = Sum::new().bytes(bytes.get(start..).unwrap_or(&[])).finish();
    if sum == 0 && partial.offset == 6 {
        // UDP: 0 would mean that there is no checksum (RFC 768).
        sum = 0xFFFF;
    }
    match bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
        Some(field) => {
            *field = sum.to_be_bytes();
            true
        }
        None => false,
    }
}
