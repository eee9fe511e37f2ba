//! Handshake messages of the null cipher, with the types, framing and approximate sizes of TLS, but
//! different contents.
//!
//! ```text
//!   type (8) length (24) body
//!   body: fields as length (16) and bytes, then zeros up to the size of the TLS message
//! ```

use super::super::HandshakeError;

pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const SERVER_HELLO: u8 = 2;
pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(super) const CERTIFICATE: u8 = 11;
pub(super) const CERTIFICATE_VERIFY: u8 = 15;
pub(super) const FINISHED: u8 = 20;

/// Longer messages are refused before they are stored.
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

/// Length of TLS messages beyond our fields: rustls with X25519, ECDSA P-256 and a certificate
/// of 430 bytes.
const fn padding(kind: u8) -> usize {
    match kind {
        CLIENT_HELLO => 169,
        SERVER_HELLO => 76,
        ENCRYPTED_EXTENSIONS => 9,
        CERTIFICATE => 441,
        CERTIFICATE_VERIFY => 75,
        FINISHED => 14,
        _ => 0,
    }
}

pub(super) fn write(kind: u8, fields: &[&[u8]], out: &mut Vec<u8>) {
    let len = fields.iter().map(|f| 2 + f.len()).sum::<usize>() + padding(kind);
    let [_, high, mid, low] = u32::try_from(len).unwrap_or(0).to_be_bytes();
    out.extend_from_slice(&[kind, high, mid, low]);
    for field in fields {
        put_field(field, out);
    }
    out.resize(out.len() + padding(kind), 0);
}

pub(super) fn put_field(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u16::try_from(field.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(field);
}

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

/// Removes the next complete message from `buffer`: its type, and all bytes including the
/// header.
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
