//! A client's first packet, before any state about the client is kept.

use core::net::SocketAddr;

use crate::Duration;
use crate::crypto::token::{self, ReplayFilter, Token, TokenError};
use crate::crypto::{DirectionalKeys, EndpointKey, InitialCrypto, Keys, SAMPLE_LEN, Side};
use crate::wire::ConnectionId;
use crate::wire::packet::{PlainHeader, Protected};

/// The facts about a client that its Initial's token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Destination id of the client's very first Initial.
    pub(super) original_dcid: ConnectionId,
    /// Source id of this server's Retry, if there was one.
    pub(super) retry_scid: Option<ConnectionId>,
    /// Whether the client receives packets sent to its address.
    pub(super) validated: bool,
    /// The token from an earlier connection that proves the address. It must be spent once the
    /// packet is known to be authentic.
    pub(super) token: Option<u64>,
}

/// The token of an Initial, as far as it can be checked without the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenRead {
    /// There is no token.
    None,
    /// Valid, unless it was used before.
    Good(Token),
    /// Invalid, so it proves nothing.
    Worthless,
}

impl TokenRead {
    /// Reads the token of an Initial to `dcid`.
    ///
    /// # Errors
    /// [`TokenError::InvalidRetry`] if the client must be refused.
    pub(super) fn new(
        key: &dyn EndpointKey,
        token: &[u8],
        client: SocketAddr,
        dcid: &ConnectionId,
        wall: Duration,
    ) -> Result<Self, TokenError> {
        if token.is_empty() {
            return Ok(Self::None);
        }
        match token::open(key, token, client, dcid, wall) {
            Ok(token) => Ok(Self::Good(token)),
            Err(TokenError::Worthless) => Ok(Self::Worthless),
            Err(error @ TokenError::InvalidRetry) => Err(error),
        }
    }
}

impl Origin {
    /// Evaluates the token of an Initial to `dcid`. The second value is false if the token is
    /// invalid.
    pub(super) fn new(
        token: TokenRead,
        used: &ReplayFilter,
        dcid: &ConnectionId,
        wall: Duration,
    ) -> (Self, bool) {
        let unknown = Self {
            original_dcid: *dcid,
            retry_scid: None,
            validated: false,
            token: None,
        };
        match token {
            TokenRead::None => (unknown, true),
            TokenRead::Good(Token::Retry {
                original_dcid,
                retry_scid,
            }) => {
                let followed = Self {
                    original_dcid,
                    retry_scid: Some(retry_scid),
                    validated: true,
                    token: None,
                };
                (followed, true)
            }
            TokenRead::Good(Token::New { id }) if used.is_fresh(id, wall) => {
                let known = Self {
                    validated: true,
                    token: Some(id),
                    ..unknown
                };
                (known, true)
            }
            TokenRead::Good(Token::New { .. }) | TokenRead::Worthless => (unknown, false),
        }
    }
}

/// Returns the keys for the Initial that `found` describes if they open it, which proves that
/// it is undamaged and its sender speaks the protocol. `packet` must be a copy, because it is
/// overwritten.
pub(super) fn keys_that_open(
    crypto: &dyn InitialCrypto,
    found: &Protected,
    packet: &mut [u8],
) -> Option<Keys> {
    let keys = crypto.initial_keys(found.dcid.as_slice(), Side::Server);
    opens(&keys.remote, found, packet).then_some(keys)
}

fn opens(keys: &DirectionalKeys, found: &Protected, packet: &mut [u8]) -> bool {
    let Some(sample) = found
        .sample()
        .and_then(|range| packet.get(range)?.first_chunk::<SAMPLE_LEN>())
    else {
        return false;
    };
    let [first_mask, number_mask @ ..] = keys.header.mask(sample);
    let Some(first) = packet.first_mut() else {
        return false;
    };
    *first ^= first_mask & 0x0f;
    let number_len = usize::from(*first & 3) + 1;
    if let Some(number) = packet.get_mut(found.number_at..found.number_at + number_len) {
        number
            .iter_mut()
            .zip(number_mask)
            .for_each(|(b, m)| *b ^= m);
    }
    let Ok(header) = PlainHeader::decode(packet, found) else {
        return false;
    };
    // This is the first packet from this client, so numbers start at 0.
    let number = header.number.expand(0);
    packet
        .get_mut(..found.len)
        .is_some_and(|packet| keys.packet.open(number, packet, header.payload_at).is_ok())
}
