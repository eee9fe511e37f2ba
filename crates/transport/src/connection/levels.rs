//! The handshake's progress and what follows from it: keys that come and go, parameters that apply.

use super::timers::Timer;
use super::{Connection, Event, handshake};
use crate::crypto::ResetToken;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

impl Connection {
    /// CRYPTO data arrived.
    pub(super) fn on_crypto(
        &mut self,
        now: Instant,
        space: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        self.handshake.on_crypto(space, offset, data)?;
        self.drive_handshake(now)
    }

    /// Lets the session write, takes its keys, and acts on what it has learnt.
    pub(super) fn drive_handshake(&mut self, now: Instant) -> Result<(), TransportError> {
        let spaces = &mut self.spaces;
        let update_after = self.config.key_update_after;
        self.handshake
            .write(|change| spaces.install(change, update_after))?;
        self.take_early_keys();
        if self.handshake.read_parameters()? {
            self.settle_early_data(now)?;
            self.on_peer_parameters(now);
            self.outbox.push(Event::HandshakeDataReady);
        }
        // [9000 19.20 complete-first]
        if self.handshake.complete_now()? {
            self.on_complete(now)?;
        }
        Ok(())
    }

    fn on_peer_parameters(&mut self, now: Instant) {
        let Some(peer) = self.handshake.peer() else {
            return;
        };
        self.streams.set_peer_limits(handshake::peer_limits(peer));
        let silence = self.lifecycle.on_peer_timeout(peer.max_idle_timeout);
        self.spaces.recovery_mut().set_idle_timeout(silence);
        self.paths.set_peer_mtu(now, peer.max_udp_payload_size);
        self.spaces
            .on_peer_parameters(peer.max_ack_delay, peer.min_ack_delay);
        self.control
            .local_ids
            .on_peer_limit(peer.active_connection_id_limit);
        if let Some(token) = peer.stateless_reset_token {
            self.control
                .remote_ids
                .set_first_token(ResetToken::new(token));
        }
        if let Some(preferred) = &peer.preferred_address {
            let token = ResetToken::new(preferred.reset_token);
            self.control
                .remote_ids
                .set_preferred(preferred.connection_id, token);
        }
        let feedback = self.paths.path_mut().feedback_mut();
        if feedback.offered() {
            // A peer that names none reads none, whatever it read in an earlier connection.
            let kinds = peer.explicit_feedback.as_ref();
            feedback.negotiate(kinds.map_or(&[], |kinds| kinds.as_slice()));
        }
    }

    fn on_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        // [9001 8.2 missing-parameters]
        if self.handshake.peer().is_none() {
            // RFC 9001 §8.2: missing_extension.
            return Err(TransportError::new(
                TransportErrorCode::crypto(109),
                "the peer sent no transport parameters",
            ));
        }
        if let Some(srtt) = self.spaces.recovery().rtt().srtt() {
            self.paths.path_mut().on_handshake_rtt(now, srtt);
        }
        self.lifecycle.timers_mut().stop(Timer::Handshake);
        self.outbox.push(Event::Connected);
        self.issue_ids();
        if self.side.is_server() {
            self.end_early_data(now);
            // [9001 4.1.2 handshake-done]
            self.control.send_handshake_done();
            self.on_confirmed(now);
        }
        Ok(())
    }

    /// The handshake is confirmed (RFC 9001 §4.1.2).
    pub(super) fn on_confirmed(&mut self, now: Instant) {
        if !self.handshake.confirm() {
            return;
        }
        // [9001 4.9.2 handshake-keys]
        self.discard(now, SpaceId::Handshake);
        self.spaces.on_confirmed();
        self.outbox.push(Event::Confirmed);
    }

    /// Keys of `space` go, with all that waits for them (RFC 9001 §4.9).
    pub(super) fn discard(&mut self, now: Instant, space: SpaceId) {
        if self.spaces.discard(now, space) {
            self.handshake.discard(space);
        }
    }

    /// Server: the client still sends Initial packets that ask for an answer, so it may lack some
    /// of ours: they are sent again before a probe timeout (RFC 9002 §6.2.3), behind what
    /// the amplification limit has held back. A client's probes come in pairs, and also where
    /// nothing is lost but a round trip takes longer than its first probe timeout. Data that is
    /// due again already does not count.
    pub(super) fn repeat_first_flight(&mut self, now: Instant) {
        if !self.handshake.may_repeat() {
            return;
        }
        let mut repeats = false;
        for space in [SpaceId::Initial, SpaceId::Handshake] {
            for packet in self.spaces.overdue(now, space) {
                for range in packet.frames.crypto() {
                    repeats |= self.handshake.repeat(space, range.clone());
                }
            }
        }
        if repeats {
            self.handshake.on_repeated();
        }
    }

    /// Gives the peer as many of our connection ids as it stores.
    pub(super) fn issue_ids(&mut self) {
        while let Some(id) = self.control.local_ids.issue(&mut self.random) {
            self.outbox.add_id(id);
        }
    }

    #[inline]
    pub(super) fn pto(&self) -> Duration {
        self.spaces.pto()
    }

    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        self.handshake.is_complete()
    }
}
