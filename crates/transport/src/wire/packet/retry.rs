//! Building Retry packets (RFC 9000 §17.2.5). The integrity tag needs a key, fixed as it is, and is
//! the caller's.

use super::encode::{long, put_id};
use crate::wire::{ConnectionId, WriteError, Writer};

/// Writes a Retry without its integrity tag. `unused` fills the four bits that mean nothing.
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

/// Writes what stands before the Retry in the pseudo-packet that its tag is computed over
/// (RFC 9001 §5.8): the destination connection id of the client's first Initial.
///
/// # Errors
/// [`WriteError::NoRoom`], with nothing written.
pub fn encode_pseudo_prefix(
    w: &mut Writer<'_>,
    original_dcid: &ConnectionId,
) -> Result<(), WriteError> {
    w.all_or_nothing(|w| put_id(w, original_dcid.as_slice()))
}
