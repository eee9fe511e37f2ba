//! Writing the 16-bit fields of headers that are put together here.

/// Writes `value` at `at`, most significant byte first, if there is room.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
        *field = value.to_be_bytes();
    }
}

/// Writes the low 16 bits of `value`: of a length that fits, or of a number that counts modulo 2¹⁶.
#[inline]
pub(crate) fn put_low(bytes: &mut [u8], at: usize, value: usize) {
    put(bytes, at, (value & 0xFFFF) as u16);
}
