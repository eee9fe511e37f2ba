//! Encoding of Retry packets (RFC 9000 §17.2.5). The caller must compute the integrity tag,
//! because this requires a key, although a fixed one.

use super::encode::long;
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
