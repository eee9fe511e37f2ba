//! Tokens that an endpoint can read or derive again after all state was lost: for address
//! validation (RFC 9000 §8.1), and for stateless resets (§10.3).
//!
//! An address-validation token proves that a client receives packets sent to its address. The
//! server keeps no state, because the token contains everything it needs, in sealed form.
//!
//! ```text
//!   kind (8)  nonce (96)  sealed by EndpointKey {
//!     kind (8)  expires (64, ms since 1970)  IP address (8 family, 32 or 128)
//!     Retry only: port (16)  original id (8 length, 0..160)
//!                 Retry's Source Connection ID (8 length, 0..160)
//!   } tag (128)
//! ```
//!
//! Wall time is a duration since 1970-01-01 UTC, so that tokens remain valid after a restart.

use core::fmt;
use core::hint::black_box;
use core::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashSet;

#[cfg(test)]
mod tests;

use super::{EndpointKey, Random};
use crate::Duration;
use crate::wire::{ConnectionId, Reader};

const RETRY: u8 = 1;
const NEW: u8 = 2;
const NONCE_LEN: usize = 12;
/// Maximum length of a token: kind, nonce, the longest contents, and tag.
const MAX_LEN: usize = 1 + NONCE_LEN + (1 + 8 + 17 + 2 + 21 + 21) + 16;

/// The contents of a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// Sent in a Retry packet. Bound to address and port; valid for one handshake.
    Retry {
        /// Destination Connection ID of the client's first Initial.
        original_dcid: ConnectionId,
        /// Source Connection ID of the Retry, which is the Destination Connection ID of the
        /// Initial that contains the token.
        retry_scid: ConnectionId,
    },
    /// Sent in a NEW_TOKEN frame for a later connection. Bound only to the address, because
    /// another connection uses another port.
    New {
        /// A random number for [`ReplayFilter`].
        id: u64,
    },
}

/// Error returned when a token doesn't validate its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Seems to be from a Retry packet, but is forged, expired, or of another client. The
    /// connection must be refused with INVALID_TOKEN (RFC 9000 §8.1.2).
    #[error("invalid Retry token")]
    InvalidRetry,
    /// Any other invalid token. The client's address counts as not validated (RFC 9000 §8.1.3).
    #[error("token unknown, expired or of another address")]
    Worthless,
}

/// Creates the token for a Retry packet to `client`, valid until `expires`.
#[must_use]
pub fn retry(
    key: &dyn EndpointKey,
    random: &mut Random,
    client: SocketAddr,
    original_dcid: &ConnectionId,
    retry_scid: &ConnectionId,
    expires: Duration,
) -> Vec<u8> {
    // [9000 8.1.1 token-kind]
    let mut plain = start(RETRY, client.ip(), expires);
    plain.extend_from_slice(&client.port().to_be_bytes());
    for id in [original_dcid, retry_scid] {
        plain.push(u8::try_from(id.len()).unwrap_or(0));
        plain.extend_from_slice(id.as_slice());
    }
    finish(key, random.bytes(), &plain)
}

/// Creates a token for a NEW_TOKEN frame to a client at `client`, valid until `expires`.
#[must_use]
pub fn new_token(
    key: &dyn EndpointKey,
    random: &mut Random,
    client: IpAddr,
    expires: Duration,
) -> Vec<u8> {
    // [9000 8.1.3 unique-token]
    finish(key, random.bytes(), &start(NEW, client, expires))
}

/// Opens a token that a client at `client` sent in an Initial packet to `dcid`.
///
/// # Errors
/// [`TokenError`].
pub fn open(
    key: &dyn EndpointKey,
    token: &[u8],
    client: SocketAddr,
    dcid: &ConnectionId,
    now: Duration,
) -> Result<Token, TokenError> {
    let failure = match token.first() {
        Some(&RETRY) => TokenError::InvalidRetry,
        _ => TokenError::Worthless,
    };
    let mut buffer = [0u8; MAX_LEN];
    let buffer = buffer.get_mut(..token.len()).ok_or(failure)?;
    buffer.copy_from_slice(token);
    let (kind, rest) = buffer.split_first_mut().ok_or(failure)?;
    let (nonce, sealed) = rest.split_first_chunk_mut().ok_or(failure)?;
    let plain = key.open(nonce, sealed).map_err(|_| failure)?;
    parse(*kind, nonce, plain, client, dcid, now).ok_or(failure)
}

fn parse(
    kind: u8,
    nonce: &[u8; NONCE_LEN],
    plain: &[u8],
    client: SocketAddr,
    dcid: &ConnectionId,
    now: Duration,
) -> Option<Token> {
    let mut r = Reader::new(plain);
    if r.get_u8().ok()? != kind || u64::from_be_bytes(r.get_array().ok()?) < millis(now) {
        return None;
    }
    let ip = match r.get_u8().ok()? {
        4 => IpAddr::from(r.get_array::<4>().ok()?),
        6 => IpAddr::from(r.get_array::<16>().ok()?),
        _ => return None,
    };
    // [9000 8.1.4 token-address]
    if ip != client.ip().to_canonical() {
        return None;
    }
    match kind {
        RETRY => {
            let port = r.get_u16().ok()?;
            let mut id = || {
                let len = usize::from(r.get_u8().ok()?);
                ConnectionId::new(r.get_slice(len).ok()?).ok()
            };
            let (original_dcid, retry_scid) = (id()?, id()?);
            (port == client.port() && retry_scid == *dcid).then_some(Token::Retry {
                original_dcid,
                retry_scid,
            })
        }
        NEW => Some(Token::New {
            id: u64::from_be_bytes(*nonce.first_chunk()?),
        }),
        _ => None,
    }
}

fn millis(since_1970: Duration) -> u64 {
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

fn start(kind: u8, client: IpAddr, expires: Duration) -> Vec<u8> {
    let mut plain = Vec::with_capacity(MAX_LEN);
    plain.push(kind);
    plain.extend_from_slice(&millis(expires).to_be_bytes());
    // An IPv4 client of a dual-stack socket must be treated as the same client on an IPv4
    // socket.
    match client.to_canonical() {
        IpAddr::V4(ip) => {
            plain.push(4);
            plain.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            plain.push(6);
            plain.extend_from_slice(&ip.octets());
        }
    }
    plain
}

fn finish(key: &dyn EndpointKey, nonce: [u8; NONCE_LEN], plain: &[u8]) -> Vec<u8> {
    let mut token = Vec::with_capacity(MAX_LEN);
    token.extend(plain.first());
    token.extend_from_slice(&nonce);
    // [9000 8.1.3 unlinkable-token] [9000 8.1.4 guessed]
    key.seal(&nonce, plain, &mut token);
    token
}

/// Remembers in bounded memory which NEW_TOKEN tokens were used, so that each validates only
/// one connection (RFC 9000 §8.1.4).
///
/// Two sets take turns, each for the lifetime of a token, so that each use is remembered for at
/// least this long. When a set is full, unknown tokens count as used until the next turn. Their
/// clients are then validated by a Retry or by the handshake itself.
#[derive(Debug)]
pub struct ReplayFilter {
    lifetime: Duration,
    capacity: usize,
    current: FxHashSet<u64>,
    previous: FxHashSet<u64>,
    turn_ends: Duration,
}

impl ReplayFilter {
    /// Creates a filter for tokens with this `lifetime`, which remembers at most `capacity`
    /// tokens per lifetime (about 9 bytes each, twice).
    pub fn new(lifetime: Duration, capacity: usize) -> Self {
        Self {
            lifetime,
            capacity,
            current: FxHashSet::default(),
            previous: FxHashSet::default(),
            turn_ends: Duration::ZERO,
        }
    }

    /// Returns true if [`first_use`](Self::first_use) would return true; `now` is wall time.
    pub fn is_fresh(&self, id: u64, now: Duration) -> bool {
        if now >= self.turn_ends {
            let remembered = now < self.turn_ends.saturating_add(self.lifetime);
            return self.capacity > 0 && !(remembered && self.current.contains(&id));
        }
        let known = self.previous.contains(&id) || self.current.contains(&id);
        !known && self.current.len() < self.capacity
    }

    /// Returns true once for the token with this id; `now` is wall time.
    pub fn first_use(&mut self, id: u64, now: Duration) -> bool {
        if now >= self.turn_ends {
            self.previous = if now < self.turn_ends.saturating_add(self.lifetime) {
                core::mem::take(&mut self.current)
            } else {
                self.current.clear();
                FxHashSet::default()
            };
            self.turn_ends = now.saturating_add(self.lifetime);
        }
        if self.previous.contains(&id) || self.current.len() >= self.capacity {
            return false;
        }
        self.current.insert(id)
    }
}

/// Length of a token.
pub const RESET_TOKEN_LEN: usize = 16;

/// Minimum size of a stateless reset, which looks like a packet with a short header and has 5
/// unpredictable bytes before the token (RFC 9000 §10.3).
pub const MIN_RESET_LEN: usize = 5 + RESET_TOKEN_LEN;

/// Sixteen bytes that close a connection if a datagram ends with them. Until used, only the two
/// endpoints know them.
///
/// Comparison takes constant time (RFC 9000 §10.3.1).
#[derive(Clone, Copy, Eq)]
pub struct ResetToken([u8; RESET_TOKEN_LEN]);

impl ResetToken {
    /// Creates a token from its bytes.
    pub const fn new(bytes: [u8; RESET_TOKEN_LEN]) -> Self {
        Self(bytes)
    }

    /// Derives the token of one of this endpoint's connection ids. It can therefore be computed
    /// again after all state was lost (RFC 9000 §10.3.2).
    pub fn derive(key: &dyn EndpointKey, cid: &[u8]) -> Self {
        // The label separates this use of the keyed hash from others.
        let mut input = [0u8; 6 + 20];
        let len = 6 + cid.len().min(20);
        let (label, id) = input.split_at_mut(6);
        label.copy_from_slice(b"reset:");
        id.iter_mut().zip(cid).for_each(|(to, from)| *to = *from);
        // [9000 10.3.2 guessed-token] [9000 10.3.2 token-per-id]
        let mac = key.mac(input.get(..len).unwrap_or(&[]));
        let mut token = [0; RESET_TOKEN_LEN];
        token.iter_mut().zip(mac).for_each(|(to, from)| *to = from);
        Self(token)
    }

    /// Returns the token at the end of a datagram that is long enough to be a stateless reset.
    pub fn at_end_of(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < MIN_RESET_LEN {
            return None;
        }
        datagram.last_chunk().copied().map(Self)
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; RESET_TOKEN_LEN] {
        &self.0
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            // [9000 10.3.1 constant-time]
            .fold(0u8, |acc, (a, b)| black_box(acc | (a ^ b)));
        black_box(difference) == 0
    }
}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}
