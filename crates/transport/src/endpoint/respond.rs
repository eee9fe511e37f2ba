//! Datagrams that an endpoint sends by itself, without a connection.

use crate::crypto::reset::MIN_RESET_LEN;
use crate::crypto::{EndpointKey, InitialCrypto, Random, ResetToken, Side};
use crate::wire::frame::ConnectionClose;
use crate::wire::packet::{
    FIXED_BIT, Header, SAMPLE_OFFSET, TAG_LEN, TruncatedNumber, encode_retry, version,
};
use crate::wire::{ConnectionId, TransportError, WriteError, Writer};

/// Maximum length of any answer.
const MAX_LEN: usize = 1200;

/// Replaces the contents of `out` by the output of `write`, or clears it on failure.
fn written<E>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), E>,
) -> Result<(), E> {
    out.clear();
    out.resize(MAX_LEN, 0);
    let mut w = Writer::new(out);
    let result = write(&mut w);
    let len = if result.is_ok() { w.position() } else { 0 };
    out.truncate(len);
    result
}

/// Writes a Version Negotiation packet in response to a packet with these ids (RFC 9000 §6.1). It
/// lists version 1 and a reserved version, so that clients remain able to ignore unknown versions
/// (§6.3).
pub(super) fn version_negotiation(
    out: &mut Vec<u8>,
    random: &mut Random,
    their_dcid: &[u8],
    their_scid: &[u8],
) -> Result<(), WriteError> {
    let [unused, a, b, c, d] = random.bytes();
    let versions = [
        version::V1,
        version::reserved(u32::from_be_bytes([a, b, c, d])),
    ];
    written(out, |w| {
        // [9000 17.2.1 negotiation-fields]
        version::encode_negotiation(w, their_scid, their_dcid, &versions, unused)
    })
}

/// Writes a Retry in response to an Initial with these ids (RFC 9000 §17.2.5).
pub(super) fn retry(
    out: &mut Vec<u8>,
    random: &mut Random,
    crypto: &dyn InitialCrypto,
    their_dcid: &ConnectionId,
    their_scid: &ConnectionId,
    our_scid: &ConnectionId,
    token: &[u8],
) -> Result<(), WriteError> {
    let [unused] = random.bytes();
    written(out, |w| {
        encode_retry(w, their_scid, our_scid, token, unused)?;
        let tag = crypto.retry_tag(their_dcid.as_slice(), w.written());
        w.put_slice(&tag)
    })
}

/// Writes a CONNECTION_CLOSE in an Initial, in response to an Initial with these ids.
pub(super) fn close(
    out: &mut Vec<u8>,
    crypto: &dyn InitialCrypto,
    their_dcid: &ConnectionId,
    their_scid: &ConnectionId,
    error: &TransportError,
) -> Result<(), WriteError> {
    let keys = crypto
        .initial_keys(their_dcid.as_slice(), Side::Server)
        .local;
    written(out, |w| {
        let header = Header::Initial {
            dcid: *their_scid,
            // The client adopts the source id of the first packet, but will never send to this
            // one.
            scid: *their_dcid,
            token: &[],
            number: TruncatedNumber::with_len(0, 1),
        };
        let started = header.encode(w)?;
        ConnectionClose {
            error_code: error.code,
            frame_type: error.frame_type,
            reason: error.reason.as_bytes(),
        }
        .encode_cut(w)?;
        let packet = started.finish(w, TAG_LEN)?;
        let packet = w.range_mut(packet).ok_or(WriteError::NoRoom)?;
        let (number_at, header_len) = (started.number_at(), started.payload_at());
        keys.packet
            .seal(0, packet, header_len)
            .map_err(|_| WriteError::NoRoom)?;
        mask(packet, number_at, header_len, |sample| {
            keys.header.mask(sample)
        });
        Ok(())
    })
}

/// Applies header protection to a long header with the packet number at `number_at`.
pub(super) fn mask(
    packet: &mut [u8],
    number_at: usize,
    header_len: usize,
    mask: impl FnOnce(&[u8; 16]) -> [u8; 5],
) {
    let Some(sample) = packet
        .get(number_at + SAMPLE_OFFSET..)
        .and_then(|rest| rest.first_chunk())
    else {
        return;
    };
    let [first_mask, number_mask @ ..] = mask(sample);
    if let Some(first) = packet.first_mut() {
        *first ^= first_mask & 0x0f;
    }
    if let Some(number) = packet.get_mut(number_at..header_len) {
        number
            .iter_mut()
            .zip(number_mask)
            .for_each(|(b, m)| *b ^= m);
    }
}

/// Writes a stateless reset in response to a datagram of `trigger_len` bytes to `dcid` (RFC
/// 9000 §10.3). It is shorter than that datagram, so that two endpoints can't reset each other
/// forever. Returns false if it would be too short.
pub(super) fn stateless_reset(
    out: &mut Vec<u8>,
    random: &mut Random,
    key: &dyn EndpointKey,
    dcid: &[u8],
    trigger_len: usize,
) -> bool {
    // As long as a short packet with little content.
    let usual = 41 + usize::from(random.bytes::<1>()[0] & 0x1f);
    // [9000 10.3 reset-amplification] [9000 10.3.3 smaller]
    let len = usual.min(trigger_len.saturating_sub(1));
    let Some(unpredictable) = len.checked_sub(16).filter(|_| len >= MIN_RESET_LEN) else {
        return false;
    };
    out.clear();
    out.resize(unpredictable, 0);
    random.fill(out);
    if let Some(first) = out.first_mut() {
        // [9000 10.3 short-form]
        *first = FIXED_BIT | (*first & 0x3f);
    }
    out.extend_from_slice(ResetToken::derive(key, dcid).as_bytes());
    true
}
