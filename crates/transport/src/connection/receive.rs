//! Datagrams in: the shim off, coalesced packets opened in place, each handed to the frames.

use super::handshake::{self, RetryAnswer};
use super::keys::{OpenedPacket, Unopened};
use super::paths::{ShimPrefix, strip};
use super::{Connection, ConnectionError, Received};
use crate::Instant;
use crate::cid::LOCAL_ID_LEN;
use crate::crypto::ResetToken;
use crate::wire::packet::{DecodeError, Protected, Retry, VersionNegotiation};
use crate::wire::{PacketType, PartialDecode, SpaceId, TransportError, TransportErrorCode};

/// What is known of the datagram that a packet came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier<'a> {
    pub(super) received: Received,
    pub(super) prefix: ShimPrefix<'a>,
    /// Bytes of UDP payload, shim included.
    pub(super) bytes: usize,
    /// The packet is the first of its datagram.
    pub(super) first: bool,
}

impl Connection {
    /// Takes a datagram for this connection. Its bytes are decrypted in place.
    pub fn handle_datagram(&mut self, now: Instant, received: Received, datagram: &mut [u8]) {
        if self.lifecycle.ignores_input() || self.is_from_a_stranger(&received) {
            return;
        }
        if self.handshake.keep(&received, datagram) {
            return;
        }
        let bytes = datagram.len();
        // Opening a packet destroys it, and a stateless reset looks like one.
        let reset = ResetToken::at_end_of(datagram);
        if self.paths.on_datagram(&received, bytes as u64) {
            let recovery = self.spaces.recovery_mut();
            recovery.set_amplification_blocked(now, false);
        }
        let (prefix, mut rest) = if self.paths.path().feedback().offered() {
            strip(datagram)
        } else {
            (ShimPrefix::Plain, datagram)
        };
        if matches!(prefix, ShimPrefix::Bad) {
            self.stats.shims_bad += 1;
        }
        let mut carrier = Carrier {
            received,
            prefix,
            bytes,
            first: true,
        };
        let mut opened_any = false;
        let mut first_id = None;
        while !rest.is_empty() {
            let found = match PartialDecode::new(rest, LOCAL_ID_LEN) {
                Ok(PartialDecode::Protected(found)) => found,
                Ok(PartialDecode::Retry(retry)) if carrier.first => {
                    self.on_retry(now, rest, &retry);
                    break;
                }
                Ok(PartialDecode::VersionNegotiation) if carrier.first => {
                    self.on_version_negotiation(now, rest);
                    break;
                }
                // [9000 5.2.1 other-version]
                Ok(_)
                | Err(
                    DecodeError::Truncated | DecodeError::FixedBit | DecodeError::ConnectionId(_),
                ) => {
                    // [9000 14 odd-sizes]
                    self.stats.packets_dropped += 1;
                    break;
                }
            };
            // Packets of one datagram are for one connection (RFC 9000 §12.2).
            if *first_id.get_or_insert(found.dcid) != found.dcid {
                self.stats.packets_dropped += 1;
                break;
            }
            let (packet, behind) = rest.split_at_mut(found.len.min(rest.len()));
            // [9000 12.2 coalesced]
            opened_any |= self.handle_packet(now, &carrier, &found, packet);
            carrier.first = false;
            rest = behind;
        }
        if opened_any {
            self.lifecycle
                .on_datagram(now, self.spaces.recovery().rtt().min());
            self.stats.datagrams_received += 1;
            self.stats.bytes_received += bytes as u64;
        // [9000 10.3.1 compared]
        } else if let Some(token) = reset
            && self.control.remote_ids.is_reset(&token)
        {
            self.lose(now, ConnectionError::Reset);
        }
        while let Some((received, mut datagram)) = self.handshake.take_kept() {
            self.handle_datagram(now, received, &mut datagram);
        }
    }

    /// A client knows where its server is (RFC 9000 §9).
    fn is_from_a_stranger(&self, received: &Received) -> bool {
        // [9000 9 unknown-server-address]
        self.side.is_client() && received.remote != self.paths.path().remote()
    }

    /// True if the packet opened.
    fn handle_packet(
        &mut self,
        now: Instant,
        carrier: &Carrier<'_>,
        found: &Protected,
        packet: &mut [u8],
    ) -> bool {
        if self.side.is_server()
            && found.ty == PacketType::Initial
            // [9000 14.1 short-initials-dropped]
            && carrier.bytes < self.paths.full_datagram()
        {
            // RFC 9000 §14.1, for servers alone. The endpoint sees to those that begin connections.
            self.stats.packets_dropped += 1;
            return false;
        }
        match self.open(now, found, packet) {
            Ok(opened) => {
                self.stats.packets_received += 1;
                // [9000 5.2 no-half-packets]
                if let Err(error) = self.on_opened(now, carrier, found, &opened, packet) {
                    self.fail(now, error);
                }
                true
            }
            Err(Unopened::Dropped) => {
                self.stats.packets_dropped += 1;
                let early = found.ty == PacketType::ZeroRtt;
                self.stats.early_packets_dropped += u64::from(early);
                false
            }
            Err(Unopened::Fatal(error)) => {
                self.fail(now, error);
                false
            }
        }
    }

    fn open(
        &mut self,
        now: Instant,
        found: &Protected,
        packet: &mut [u8],
    ) -> Result<OpenedPacket, Unopened> {
        let acceptable = match found.ty {
            // A server must not read 1-RTT before it has seen the client's Finished (RFC 9001
            // §5.7).
            // [9001 5.7 not-before-complete]
            PacketType::OneRtt => self.is_complete(),
            PacketType::ZeroRtt => {
                // [9001 5.6 client-opens-none]
                self.side.is_server() && self.handshake.is_from_peer(&found.scid)
            }
            // A client's packets have no tokens to give (RFC 9000 §17.2.2).
            PacketType::Initial => {
                // [9000 17.2.2 no-server-token]
                (self.side.is_server() || found.token.is_empty())
                    && self.handshake.is_from_peer(&found.scid)
            }
            PacketType::Handshake => self.handshake.is_from_peer(&found.scid),
        };
        if !acceptable {
            return Err(Unopened::Dropped);
        }
        let pto = self.pto();
        self.spaces.open(now, pto, found, packet)
    }

    fn on_opened(
        &mut self,
        now: Instant,
        carrier: &Carrier<'_>,
        found: &Protected,
        opened: &OpenedPacket,
        packet: &[u8],
    ) -> Result<(), TransportError> {
        let space = found.ty.space();
        if found.ty.is_long() && self.handshake.on_source(found.scid) {
            self.control.remote_ids.set_first(found.scid);
        }
        // [9000 17.2 reserved-bits]
        if !opened.reserved_bits_ok {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "reserved bits of a packet header are set",
            ));
        }
        // [9000 12.3 duplicates]
        if self.spaces.received(space).is_duplicate(opened.number) {
            self.stats.packets_duplicate += 1;
            return Ok(());
        }
        self.stats.key_updates += u64::from(opened.peer_updated);
        self.stats.early_packets_received += u64::from(found.ty == PacketType::ZeroRtt);
        // [9001 4.9.1 server-initial-keys]
        if self.side.is_server() && space == SpaceId::Handshake {
            // The client's address is its own, and it has the Handshake keys (RFC 9000 §8.1, RFC
            // 9001 §4.9.1).
            self.paths.path_mut().validate();
            self.discard(now, SpaceId::Initial);
        }
        let payload = packet
            .get(opened.payload_at..opened.payload_at + opened.payload_len)
            .unwrap_or(&[]);
        self.on_payload(now, carrier, found, opened, payload)
    }

    fn on_version_negotiation(&mut self, now: Instant, datagram: &[u8]) {
        let Ok(packet) = VersionNegotiation::decode(datagram) else {
            return;
        };
        let ids = self.control.local_ids.iter();
        if self.handshake.is_refusal(&packet, ids) {
            // [9000 6.2 abandon]
            self.lose(now, ConnectionError::VersionMismatch);
        }
    }

    fn on_retry(&mut self, now: Instant, datagram: &[u8], retry: &Retry) {
        let longest = handshake::longest_token(&self.config);
        match self.handshake.on_retry(datagram, retry, longest) {
            None => {}
            Some(RetryAnswer::Drop) => self.stats.packets_dropped += 1,
            Some(RetryAnswer::TooLong(bytes)) => {
                self.lose(now, ConnectionError::TokenTooLong(bytes));
            }
            Some(RetryAnswer::Again(keys, id)) => {
                // [9000 17.2.5.1 retry-id]
                self.control.remote_ids.set_first(id);
                self.spaces.on_retry(now, keys);
                self.handshake.resend(SpaceId::Initial);
                self.resend_early_data(now);
            }
        }
    }
}
