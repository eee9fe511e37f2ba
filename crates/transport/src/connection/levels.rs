//! Consequences of the handshake's progress: keys are installed and discarded, parameters are
//! applied, and early data is accepted or refused.

use super::Event;
use super::handshake::EarlyDecision;
use super::lifecycle::Lifecycle;
use super::outbox::Outbox;
use super::paths::Paths;
use super::sources::Sources;
use super::spaces::PacketSpaces;
use super::timers::Timer;
use crate::Instant;
use crate::crypto::Random;
use crate::streams::PeerLimits;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};

/// The parts that progress of the handshake changes, for one pass.
pub(super) struct Levels<'a> {
    pub(super) now: Instant,
    /// Number of packets after which 1-RTT keys are updated.
    pub(super) update_after: u64,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) outbox: &'a mut Outbox,
    pub(super) random: &'a mut Random,
}

impl Levels<'_> {
    /// Lets the session write messages, installs its keys, and applies the parameters that it has
    /// received.
    ///
    /// # Errors
    /// Returns the error of the peer's handshake.
    pub(super) fn drive(&mut self) -> Result<(), TransportError> {
        let handshake = &mut self.sources.handshake;
        handshake.write(|change| self.spaces.install(change, self.update_after))?;
        // A server decides on early data as soon as it has read the ClientHello.
        if self.spaces.keys.has(SpaceId::Handshake)
            && let Some(keys) = handshake.take_early_keys()
        {
            self.spaces.keys.set_early(keys);
        }
        if handshake.read_parameters()? {
            self.settle_early_data()?;
            self.on_peer_parameters();
            self.outbox.push(Event::HandshakeDataReady);
        }
        // [9000 19.20 complete-first]
        if self.sources.handshake.complete_now()? {
            self.on_complete()?;
        }
        Ok(())
    }

    fn on_peer_parameters(&mut self) {
        let Some(peer) = self.sources.handshake.peer() else {
            return;
        };
        self.sources.streams.set_peer_limits(peer.into());
        let silence = self.lifecycle.on_peer_timeout(peer.max_idle_timeout);
        self.spaces.recovery.set_idle_timeout(silence);
        self.paths.set_peer_mtu(self.now, peer.max_udp_payload_size);
        self.spaces
            .on_peer_parameters(peer.max_ack_delay, peer.min_ack_delay);
        self.sources.control.on_peer_parameters(peer);
        let feedback = &mut self.paths.path.feedback;
        if feedback.offered() {
            // A peer that doesn't list any kinds doesn't read any, regardless of an earlier
            // connection.
            let kinds = peer.explicit_feedback.as_ref();
            feedback.negotiate(kinds.map_or(&[], |kinds| kinds.as_slice()));
        }
    }

    fn on_complete(&mut self) -> Result<(), TransportError> {
        let now = self.now;
        // [9001 8.2 missing-parameters]
        if self.sources.handshake.peer().is_none() {
            // The alert is missing_extension (RFC 9001 §8.2).
            return Err(TransportError::new(
                TransportErrorCode::crypto(109),
                "the peer sent no transport parameters",
            ));
        }
        if let Some(srtt) = self.spaces.recovery.rtt().srtt() {
            self.paths.path.route.on_handshake_rtt(now, srtt);
        }
        self.lifecycle.timers.stop(Timer::Handshake);
        self.outbox.push(Event::Connected);
        let control = &mut self.sources.control;
        control.issue_ids(self.random, self.outbox, 0);
        if self.sources.handshake.side().is_server() {
            // The keys of early data are discarded after packets in flight have arrived (RFC 9001
            // §4.9.3).
            // [9001 4.9.3 early-keys]
            let drop_at = now + self.spaces.pto().saturating_mul(3);
            self.spaces.keys.end_early(drop_at);
            // [9001 4.1.2 handshake-done]
            self.sources.control.send_handshake_done();
            self.on_confirmed();
        }
        Ok(())
    }

    /// Processes the confirmation of the handshake (RFC 9001 §4.1.2).
    pub(super) fn on_confirmed(&mut self) {
        if !self.sources.handshake.confirm() {
            return;
        }
        // [9001 4.9.2 handshake-keys]
        self.sources
            .discard(self.now, SpaceId::Handshake, self.spaces);
        self.spaces.on_confirmed();
        self.outbox.push(Event::Confirmed);
    }

    /// Client: permits early data if the resumed session does. This must be called at the start.
    pub(super) fn begin_early_data(&mut self) {
        let Some(start) = self.sources.handshake.begin_early_data() else {
            return;
        };
        if let Some(kinds) = &start.kinds {
            let feedback = &mut self.paths.path.feedback;
            feedback.remember(Some(kinds));
        }
        // [9000 7.4.1 remembered-only]
        self.sources.streams.set_peer_limits(start.limits);
        self.spaces.keys.set_early(start.keys);
    }

    /// Client: applies the server's decision on early data, once its parameters are available.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the server accepts early data but has lowered its limits (RFC
    /// 9000 §7.4.1).
    fn settle_early_data(&mut self) -> Result<(), TransportError> {
        let next = self.spaces.next_number();
        let decision = self.sources.handshake.settle_early_data(next);
        if decision != EarlyDecision::None {
            // [9001 5.6 no-more-early-packets]
            self.spaces.keys.discard_early();
        }
        match decision {
            EarlyDecision::None | EarlyDecision::Accepted => return Ok(()),
            EarlyDecision::Lowered => {
                return Err(TransportError::violation(
                    "the server took early data and lowered its limits",
                ));
            }
            EarlyDecision::Refused => {}
        }
        let Some(peer) = self.sources.handshake.peer() else {
            return Ok(());
        };
        let limits = PeerLimits::from(peer);
        if peer.max_datagram_frame_size == 0 {
            self.sources.datagrams.drop_unsent();
        }
        let path = &mut self.paths.path;
        self.sources
            .take_back_early_data(self.now, self.spaces, path);
        path.feedback.remember(None);
        // [9001 4.6.2 start-over]
        self.sources.streams.start_over(limits);
        Ok(())
    }
}
