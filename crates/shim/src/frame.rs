//! The frame that every kind of shim shares.
//!
//! ```text
//!    0      1      2      3      4 …             len-2  len-1
//!   ┌──────┬──────┬─────────────┬──────────────┬─────────────┐
//!   │kind  │v│len │ magic       │ fields       │ check       │   all big-endian
//!   └──────┴──────┴─────────────┴──────────────┴─────────────┘
//!   kind   0b0000_1kkk
//!   v      version, 4 bits: 1
//!   len    length of the whole shim in words of 4 bytes, 4 bits: 2…15, so 8…60 bytes
//!   magic  0x7A3D
//!   check  16-bit cyclic redundancy check ([`crate::crc16`]) over everything before it
//! ```
//!
//! Every kind and every version has this prefix, so unknown shims can be recognized and skipped.
//!
//! **False positives.** A router that examines every UDP datagram takes random bytes of other
//! protocols for a shim with probability 2⁻⁵ (first byte) · 2⁻⁴ (version) · 2⁻⁴ (the kind's length)
//! · 2⁻¹⁶ (magic) · 2⁻¹⁶ (check) = 2⁻⁴⁵. The check detects accidental damage but does not
//! authenticate: any host that can write a datagram can write a valid check.

use core::{error, fmt};

use crate::crc::{self, crc16};

/// Bytes of the prefix: kind, version and length, magic.
pub const PREFIX_LEN: usize = 4;
/// Bytes of the check at the end.
pub const CHECK_LEN: usize = 2;
/// Shortest shim, in bytes.
pub const MIN_LEN: usize = 8;
/// Longest shim, in bytes.
pub const MAX_LEN: usize = 60;
/// The version that this crate writes.
pub const VERSION: u8 = 1;
/// Bytes 2 and 3 of every shim.
pub const MAGIC: u16 = 0x7A3D;

/// The kind of a shim: 0…7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(u8);

impl Kind {
    /// VCP: load code.
    pub const VCP: Self = Self(0);
    /// XCP: explicit rate feedback.
    pub const XCP: Self = Self(1);
    /// Quick-Start: rate request.
    pub const QUICK_START: Self = Self(2);

    /// The first kind that no protocol here uses.
    pub const FIRST_FREE: Self = Self(3);

    /// Returns the kind with this number, or `None` if there is no such kind.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 8 { Some(Self(number)) } else { None }
    }

    /// Returns the kind of a datagram with this first byte, if it can be a shim.
    #[inline]
    pub const fn from_first_byte(first: u8) -> Option<Self> {
        if first & 0xF8 == 0x08 {
            Some(Self(first & 7))
        } else {
            None
        }
    }

    /// The kind's number, 0…7, also used in the `explicit_feedback` transport parameter.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The reason why bytes are not a shim of the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramingError {
    /// The first byte or the magic is not that of a shim.
    NotShim,
    /// The length field is below 2 words, or differs from the length of the expected kind.
    Length,
    /// There are fewer bytes than the prefix or than the length field requires.
    Truncated,
    /// The check does not match, so the shim is damaged and must not be trusted.
    Check,
    /// The shim is valid, but of another kind than expected.
    Kind,
    /// The shim is valid, but of a version that this crate does not read.
    Version,
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotShim => "not a shim",
            Self::Length => "shim of impossible length",
            Self::Truncated => "shim cut short",
            Self::Check => "shim with a wrong check",
            Self::Kind => "shim of another kind",
            Self::Version => "shim of another version",
        })
    }
}

impl error::Error for FramingError {}

/// The prefix of a shim of `N` bytes. Does not compile unless `N` is a multiple of 4 from 8 to 60.
#[inline]
pub const fn prefix<const N: usize>(kind: Kind) -> [u8; PREFIX_LEN] {
    const {
        assert!(N.is_multiple_of(4) && N >= MIN_LEN && N <= MAX_LEN);
    };
    #[expect(clippy::cast_possible_truncation, reason = "N is at most 60")]
    let words = (N / 4) as u8;
    let [m0, m1] = MAGIC.to_be_bytes();
    [0x08 | kind.number(), VERSION << 4 | words, m0, m1]
}

/// Returns the length of the shim at the start of `datagram` according to its prefix, so that you
/// can skip a shim that is unknown or whose check failed.
///
/// # Errors
/// [`FramingError::NotShim`], [`FramingError::Length`] or [`FramingError::Truncated`].
#[inline]
pub fn declared_len(datagram: &[u8]) -> Result<usize, FramingError> {
    let Some(&[first, version_words, m0, m1]) = datagram.first_chunk::<PREFIX_LEN>() else {
        return Err(match datagram.first() {
            Some(&first) if Kind::from_first_byte(first).is_some() => FramingError::Truncated,
            _ => FramingError::NotShim,
        });
    };
    if Kind::from_first_byte(first).is_none() || u16::from_be_bytes([m0, m1]) != MAGIC {
        return Err(FramingError::NotShim);
    }
    let len = usize::from(version_words & 0x0F) * 4;
    if len < MIN_LEN {
        Err(FramingError::Length)
    } else if len > datagram.len() {
        Err(FramingError::Truncated)
    } else {
        Ok(len)
    }
}

/// A checked view of a valid shim of any kind and version. Its methods never fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    bytes: &'a [u8],
    kind: Kind,
    version: u8,
}

impl<'a> Framed<'a> {
    /// Checks the shim at the start of `datagram`, ignoring the bytes after it.
    ///
    /// # Errors
    /// [`FramingError`], but neither `Kind` nor `Version`.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, FramingError> {
        let len = declared_len(datagram)?;
        let bytes = datagram.get(..len).ok_or(FramingError::Truncated)?;
        let (Some(&[first, version_words]), Some((covered, check))) = (
            bytes.first_chunk::<2>(),
            bytes.split_last_chunk::<CHECK_LEN>(),
        ) else {
            return Err(FramingError::Truncated);
        };
        if crc16(covered) != u16::from_be_bytes(*check) {
            return Err(FramingError::Check);
        }
        Ok(Self {
            bytes,
            kind: Kind::from_first_byte(first).ok_or(FramingError::NotShim)?,
            version: version_words >> 4,
        })
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its version.
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// Length in bytes, including prefix and check: 8…60.
    #[expect(clippy::len_without_is_empty, reason = "a shim is never empty")]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// All bytes of the shim, including prefix and check.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The fields between prefix and check.
    pub fn fields(&self) -> &'a [u8] {
        self.bytes
            .get(PREFIX_LEN..self.bytes.len().saturating_sub(CHECK_LEN))
            .unwrap_or(&[])
    }
}

/// Checks that `datagram` starts with a valid shim of `kind` with this crate's version and `N`
/// bytes.
///
/// # Errors
/// [`FramingError`].
#[inline]
pub fn expect<const N: usize>(kind: Kind, datagram: &[u8]) -> Result<&[u8; N], FramingError> {
    let Some(bytes) = datagram.first_chunk::<N>() else {
        return Err(explain::<N>(kind, datagram));
    };
    if bytes.first_chunk() != Some(&prefix::<N>(kind)) {
        return Err(explain::<N>(kind, datagram));
    }
    if bytes.last_chunk() != Some(&check(kind, bytes)) {
        return Err(FramingError::Check);
    }
    Ok(bytes)
}

/// Computes the check for these fields after this kind's prefix.
#[inline]
fn check<const N: usize>(kind: Kind, shim: &[u8; N]) -> [u8; CHECK_LEN] {
    let fields = shim.get(PREFIX_LEN..N - CHECK_LEN).unwrap_or(&[]);
    let fields = match fields.as_array() {
        Some(&ten) => u16::from_le_bytes(crc::ten(ten)),
        None => crc::after(0, fields).swap_bytes(),
    };
    let prefix = !prefix_remainder::<N>(kind);
    (fields ^ prefix.swap_bytes()).to_le_bytes()
}

/// The contribution of a prefix to the check: one constant per kind for each length in use.
#[inline]
fn prefix_remainder<const N: usize>(kind: Kind) -> u16 {
    const fn of<const N: usize>(number: u8) -> u16 {
        crc::prefix_remainder(prefix::<N>(Kind(number)), N - PREFIX_LEN - CHECK_LEN)
    }
    const {
        [
            of::<N>(0),
            of::<N>(1),
            of::<N>(2),
            of::<N>(3),
            of::<N>(4),
            of::<N>(5),
            of::<N>(6),
            of::<N>(7),
        ]
    }
    .get(usize::from(kind.0))
    .copied()
    .unwrap_or(0)
}

/// Returns the error for a shim whose prefix is not that of `kind` and `N`.
#[cold]
fn explain<const N: usize>(kind: Kind, datagram: &[u8]) -> FramingError {
    match Framed::parse(datagram) {
        Err(error) => error,
        Ok(framed) if framed.version() != VERSION => FramingError::Version,
        Ok(framed) if framed.kind() != kind => FramingError::Kind,
        Ok(_) => FramingError::Length,
    }
}

/// Writes prefix and check around fields that are already in place.
#[inline]
pub fn seal<const N: usize>(kind: Kind, shim: &mut [u8; N]) {
    let sum = check(kind, shim);
    if let Some(start) = shim.first_chunk_mut() {
        *start = prefix::<N>(kind);
    }
    if let Some(end) = shim.last_chunk_mut() {
        *end = sum;
    }
}

/// Updates the check after fields were rewritten.
#[inline]
pub fn renew_check<const N: usize>(shim: &mut [u8; N]) {
    if let Some((covered, check)) = shim.split_last_chunk_mut::<CHECK_LEN>() {
        *check = crc16(covered).to_be_bytes();
    }
}

/// Returns the three words of a 16-byte shim after its prefix in memory order, with the first byte
/// least significant.
#[inline]
pub const fn words(shim: &[u8; 16]) -> [u32; 3] {
    let [_, _, _, _, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = *shim;
    [
        u32::from_le_bytes([a0, a1, a2, a3]),
        u32::from_le_bytes([b0, b1, b2, b3]),
        u32::from_le_bytes([c0, c1, c2, c3]),
    ]
}

/// Returns the 16-byte shim after XORing `change`, in the order of [`words`], into its fields. Bits
/// at the position of the check are ignored.
///
/// The check is updated using only the change, so that damage to the fields in the meantime remains
/// detectable. In addition, the shim stays in registers, because a shim assembled from single bytes
/// in memory would have to wait until all bytes are read back.
#[inline]
pub fn change_fields(shim: &[u8; 16], [first, second, third]: [u32; 3]) -> [u8; 16] {
    let [b0, b1, b2, b3] = first.to_le_bytes();
    let [b4, b5, b6, b7] = second.to_le_bytes();
    let [b8, b9, _, _] = third.to_le_bytes();
    let [k0, k1] = crc::ten([b0, b1, b2, b3, b4, b5, b6, b7, b8, b9]);
    let [p0, p1, p2, p3, ..] = *shim;
    let [old1, old2, old3] = words(shim);
    let [a0, a1, a2, a3] = (old1 ^ first).to_le_bytes();
    let [b0, b1, b2, b3] = (old2 ^ second).to_le_bytes();
    let third = third & 0xFFFF | u32::from_le_bytes([0, 0, k0, k1]);
    let [c0, c1, c2, c3] = (old3 ^ third).to_le_bytes();
    [
        p0, p1, p2, p3, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3,
    ]
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
