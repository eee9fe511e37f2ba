//! Datagrams in: the shim off, coalesced packets opened in place, each handed to the frames.

use super::keys::{OpenedPacket, Unopened};
use super::paths::{ShimPrefix, strip};
use super::{Connection, ConnectionError, Received, parameters};
use crate::Instant;
use crate::cid::LOCAL_ID_LEN;
use crate::crypto::ResetToken;
use crate::wire::packet::{DecodeError, Protected, VersionNegotiation};
use crate::wire::version;
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
        if !self.is_complete()
            && (self.early.keep(&received, datagram) || self.zero_rtt.keep(&received, datagram))
        {
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
                Ok(_)
                | Err(
                    DecodeError::Truncated | DecodeError::FixedBit | DecodeError::ConnectionId(_),
                ) => {
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
            opened_any |= self.handle_packet(now, &carrier, &found, packet);
            carrier.first = false;
            rest = behind;
        }
        if opened_any {
            self.lifecycle
                .on_datagram(now, self.spaces.recovery().rtt().min());
            self.stats.datagrams_received += 1;
            self.stats.bytes_received += bytes as u64;
        } else if let Some(token) = reset
            && self.control.remote_ids.is_reset(&token)
        {
            self.lose(now, ConnectionError::Reset);
        }
        while let Some((received, mut datagram)) = self.take_kept() {
            self.handle_datagram(now, received, &mut datagram);
        }
    }

    /// What came too early, once it can be read.
    fn take_kept(&mut self) -> Option<(Received, Vec<u8>)> {
        let complete = self.is_complete();
        let early = complete.then(|| self.early.take()).flatten();
        early.or_else(|| self.zero_rtt.take_kept())
    }

    /// A client knows where its server is (RFC 9000 §9).
    fn is_from_a_stranger(&self, received: &Received) -> bool {
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
            && carrier.bytes < self.paths.full_datagram()
        {
            // RFC 9000 §14.1, for servers alone. The endpoint sees to those that begin connections.
            self.stats.packets_dropped += 1;
            return false;
        }
        match self.open(now, found, packet) {
            Ok(opened) => {
                self.stats.packets_received += 1;
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
            PacketType::OneRtt => self.is_complete(),
            PacketType::ZeroRtt => self.side.is_server() && self.is_from_peer(found),
            // A client's packets have no tokens to give (RFC 9000 §17.2.2).
            PacketType::Initial => {
                (self.side.is_server() || found.token.is_empty()) && self.is_from_peer(found)
            }
            PacketType::Handshake => self.is_from_peer(found),
        };
        if !acceptable {
            return Err(Unopened::Dropped);
        }
        let pto = self.pto();
        self.spaces.open(now, pto, found, packet)
    }

    /// Long headers must keep the source id of the first (RFC 9000 §7.2).
    fn is_from_peer(&self, found: &Protected) -> bool {
        !self.parameters.peer_id_known || found.scid == self.parameters.seen.initial_source
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
        if self.side.is_client() && found.ty.is_long() && !self.parameters.peer_id_known {
            self.parameters.peer_id_known = true;
            self.parameters.seen.initial_source = found.scid;
            self.control.remote_ids.set_first(found.scid);
        }
        if !opened.reserved_bits_ok {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "reserved bits of a packet header are set",
            ));
        }
        if self.spaces.received(space).is_duplicate(opened.number) {
            self.stats.packets_duplicate += 1;
            return Ok(());
        }
        self.stats.key_updates += u64::from(opened.peer_updated);
        self.stats.early_packets_received += u64::from(found.ty == PacketType::ZeroRtt);
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
        // Only in answer to the first Initial, and only if it names our ids and not our version
        // (RFC 9000 §6.2).
        let Ok(packet) = VersionNegotiation::decode(datagram) else {
            return;
        };
        let ours = packet.scid == self.parameters.seen.original_destination.as_slice()
            && self
                .control
                .local_ids
                .iter()
                .any(|id| id.as_slice() == packet.dcid);
        let early = self.side.is_client()
            && !self.parameters.peer_id_known
            && self.parameters.seen.retry_source.is_none();
        if ours && early && packet.versions().all(|v| v != version::V1) {
            self.lose(now, ConnectionError::VersionMismatch);
        }
    }

    fn on_retry(&mut self, now: Instant, datagram: &[u8], retry: &crate::wire::packet::Retry) {
        let seen = &self.parameters.seen;
        let first =
            self.side.is_client() && !self.parameters.peer_id_known && seen.retry_source.is_none();
        let (Some(body), Some(tag), Some(token)) = (
            datagram.get(..retry.tag.start),
            datagram.get(retry.tag.clone()),
            datagram.get(retry.token.clone()),
        ) else {
            return;
        };
        let original = seen.original_destination;
        if !first
            || token.is_empty()
            || retry.scid == original
            || self.initial_crypto.retry_tag(original.as_slice(), body) != tag
        {
            self.stats.packets_dropped += 1;
            return;
        }
        if token.len() > parameters::longest_token(&self.config) {
            // Packets without it are answered with another Retry.
            self.lose(now, ConnectionError::TokenTooLong(token.len()));
            return;
        }
        self.parameters.seen.retry_source = Some(retry.scid);
        self.parameters.token = token.to_vec();
        self.control.remote_ids.set_first(retry.scid);
        let keys = self
            .initial_crypto
            .initial_keys(retry.scid.as_slice(), self.side);
        self.spaces.on_retry(now, keys);
        self.handshake.resend(SpaceId::Initial);
        self.resend_early_data(now);
    }
}
