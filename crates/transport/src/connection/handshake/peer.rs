//! The peer's part in the handshake: its connection ID, its transport parameters, and a Retry.

use super::Handshake;
use crate::connection::Received;
use crate::crypto::Keys;
use crate::wire::packet::{Protected, Retry, VersionNegotiation, version};
use crate::wire::{ConnectionId, PacketType, TransportError, TransportParameters};

/// The response to a Retry.
pub(in crate::connection) enum RetryAnswer {
    /// The Retry is dropped.
    Drop,
    /// Its token of this many bytes leaves no room in Initial packets, and packets without it would
    /// be answered with another Retry.
    TooLong(usize),
    /// Initial packets begin again with these keys, to this ID.
    Again(Keys, ConnectionId),
}

impl Handshake {
    /// Returns the peer's parameters, once they were read.
    #[inline]
    pub(in crate::connection) const fn peer(&self) -> Option<&TransportParameters> {
        self.parameters.peer.as_ref()
    }

    /// Returns true if this side must never [`migrate`](crate::Connection::migrate), because it is
    /// a server or its server is known to have sent `disable_active_migration` (RFC 9000 §9,
    /// §18.2).
    pub fn is_migration_forbidden(&self) -> bool {
        let peer = self.parameters.peer.as_ref();
        !self.side.is_client() || peer.is_some_and(|p| p.disable_active_migration)
    }

    /// Returns the peer's unit of ACK delays, as a power of two in microseconds.
    #[inline]
    pub(in crate::connection) fn peer_ack_delay_exponent(&self) -> u32 {
        self.parameters.peer_ack_delay_exponent()
    }

    /// Reads and checks the peer's parameters, if the session has them. Returns true only once.
    ///
    /// # Errors
    /// Returns TRANSPORT_PARAMETER_ERROR if they are invalid.
    pub(in crate::connection) fn read_parameters(&mut self) -> Result<bool, TransportError> {
        if self.parameters.peer.is_some() {
            return Ok(false);
        }
        let Some(bytes) = self.session.peer_transport_parameters() else {
            return Ok(false);
        };
        self.parameters.read(bytes, self.side.peer())?;
        Ok(true)
    }

    /// Returns the token of Initial packets.
    pub(in crate::connection) fn token(&self) -> &[u8] {
        &self.parameters.token
    }

    /// Returns true if a long header has the source ID of the first, as it must (RFC 9000 §7.2).
    pub(in crate::connection) fn is_from_peer(&self, source: &ConnectionId) -> bool {
        // [9000 7.2 client-drops-other-source] [9000 7.2 server-follows-first]
        !self.parameters.peer_id_known || *source == self.parameters.seen.initial_source
    }

    /// Returns true if a packet with this header may be decrypted now.
    #[inline]
    pub(in crate::connection) fn accepts(&self, found: &Protected) -> bool {
        match found.ty {
            // A server must not read 1-RTT packets before it has received the client's Finished
            // (RFC 9001 §5.7).
            // [9001 5.7 not-before-complete]
            PacketType::OneRtt => self.is_complete(),
            // [9001 5.6 client-opens-none]
            PacketType::ZeroRtt => self.side.is_server() && self.is_from_peer(&found.scid),
            // A server's Initial packets must not contain a token (RFC 9000 §17.2.2).
            // [9000 17.2.2 no-server-token]
            PacketType::Initial => {
                (self.side.is_server() || found.token.is_empty()) && self.is_from_peer(&found.scid)
            }
            PacketType::Handshake => self.is_from_peer(&found.scid),
        }
    }

    /// Processes the source ID of a decrypted packet with a long header. Returns true if the peer
    /// has chosen its ID with this packet.
    pub(in crate::connection) fn on_source(&mut self, source: ConnectionId) -> bool {
        // [9000 7.2 one-change]
        let chosen = self.side.is_client() && !self.parameters.peer_id_known;
        if chosen {
            self.parameters.peer_id_known = true;
            self.parameters.seen.initial_source = source;
        }
        chosen
    }

    /// Returns true if a client's first Initial is the only packet that can have been answered.
    fn is_first(&self) -> bool {
        self.side.is_client()
            && !self.parameters.peer_id_known
            && self.parameters.seen.retry_source.is_none()
    }

    /// Returns true if the server doesn't support any of our versions. This is only accepted in
    /// response to the first Initial, and only if the packet has its IDs and doesn't list our
    /// version (RFC 9000 §6.2). `ids` are ours.
    pub(in crate::connection) fn is_refusal<'a>(
        &self,
        packet: &VersionNegotiation<'_>,
        mut ids: impl Iterator<Item = &'a ConnectionId>,
    ) -> bool {
        let server = self.parameters.seen.original_destination;
        let ours = packet.scid == server.as_slice() && ids.any(|id| id.as_slice() == packet.dcid);
        // [9000 6.2 late-negotiation] [9000 6.2 own-version-listed]
        ours && self.is_first() && packet.versions().all(|v| v != version::V1)
    }

    /// Processes a Retry. Tokens may have at most `longest` bytes.
    pub(in crate::connection) fn on_retry(
        &mut self,
        datagram: &[u8],
        retry: &Retry,
        longest: usize,
    ) -> Option<RetryAnswer> {
        let body = datagram.get(..retry.tag.start)?;
        let tag = datagram.get(retry.tag.clone())?;
        let token = datagram.get(retry.token.clone())?;
        let original = self.parameters.seen.original_destination;
        // [9000 17.2.5.2 first-retry]
        if !self.is_first()
            // [9000 17.2.5.2 retry-without-token]
            || token.is_empty()
            // [9000 17.2.5.1 other-id]
            || retry.scid == original
            // [9000 17.2.5.2 retry-tag]
            || self.initial_crypto.retry_tag(original.as_slice(), body) != tag
        {
            return Some(RetryAnswer::Drop);
        }
        if token.len() > longest {
            return Some(RetryAnswer::TooLong(token.len()));
        }
        self.parameters.seen.retry_source = Some(retry.scid);
        // [9000 8.1.3 retry-token-once]
        self.parameters.token = token.to_vec();
        let id = retry.scid.as_slice();
        let keys = self.initial_crypto.initial_keys(id, self.side);
        Some(RetryAnswer::Again(keys, retry.scid))
    }

    /// Keeps a datagram that arrives before it can be read, as long as there's room. Returns false
    /// for any other.
    pub(in crate::connection) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        !self.is_complete()
            && (self.early.keep(received, datagram) || self.zero_rtt.keep(received, datagram))
    }

    /// Returns a datagram that was kept, once it can be read.
    #[inline]
    pub(in crate::connection) fn take_kept(&mut self) -> Option<(Received, Vec<u8>)> {
        let complete = self.is_complete();
        let early = complete.then(|| self.early.take()).flatten();
        early.or_else(|| self.zero_rtt.take_kept())
    }

    #[cfg(test)]
    pub(in crate::connection) const fn parameters_mut(&mut self) -> &mut super::Parameters {
        &mut self.parameters
    }
}
