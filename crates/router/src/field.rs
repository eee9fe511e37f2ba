//! Writes 16-bit fields into headers that the router assembles.

/// Writes `value` in network byte order at `at`, if there is room.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
        *field = value.to_be_bytes();
    }
}

/// Writes the low 16 bits of `value`. This suits lengths that fit, and numbers counted modulo
/// 2¹⁶.
#[inline]
pub(crate) fn put_low(bytes: &mut [u8], at: usize, value: usize) {
    put(bytes, at, (value & 0xFFFF) as u16);
}
