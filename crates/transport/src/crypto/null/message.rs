//! Handshake messages of the null cipher: TLS's types, framing and rough sizes, with contents of our own.
//!
//! ```text
//!   type (8) length (24) body
//!   body: fields as length (16) and bytes, then zeros up to the size that the TLS message would have
//! ```

use super::super::HandshakeError;

pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const SERVER_HELLO: u8 = 2;
pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(super) const CERTIFICATE: u8 = 11;
pub(super) const CERTIFICATE_VERIFY: u8 = 15;
pub(super) const FINISHED: u8 = 20;

/// A message that is longer is refused before it is stored.
const MAX_MESSAGE: usize = 1 << 16;

/// TLS alerts (RFC 8446 §6).
pub(super) const UNEXPECTED_MESSAGE: u8 = 10;
pub(super) const DECODE_ERROR: u8 = 50;
pub(super) const DECRYPT_ERROR: u8 = 51;

pub(super) fn failure(alert: u8, reason: &str) -> HandshakeError {
    HandshakeError::Tls {
        alert,
        reason: reason.to_owned(),
    }
}

/// Body size of each message as rustls sends it with one ECDSA certificate, at the least.
const fn least_body(kind: u8) -> usize {
    match kind {
        CLIENT_HELLO => 260,
        SERVER_HELLO => 86,
        ENCRYPTED_EXTENSIONS => 90,
        CERTIFICATE => 600,
        CERTIFICATE_VERIFY => 76,
        FINISHED => 32,
        _ => 0,
    }
}

/// Appends a message with `fields` to `out`.
pub(super) fn write(kind: u8, fields: &[&[u8]], out: &mut Vec<u8>) {
    let wanted: usize = fields.iter().map(|f| 2 + f.len()).sum();
    let len = wanted.max(least_body(kind));
    let [_, high, mid, low] = u32::try_from(len).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&[kind, high, mid, low]);
    for field in fields {
        out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(field);
    }
    out.resize(out.len() + (len - wanted), 0);
}

/// Cuts the next field off a body.
pub(super) fn field<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], HandshakeError> {
    let (len, rest) = body
        .split_first_chunk::<2>()
        .ok_or_else(|| failure(DECODE_ERROR, "field missing"))?;
    let (value, rest) = rest
        .split_at_checked(usize::from(u16::from_be_bytes(*len)))
        .ok_or_else(|| failure(DECODE_ERROR, "field too long"))?;
    *body = rest;
    Ok(value)
}

/// Cuts the next whole message off `buffer`: its type and all its bytes, header included.
pub(super) fn next(buffer: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, HandshakeError> {
    let Some([kind, high, mid, low]) = buffer.first_chunk().copied() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([0, high, mid, low]) as usize;
    if len > MAX_MESSAGE {
        return Err(failure(DECODE_ERROR, "message too long"));
    }
    if buffer.len() < 4 + len {
        return Ok(None);
    }
    let rest = buffer.split_off(4 + len);
    Ok(Some((kind, core::mem::replace(buffer, rest))))
}
