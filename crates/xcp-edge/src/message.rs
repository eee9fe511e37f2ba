//! Messages between edge routers. `docs/wire.md` describes them byte by byte.
//!
//! ```text
//!    0     1          2 … 3     4 … 11   12 … 15   16 …        last 16
//!   ┌─────┬──────────┬─────────┬────────┬─────────┬───────────┬───────────────┐
//!   │  4  │ 1 · type │ 7a 3d   │ run    │ number  │ of a type │ authenticator │
//!   └─────┴──────────┴─────────┴────────┴─────────┴───────────┴───────────────┘
//! ```

use crate::auth::{Key, Route, TAG};

/// First byte, which is unassigned in the table of RFC 9443, section 2, and distinct from both
/// shims and QUIC.
const FIRST: u8 = 4;
const VERSION: u8 = 1;
const MAGIC: [u8; 2] = [0x7A, 0x3D];

/// Length of a request or an acknowledgement in bytes.
pub const CONTROL_LEN: usize = 64;
/// Minimum length of a packet in a train, in bytes.
pub const LEAST_PROBE: u16 = 48;
/// Maximum length of a packet in a train.
pub(crate) const MOST_PROBE: u16 = 9000;
/// Maximum number of packets in a train.
pub(crate) const MOST_PACKETS: u16 = 128;
/// Maximum gap in a train, ns.
pub(crate) const MOST_GAP: u32 = 1_000_000_000;

/// The description of a train of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Train {
    /// Number of packets; 0: no train.
    pub packets: u16,
    /// UDP payload of each packet in bytes.
    pub bytes: u16,
    /// Time from the start of one packet to the start of the next, ns. 0: as fast as possible.
    pub gap: u32,
}

impl Train {
    /// Time from its first packet to its last, ns.
    pub fn span(&self) -> u64 {
        u64::from(self.gap) * u64::from(self.packets.saturating_sub(1))
    }

    /// Total UDP payload of its packets in bytes.
    pub fn total(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.packets)
    }

    fn is_sound(&self) -> bool {
        self.packets == 0
            || self.packets <= MOST_PACKETS
                && (LEAST_PROBE..=MOST_PROBE).contains(&self.bytes)
                && self.gap <= MOST_GAP
    }
}

/// Proves that its holder receives packets at its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Time of issue by the issuer's clock, ms. 0: no token.
    pub issued: u64,
    /// A tag that only the issuer can compute.
    pub proof: u64,
}

/// A packet of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its sending time by the sender's clock, ns.
    pub sent: u64,
    /// Its index in the train, from 0.
    pub index: u16,
    /// Number of packets in the train.
    pub packets: u16,
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Requests this train.
    Request(Token, Train),
    /// Acknowledges the request. This train follows; if it has no packets, the requester should
    /// retry with this token, or later.
    Acknowledgement(Token, Train),
    /// A packet of a train.
    Probe(Probe),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// A random number that the requester draws at each start.
    pub run: u64,
    /// Number of the request within its run, from 1, which answers repeat.
    pub number: u32,
    /// Its contents.
    pub body: Body,
}

/// The reason why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadMessage {
    /// The first bytes are not those of a message of this version.
    #[error("no message of this version")]
    Foreign,
    /// The length does not match the type.
    #[error("wrong length")]
    Length,
    /// The authenticator is wrong.
    #[error("wrong authenticator")]
    Forged,
    /// A field has an impossible value.
    #[error("a field is out of range")]
    Range,
}

/// Reads a field, with zeros beyond the end.
fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .unwrap_or([0; N])
}

/// Writes a field, which must be within the message.
fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(room) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *room = field;
    }
}

impl Message {
    /// Parses a datagram from `route.from` to `route.to`.
    ///
    /// # Errors
    /// [`BadMessage`].
    pub fn read(key: &Key, route: &Route, bytes: &[u8]) -> Result<Self, BadMessage> {
        let first: [u8; 4] = get(bytes, 0);
        let kind = match first {
            [FIRST, kind, a, b] if kind >> 4 == VERSION && [a, b] == MAGIC => kind & 0x0F,
            _ => return Err(BadMessage::Foreign),
        };
        let fits = match kind {
            1 | 2 => bytes.len() == CONTROL_LEN,
            3 => (usize::from(LEAST_PROBE)..=usize::from(MOST_PROBE)).contains(&bytes.len()),
            _ => return Err(BadMessage::Foreign),
        };
        if !fits {
            return Err(BadMessage::Length);
        }
        if !key.opens(route, bytes) {
            return Err(BadMessage::Forged);
        }
        let token = Token {
            issued: u64::from_be_bytes(get(bytes, 16)),
            proof: u64::from_be_bytes(get(bytes, 24)),
        };
        let train = Train {
            packets: u16::from_be_bytes(get(bytes, 32)),
            bytes: u16::from_be_bytes(get(bytes, 34)),
            gap: u32::from_be_bytes(get(bytes, 36)),
        };
        let probe = Probe {
            sent: token.issued,
            index: u16::from_be_bytes(get(bytes, 24)),
            packets: u16::from_be_bytes(get(bytes, 26)),
        };
        let (body, sound) = match kind {
            1 => (Body::Request(token, train), train.is_sound()),
            2 => (Body::Acknowledgement(token, train), train.is_sound()),
            _ => (
                Body::Probe(probe),
                probe.packets <= MOST_PACKETS && probe.index < probe.packets,
            ),
        };
        if !sound {
            return Err(BadMessage::Range);
        }
        Ok(Self {
            run: u64::from_be_bytes(get(bytes, 4)),
            number: u32::from_be_bytes(get(bytes, 12)),
            body,
        })
    }

    /// Writes the message to the front of `out`, with `len` bytes if it is a probe. Returns its
    /// length, or `None` if there is not enough room.
    #[must_use]
    pub fn write(&self, key: &Key, route: &Route, len: u16, out: &mut [u8]) -> Option<usize> {
        let (kind, len) = match self.body {
            Body::Request(..) => (1, CONTROL_LEN),
            Body::Acknowledgement(..) => (2, CONTROL_LEN),
            Body::Probe(_) => (3, usize::from(len.max(LEAST_PROBE))),
        };
        let out = out.get_mut(..len)?;
        out.fill(0);
        put(out, 0, [FIRST, VERSION << 4 | kind, MAGIC[0], MAGIC[1]]);
        put(out, 4, self.run.to_be_bytes());
        put(out, 12, self.number.to_be_bytes());
        match self.body {
            Body::Request(token, train) | Body::Acknowledgement(token, train) => {
                put(out, 16, token.issued.to_be_bytes());
                put(out, 24, token.proof.to_be_bytes());
                put(out, 32, train.packets.to_be_bytes());
                put(out, 34, train.bytes.to_be_bytes());
                put(out, 36, train.gap.to_be_bytes());
            }
            Body::Probe(probe) => {
                put(out, 16, probe.sent.to_be_bytes());
                put(out, 24, probe.index.to_be_bytes());
                put(out, 26, probe.packets.to_be_bytes());
            }
        }
        key.seal(route, out);
        Some(len)
    }
}

const _: () = assert!(CONTROL_LEN >= 40 + TAG && LEAST_PROBE as usize >= 28 + TAG);

#[cfg(test)]
#[path = "message_tests.rs"]
pub(crate) mod tests;
