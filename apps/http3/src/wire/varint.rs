//! Variable-length integers (RFC 9000 section 16).

/// The largest integer that can be encoded.
pub(crate) const MAX: u64 = (1 << 62) - 1;

/// Decodes an integer at the beginning, and also returns the rest. Returns `None` while bytes
/// are missing.
pub(crate) fn take(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let (integer, rest) = bytes.split_at_checked(length)?;
    let value = integer
        .iter()
        .skip(1)
        .fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        });
    Some((value, rest))
}

/// Appends an integer in its shortest form. It must not exceed [`MAX`].
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX);
    let (length, mark) = match value {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let bytes = value.to_be_bytes();
    let begin = out.len();
    out.extend_from_slice(bytes.get(8 - length..).unwrap_or_default());
    if let Some(first) = out.get_mut(begin) {
        *first |= mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_in_their_shortest_form() {
        for (value, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX, 8),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out.len(), length);
            assert_eq!(take(&out), Some((value, &[][..])));
            assert_eq!(take(&out[..length - 1]), None);
        }
    }
}
