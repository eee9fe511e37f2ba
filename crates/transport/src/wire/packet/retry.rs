//! Encoding of Retry packets (RFC 9000 §17.2.5). The caller must compute the integrity tag,
//! because this requires a key, although a fixed one.

use super::encode::{long, put_id};
use crate::wire::{ConnectionId, WriteError, Writer};

/// Writes a Retry without its integrity tag. `unused` provides the four unused bits.
///
/// # Errors
/// [`WriteError::NoRoom`], with nothing written.
pub fn encode(
    w: &mut Writer<'_>,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    unused: u8,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| {
        long(w, 0x30 | (unused & 0x0f), dcid, scid)?;
        w.put_slice(token)
    })
}

/// Writes the part of the Retry pseudo-packet that precedes the Retry itself (RFC 9001 §5.8):
/// the destination connection id of the client's first Initial. The integrity tag covers it.
///
/// # Errors
/// [`WriteError::NoRoom`], with nothing written.
pub fn encode_pseudo_prefix(
    w: &mut Writer<'_>,
    original_dcid: &ConnectionId,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| put_id(w, original_dcid.as_slice()))
}
