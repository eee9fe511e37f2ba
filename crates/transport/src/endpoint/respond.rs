//! Datagrams that an endpoint sends by itself, without a connection: its answers to unknown
//! senders, within limits on their rate, and stateless resets in both directions.

use super::{ConnectionHandle, DatagramEvent, Endpoint, known};
use crate::cid::fresh_id;
use crate::connection::Received;
use crate::crypto::token::{self, MIN_RESET_LEN};
use crate::crypto::{EndpointKey, InitialCrypto, Random, ResetToken, Side};
use crate::wire::frame::ConnectionClose;
use crate::wire::packet::{
    FIXED_BIT, Header, MIN_INITIAL_DATAGRAM, SAMPLE_OFFSET, TAG_LEN, TruncatedNumber, Unknown,
    encode_retry, version,
};
use crate::wire::{ConnectionId, TransportError, WriteError, Writer};
use crate::{Duration, Instant};

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
fn version_negotiation(
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
fn retry(
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
fn close(
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
fn stateless_reset(
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

impl Endpoint {
    /// Returns the connection that the datagram resets, if it is a stateless reset. Such a
    /// datagram may have a header of any form (RFC 9000 §10.3).
    pub(super) fn resets(&self, received: &Received, datagram: &[u8]) -> Option<ConnectionHandle> {
        // [9000 10.3 any-form] [9000 10.3.1 compared]
        let token = ResetToken::at_end_of(datagram)?;
        let key = &*self.config.key;
        self.demux.by_token(key, received.remote, &token)
    }

    /// Handles a packet with a long header that belongs to no connection: either a stateless
    /// reset or a foreign packet.
    #[cold]
    pub(super) fn odd(&mut self, received: &Received, datagram: &[u8]) -> DatagramEvent {
        match self.resets(received, datagram) {
            Some(handle) => known(handle),
            None => self.foreign(),
        }
    }

    /// Sends a stateless reset to the sender of a packet of `len` bytes to `dcid`.
    pub(super) fn send_reset(
        &mut self,
        now: Instant,
        dcid: &[u8],
        len: usize,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        if len <= MIN_RESET_LEN {
            self.stats.dropped_unknown += 1;
            return DatagramEvent::Nothing;
        }
        if !self.resets.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        if !stateless_reset(answer, &mut self.random, &*self.config.key, dcid, len) {
            self.stats.dropped_unknown += 1;
            return DatagramEvent::Nothing;
        }
        self.stats.resets_sent += 1;
        DatagramEvent::Respond
    }

    /// Sends a Version Negotiation packet to the sender of a packet of another version.
    pub(super) fn negotiate(
        &mut self,
        now: Instant,
        datagram: &[u8],
        unknown: &Unknown,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        // Smaller datagrams must not be answered (RFC 9000 §6.1).
        // [9000 5.2.2 small-unknown-version]
        if self.config.server.is_none() || datagram.len() < MIN_INITIAL_DATAGRAM {
            return self.foreign();
        }
        let (Some(dcid), Some(scid)) = (
            datagram.get(unknown.dcid.clone()),
            datagram.get(unknown.scid.clone()),
        ) else {
            return self.foreign();
        };
        if !self.negotiations.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        match version_negotiation(answer, &mut self.random, dcid, scid) {
            Ok(()) => {
                // [9000 17.2.1 one-negotiation]
                self.stats.version_negotiations_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => self.foreign(),
        }
    }

    pub(super) fn send_retry(
        &mut self,
        now: Instant,
        received: &Received,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let Some(server) = &self.config.server else {
            return DatagramEvent::Nothing;
        };
        let expires = self
            .wall(now)
            .saturating_add(self.config.retry_token_lifetime);
        // [9000 17.2.5.1 other-id]
        let retry_scid = fresh_id(&mut self.random);
        let token = token::retry(
            &*self.config.key,
            &mut self.random,
            received.remote,
            dcid,
            &retry_scid,
            expires,
        );
        let crypto = &*server.crypto;
        match retry(
            answer,
            &mut self.random,
            crypto,
            dcid,
            scid,
            &retry_scid,
            &token,
        ) {
            Ok(()) => {
                // [9000 17.2.5.1 one-retry]
                self.stats.retries_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => DatagramEvent::Nothing,
        }
    }

    pub(super) fn send_close(
        &mut self,
        now: Instant,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        error: &TransportError,
        answer: &mut Vec<u8>,
    ) -> DatagramEvent {
        let Some(server) = &self.config.server else {
            return DatagramEvent::Nothing;
        };
        if !self.refusals.take(now) {
            self.stats.answers_withheld += 1;
            return DatagramEvent::Nothing;
        }
        match close(answer, &*server.crypto, dcid, scid, error) {
            Ok(()) => {
                self.stats.refusals_sent += 1;
                DatagramEvent::Respond
            }
            Err(_) => DatagramEvent::Nothing,
        }
    }
}

/// A token bucket that allows `per_second` answers per second, and at most a second's worth at
/// once.
#[derive(Debug)]
pub(super) struct RateLimit {
    spacing: Duration,
    /// When the bucket would be full if nothing more were taken. It is empty one second before.
    full_at: Instant,
}

const BURST: Duration = Duration::from_secs(1);

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            // With 0 per second, one answer takes more than the bucket holds.
            spacing: BURST.checked_div(per_second).unwrap_or(BURST * 2),
            full_at: Instant::ZERO,
        }
    }

    /// Takes an answer from the bucket. Returns false if none may be sent now.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.spacing;
        if full_at - now > BURST {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limit: &mut RateLimit, now: Instant) -> usize {
        (0..10_000).take_while(|_| limit.take(now)).count()
    }

    #[test]
    fn burst_of_a_second_then_the_rate() {
        let mut limit = RateLimit::new(100);
        let start = Instant::from_millis(5000);
        assert_eq!(taken(&mut limit, start), 100);
        assert_eq!(taken(&mut limit, start + Duration::from_millis(9)), 0);
        assert_eq!(taken(&mut limit, start + Duration::from_millis(50)), 5);
        assert_eq!(taken(&mut limit, start + Duration::from_secs(3600)), 100);
    }

    #[test]
    fn rate_of_zero_allows_nothing() {
        assert_eq!(taken(&mut RateLimit::new(0), Instant::from_millis(1)), 0);
    }
}
