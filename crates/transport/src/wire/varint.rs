//! Variable-length integers (RFC 9000 §16): 62 bits in 1, 2, 4 or 8 bytes, big-endian, with the
//! length encoded in the two high bits of the first byte.

/// The largest value of a varint, 2^62 − 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The largest value of the 1-byte form.
pub const MAX_1: u64 = (1 << 6) - 1;
/// The largest value of the 2-byte form.
pub const MAX_2: u64 = (1 << 14) - 1;
/// The largest value of the 4-byte form.
pub const MAX_4: u64 = (1 << 30) - 1;

/// A value that needs more than 62 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is larger than a QUIC varint can be")]
pub struct TooLarge(pub u64);

/// An integer below 2^62, such as an application error code (RFC 9000 §20.2). You can convert any
/// `u8`, `u16` and `u32`, and each `u64` and `usize` that fits:
///
/// ```
/// use pathmark_transport::VarInt;
///
/// let code = VarInt::try_from(0x52e4_a40f_a8db_u64)?;
/// assert_eq!(u64::from(code), 0x52e4_a40f_a8db);
/// assert!(VarInt::try_from(1_u64 << 62).is_err());
/// # Ok::<(), pathmark_transport::wire::varint::TooLarge>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarInt(u64);

impl VarInt {
    /// The largest one, 2^62 − 1.
    pub const MAX: Self = Self(MAX);

    /// Converts any `u32`.
    pub const fn from_u32(value: u32) -> Self {
        Self(value as u64)
    }

    /// Converts a `u64` that fits.
    ///
    /// # Errors
    /// [`TooLarge`] if it needs more than 62 bits.
    pub fn from_u64(value: u64) -> Result<Self, TooLarge> {
        Self::try_from(value)
    }

    /// Returns the value.
    pub const fn into_inner(self) -> u64 {
        self.0
    }
}

impl From<u8> for VarInt {
    fn from(value: u8) -> Self {
        Self::from_u32(value.into())
    }
}

impl From<u16> for VarInt {
    fn from(value: u16) -> Self {
        Self::from_u32(value.into())
    }
}

impl From<u32> for VarInt {
    fn from(value: u32) -> Self {
        Self::from_u32(value)
    }
}

impl TryFrom<usize> for VarInt {
    type Error = TooLarge;

    fn try_from(value: usize) -> Result<Self, TooLarge> {
        Self::from_u64(value as u64)
    }
}

impl TryFrom<u64> for VarInt {
    type Error = TooLarge;

    fn try_from(value: u64) -> Result<Self, TooLarge> {
        if value <= MAX {
            Ok(Self(value))
        } else {
            Err(TooLarge(value))
        }
    }
}

impl From<VarInt> for u64 {
    fn from(value: VarInt) -> Self {
        value.0
    }
}

impl core::fmt::Display for VarInt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the length of the shortest encoding of `value`. This is 8 even for values above
/// [`MAX`], which can't be encoded.
pub const fn len(value: u64) -> usize {
    if value <= MAX_1 {
        1
    } else if value <= MAX_2 {
        2
    } else if value <= MAX_4 {
        4
    } else {
        8
    }
}

/// Returns the shortest encoding: a buffer of 8 bytes, and the number of bytes used.
///
/// # Errors
/// [`TooLarge`] above [`MAX`].
pub const fn encode(value: u64) -> Result<([u8; 8], usize), TooLarge> {
    let n = len(value);
    // Shift the number's bytes to the front, below the two length bits.
    let tagged = match n {
        1 => value << 56,
        2 => (value | 0x4000) << 48,
        4 => (value | 0x8000_0000) << 32,
        _ if value <= MAX => value | 0xc000_0000_0000_0000,
        _ => return Err(TooLarge(value)),
    };
    Ok((tagged.to_be_bytes(), n))
}

/// Returns the value at the front of `bytes` and its length, or `None` if it is incomplete.
#[inline]
pub const fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let Some(&first) = bytes.first() else {
        return None;
    };
    match first >> 6 {
        0 => Some((first as u64, 1)),
        1 => match bytes.first_chunk::<2>() {
            Some(b) => Some((u16::from_be_bytes(*b) as u64 & MAX_2, 2)),
            None => None,
        },
        2 => match bytes.first_chunk::<4>() {
            Some(b) => Some((u32::from_be_bytes(*b) as u64 & MAX_4, 4)),
            None => None,
        },
        _ => match bytes.first_chunk::<8>() {
            Some(b) => Some((u64::from_be_bytes(*b) & MAX, 8)),
            None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_rfc_9000_appendix_a_1() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        for (bytes, value) in [
            (&long[..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(decode(bytes), Some((value, bytes.len())));
            let (buffer, n) = encode(value).unwrap();
            assert_eq!(&buffer[..n], bytes);
        }
        // Not in its shortest form, but still valid.
        assert_eq!(decode(&[0x40, 0x25]), Some((37, 2)));
    }

    #[test]
    fn lengths_change_where_table_4_says() {
        for (value, n) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            (1_073_741_823, 4),
            (1_073_741_824, 8),
            (4_611_686_018_427_387_903, 8),
        ] {
            assert_eq!(len(value), n);
            assert_eq!(encode(value).unwrap().1, n);
        }
        assert_eq!(encode(MAX + 1), Err(TooLarge(MAX + 1)));
    }

    #[test]
    fn a_cut_varint_is_none() {
        let bytes = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8];
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(shift in 0u32..62, value in 0u64..=MAX) {
            let value = value >> shift;
            let (buffer, n) = encode(value).unwrap();
            prop_assert_eq!(n, len(value));
            prop_assert_eq!(decode(&buffer[..n]), Some((value, n)));
        }
    }
}
