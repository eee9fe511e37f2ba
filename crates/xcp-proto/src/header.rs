//! The XCP shim: kind 1, in a full form of 36 or 48 bytes and a compact one of 16.
//!
//! ```text
//!   full
//!    0 … 3    4       5         6 … 7    8 … 11  12 … 19  20 … 27  28 … 31/43    +0 … 1   +2 … 3
//!   ┌────────┬───────┬─────────┬────────┬───────┬────────┬────────┬─────────────┬────────┬───────┐
//!   │ prefix │ffff Sk│ xcp_ttl │ covers │ RTT   │ X      │ Δ      │ last router │ router │ check │
//!   └────────┴───────┴─────────┴────────┴───────┴────────┴────────┴─────────────┴────────┴───────┘
//!   compact
//!    0 … 3    4       5          6 … 7    8 … 9    10 … 11      12 … 13   14 … 15
//!   ┌────────┬───────┬──────────┬────────┬────────┬────────────┬─────────┬─────────┐
//!   │ prefix │ffff Sc│ xcp_ttl  │ H_cwnd │ H_rtt  │ H_feedback │ router  │ check   │
//!   └────────┴───────┴──────────┴────────┴────────┴────────────┴─────────┴─────────┘
//!   ffff     format, 4 bits: 1 standard, 2 minimal (routers must not change it), 3 standard, but
//!            after a cloud that the feedback does not account for (full form); 5 and 7 are 1 and 3
//!            if the named router runs another law and translates its answer into XCP's rates;
//!            others are not XCP to this version
//!   S        stamped: an XCP router has written its feedback
//!   k        full form, three bits: class of the total loss by corruption that XCP routers declare
//!            ([`corruption`]); the compact form has no room for it
//!   c        compact form, three bits: covers − 1
//!   xcp_ttl  the IP TTL that the packet is sent with, minus one per XCP router; XCP-i routers
//!            set it to the IP TTL
//!   covers   number of packets that the header covers; 0 counts as 1
//!   RTT      smoothed, in µs; 0 unknown
//!   X        inter-packet time in 2⁻⁴⁰ s, of all packets that the header covers; 0 unknown
//!   Δ        change of rate, first requested, later granted, in 2⁻¹⁶ bytes per second, signed
//!   last     address of the last XCP router; 0 before the first, which means the sender
//!   router   identity of the XCP router that bounds the flow; 0 for none
//!   H_cwnd   window in packets;  H_rtt  RTT in ms, rounded up
//!   H_feedback  window change, [`super::window`]
//! ```
//!
//! Fields are those of draft-falk-xcp-spec-03 (§3) with more bits, and of the XCP-i paper
//! (`xcp_ttl`, last router); the compact form is that of the XCP Linux paper (Zhang, Henderson,
//! section II-B).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pathmark_cc::XcpRequest;
use pathmark_shim::{FramingError, Kind, corruption, frame};

use crate::window::{self, Compact, MAX_COMPACT_COVERS};

/// Length of the full form with IPv4 addresses of routers.
pub const LEN_V4: usize = 36;
/// Length of the full form with IPv6 addresses of routers.
pub const LEN_V6: usize = 48;
/// Length of the compact form.
pub const LEN_COMPACT: usize = 16;

pub(crate) const STAMPED: u8 = 0x08;
const COVERS: u8 = 0x07;
/// The bits that distinguish formats.
pub(crate) const FORMAT: u8 = 0xB0;
/// The bit of the formats 5 and 7.
pub(crate) const TRANSLATED: u8 = 0x40;

/// The purpose of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// It has a request, which routers answer.
    Standard = 1,
    /// It has no request, and routers do not change it (draft-falk-xcp-spec-03, §3.2).
    Minimal = 2,
    /// Like [`Standard`](Self::Standard), but the packet crossed hops without XCP routers whose
    /// capacity no router knew.
    Uncounted = 3,
}

impl Format {
    const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1 | 5 => Some(Self::Standard),
            2 => Some(Self::Minimal),
            3 | 7 => Some(Self::Uncounted),
            _ => None,
        }
    }

    /// Returns true if routers must answer it.
    #[inline]
    pub const fn asks(self) -> bool {
        matches!(self, Self::Standard | Self::Uncounted)
    }
}

/// The forms of an XCP shim, by their room for routers' addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Full, with IPv4 addresses.
    #[default]
    V4,
    /// Full, with IPv6 addresses.
    V6,
    /// Compact: three 16-bit fields, and no addresses.
    Compact,
}

impl Form {
    /// Length of a shim of this form in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a shim is never empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::V4 => LEN_V4,
            Self::V6 => LEN_V6,
            Self::Compact => LEN_COMPACT,
        }
    }
}

/// A view of an XCP shim whose prefix, length, check and format are valid, so that its methods
/// never fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Full, with an IPv4 address.
    V4(&'a [u8; LEN_V4]),
    /// Full, with an IPv6 address.
    V6(&'a [u8; LEN_V6]),
    /// Compact.
    Compact(&'a [u8; LEN_COMPACT]),
}

impl<'a> Packet<'a> {
    /// Checks the shim at the start of `datagram`, ignoring the bytes after it.
    ///
    /// # Errors
    /// [`FramingError`]; an unknown format results in [`FramingError::Version`].
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, FramingError> {
        let words = datagram.get(1).map_or(0, |byte| byte & 0x0F);
        let packet = match usize::from(words) * 4 {
            LEN_V4 => Self::V4(frame::expect(Kind::XCP, datagram)?),
            LEN_V6 => Self::V6(frame::expect(Kind::XCP, datagram)?),
            _ => Self::Compact(frame::expect(Kind::XCP, datagram)?),
        };
        match Format::from_bits(packet.first()[4] >> 4) {
            Some(_) => Ok(packet),
            None => Err(FramingError::Version),
        }
    }

    #[inline]
    const fn first(&self) -> &[u8; LEN_COMPACT] {
        let first = match self {
            Self::V4(bytes) => bytes.first_chunk(),
            Self::V6(bytes) => bytes.first_chunk(),
            Self::Compact(bytes) => Some(*bytes),
        };
        match first {
            Some(first) => first,
            // No form is shorter.
            None => &[0; LEN_COMPACT],
        }
    }

    /// Its form.
    #[inline]
    pub const fn form(&self) -> Form {
        match self {
            Self::V4(_) => Form::V4,
            Self::V6(_) => Form::V6,
            Self::Compact(_) => Form::Compact,
        }
    }

    /// All bytes of the shim.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        match self {
            Self::V4(bytes) => bytes.as_slice(),
            Self::V6(bytes) => bytes.as_slice(),
            Self::Compact(bytes) => bytes.as_slice(),
        }
    }

    /// Its purpose.
    #[inline]
    pub const fn format(&self) -> Format {
        match self.first()[4] >> 4 {
            1 | 5 => Format::Standard,
            3 | 7 => Format::Uncounted,
            _ => Format::Minimal,
        }
    }

    /// Returns true once an XCP router has stamped it.
    #[inline]
    pub const fn stamped(&self) -> bool {
        self.first()[4] & STAMPED != 0
    }

    /// Returns true if the router that bounds the flow runs another law than XCP.
    #[inline]
    pub const fn translated(&self) -> bool {
        self.first()[4] & TRANSLATED != 0
    }

    /// Class of the loss by corruption that the routers so far declare in total, see
    /// [`corruption`]. 0 in the compact form, which has no room for it.
    #[inline]
    pub const fn corruption(&self) -> u8 {
        match self {
            Self::V4(_) | Self::V6(_) => self.first()[4] & corruption::MASK,
            Self::Compact(_) => 0,
        }
    }

    /// Returns true if the form has room for the routers' declarations.
    #[inline]
    pub const fn declares(&self) -> bool {
        !matches!(self, Self::Compact(_))
    }

    /// The IP TTL that the packet was sent with, minus one per XCP router.
    #[inline]
    pub const fn xcp_ttl(&self) -> u8 {
        self.first()[5]
    }

    /// The fields.
    #[inline]
    pub fn repr(&self) -> Repr {
        let body = match self {
            Self::V4(bytes) => Body::Full(full(bytes)),
            Self::V6(bytes) => Body::Full(full(bytes)),
            Self::Compact(bytes) => Body::Compact(compact(bytes)),
        };
        Repr {
            format: self.format(),
            stamped: self.stamped(),
            translated: self.translated(),
            xcp_ttl: self.xcp_ttl(),
            router: self.router(),
            body,
        }
    }

    /// Identity of the router that bounds the flow; 0 for none.
    #[inline]
    pub const fn router(&self) -> u16 {
        let last = match self {
            Self::V4(bytes) => bytes.last_chunk(),
            Self::V6(bytes) => bytes.last_chunk(),
            Self::Compact(bytes) => bytes.last_chunk(),
        };
        match last {
            Some(&[r0, r1, _, _]) => u16::from_be_bytes([r0, r1]),
            None => 0,
        }
    }
}

/// Address of the last XCP router, as wide as the form allows. All zeros before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRouter {
    /// In 36 bytes.
    V4(Ipv4Addr),
    /// In 48 bytes.
    V6(Ipv6Addr),
}

impl LastRouter {
    /// The address; `None` before the first router.
    #[inline]
    pub const fn address(self) -> Option<IpAddr> {
        match self {
            Self::V4(v4) if !v4.is_unspecified() => Some(IpAddr::V4(v4)),
            Self::V6(v6) if !v6.is_unspecified() => Some(IpAddr::V6(v6)),
            Self::V4(_) | Self::V6(_) => None,
        }
    }
}

/// The fields of an XCP shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Its purpose.
    pub format: Format,
    /// True if an XCP router has stamped it.
    pub stamped: bool,
    /// True if the router that bounds the flow runs another law. Never set in the minimal
    /// format.
    pub translated: bool,
    /// The IP TTL that the packet was sent with, minus one per XCP router.
    pub xcp_ttl: u8,
    /// Identity of the router that bounds the flow; 0 for none.
    pub router: u16,
    /// The fields in which the forms differ.
    pub body: Body,
}

/// The fields in which the forms differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Rate form.
    Full(Full),
    /// Window form.
    Compact(Compact),
}

/// Fields of the full form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Number of packets that the header covers; 0 counts as 1.
    pub covers: u16,
    /// Smoothed RTT in µs; 0: unknown.
    pub rtt_us: u32,
    /// Inter-packet time in 2⁻⁴⁰ s; 0: unknown.
    pub x: u64,
    /// Change of rate in 2⁻¹⁶ bytes per second.
    pub delta: i64,
    /// Class of the declared loss by corruption, 0 to 7, see [`corruption`].
    pub corruption: u8,
    /// Address of the last XCP router.
    pub last: LastRouter,
}

impl Repr {
    /// The fields that a sender writes into a packet sent with this TTL. Without a request, the
    /// header is minimal.
    #[inline]
    pub fn initial(form: Form, request: Option<&XcpRequest>, ttl: u8) -> Self {
        let format = request.map_or(Format::Minimal, |_| Format::Standard);
        let request = request.copied().unwrap_or_default();
        let full = |last| {
            Body::Full(Full {
                covers: request.covers,
                rtt_us: request.rtt_us,
                x: request.x,
                delta: request.delta,
                corruption: 0,
                last,
            })
        };
        Self {
            format,
            stamped: false,
            translated: false,
            xcp_ttl: ttl,
            router: 0,
            body: match form {
                Form::V4 => full(LastRouter::V4(Ipv4Addr::UNSPECIFIED)),
                Form::V6 => full(LastRouter::V6(Ipv6Addr::UNSPECIFIED)),
                Form::Compact => Body::Compact(window::compact(&request)),
            },
        }
    }

    /// Writes the shim, sealed, to the front of `out`, and returns its length. If there is not
    /// enough room, returns `None` without writing anything.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        match &self.body {
            Body::Full(full) => match full.last {
                LastRouter::V4(last) => {
                    *out.first_chunk_mut::<LEN_V4>()? = self.full(full, last.octets());
                    Some(LEN_V4)
                }
                LastRouter::V6(last) => {
                    *out.first_chunk_mut::<LEN_V6>()? = self.full(full, last.octets());
                    Some(LEN_V6)
                }
            },
            Body::Compact(compact) => {
                *out.first_chunk_mut::<LEN_COMPACT>()? = self.compact(compact);
                Some(LEN_COMPACT)
            }
        }
    }

    const fn flags(&self) -> u8 {
        let mut flags = (self.format as u8) << 4;
        if self.stamped {
            flags |= STAMPED;
        }
        if self.translated && self.format.asks() {
            flags |= TRANSLATED;
        }
        flags
    }

    #[inline]
    fn full<const N: usize, const A: usize>(&self, full: &Full, last: [u8; A]) -> [u8; N] {
        let mut shim = [0; N];
        let first = self.flags() | full.corruption & corruption::MASK;
        put(&mut shim, 4, [first, self.xcp_ttl]);
        put(&mut shim, 6, full.covers.to_be_bytes());
        put(&mut shim, 8, full.rtt_us.to_be_bytes());
        put(&mut shim, 12, full.x.to_be_bytes());
        put(&mut shim, 20, full.delta.to_be_bytes());
        put(&mut shim, 28, last);
        put(&mut shim, 28 + A, self.router.to_be_bytes());
        frame::seal(Kind::XCP, &mut shim);
        shim
    }

    #[inline]
    fn compact(&self, compact: &Compact) -> [u8; LEN_COMPACT] {
        let covers = compact.covers.clamp(1, MAX_COMPACT_COVERS) - 1;
        let covers = u8::try_from(covers).unwrap_or(0) & COVERS;
        let mut shim = [0; LEN_COMPACT];
        put(&mut shim, 4, [self.flags() | covers, self.xcp_ttl]);
        put(&mut shim, 6, compact.cwnd.to_be_bytes());
        put(&mut shim, 8, compact.rtt_ms.to_be_bytes());
        put(&mut shim, 10, compact.feedback.to_be_bytes());
        put(&mut shim, 12, self.router.to_be_bytes());
        frame::seal(Kind::XCP, &mut shim);
        shim
    }
}

/// Writes a field. Every offset in this module is within the shim.
#[inline]
pub(crate) fn put<const N: usize, const F: usize>(shim: &mut [u8; N], at: usize, field: [u8; F]) {
    if let Some(room) = shim.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *room = field;
    }
}

/// Reads a field. Every offset in this module is within the shim.
#[inline]
fn get<const F: usize>(shim: &[u8], at: usize) -> [u8; F] {
    shim.get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .unwrap_or([0; F])
}

#[inline]
fn full<const N: usize>(shim: &[u8; N]) -> Full {
    Full {
        covers: u16::from_be_bytes(get(shim, 6)),
        rtt_us: u32::from_be_bytes(get(shim, 8)),
        x: u64::from_be_bytes(get(shim, 12)),
        delta: i64::from_be_bytes(get(shim, 20)),
        corruption: shim.get(4).copied().unwrap_or(0) & corruption::MASK,
        last: if N == LEN_V6 {
            LastRouter::V6(Ipv6Addr::from(get::<16>(shim, 28)))
        } else {
            LastRouter::V4(Ipv4Addr::from(get::<4>(shim, 28)))
        },
    }
}

#[inline]
fn compact(shim: &[u8; LEN_COMPACT]) -> Compact {
    Compact {
        covers: u16::from(shim[4] & COVERS) + 1,
        cwnd: u16::from_be_bytes(get(shim, 6)),
        rtt_ms: u16::from_be_bytes(get(shim, 8)),
        feedback: u16::from_be_bytes(get(shim, 10)),
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
pub(crate) mod tests;
