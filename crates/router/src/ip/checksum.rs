//! Completing a checksum that offload left undone.

use pathmark_shim::checksum::Sum;

use crate::offload::Partial;

/// Sums `bytes` from `partial.start` on and writes the checksum. False, and nothing changed, if its
/// place lies outside of the packet.
pub fn complete(bytes: &mut [u8], partial: Partial) -> bool {
    let start = usize::from(partial.start);
    let at = start + usize::from(partial.offset);
    if at + 2 > bytes.len() {
        return false;
    }
    let mut sum = Sum::new().bytes(bytes.get(start..).unwrap_or(&[])).finish();
    if sum == 0 && partial.offset == 6 {
        // UDP: 0 would say that there is none (RFC 768).
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
