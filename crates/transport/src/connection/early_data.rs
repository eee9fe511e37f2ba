//! 0-RTT, as far as it concerns more than the handshake: keys, limits, and what is sent again.

use super::handshake::{self, EarlyDecision};
use super::spaces::PacketSpaces;
use super::{Connection, EarlyData};
use crate::Instant;
use crate::recovery::Probe;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};

impl Connection {
    /// True at a server that may take early data and has not read whether there is some.
    #[must_use]
    pub const fn may_take_early_data(&self) -> bool {
        self.handshake.may_take_early_data()
    }

    /// What became of early data (0-RTT).
    #[must_use]
    pub const fn early_data(&self) -> EarlyData {
        self.handshake.early_data()
    }

    /// Data may be sent: in 1-RTT packets, or at a client in 0-RTT ones. A server that takes early
    /// data answers it before the handshake is complete.
    #[inline]
    pub(super) fn may_send_data(&self) -> bool {
        self.is_complete()
            || self.spaces.keys().has_early()
                // [9000 13.2.6 early-data-acked]
                && (self.side.is_client() || self.spaces.keys().has(SpaceId::Data))
    }

    /// Client, at its start: if it resumes a session that allows early data, that may be sent from
    /// now on.
    pub(super) fn begin_early_data(&mut self) {
        let Some(start) = self.handshake.begin_early_data() else {
            return;
        };
        if let Some(kinds) = &start.kinds {
            let feedback = self.paths.path_mut().feedback_mut();
            feedback.remember(Some(kinds));
        }
        self.streams
            // [9000 7.4.1 remembered-only]
            .set_peer_limits(handshake::early_limits(&start.limits));
        self.spaces.keys_mut().set_early(start.keys);
    }

    /// Client: the server's parameters are known, and what it makes of early data.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if it takes it and has lowered its limits (RFC 9000 §7.4.1).
    pub(super) fn settle_early_data(&mut self, now: Instant) -> Result<(), TransportError> {
        let next = self.spaces.next_number();
        let decision = self.handshake.settle_early_data(next);
        if decision != EarlyDecision::None {
            // [9001 5.6 no-more-early-packets]
            self.spaces.keys_mut().discard_early();
        }
        match decision {
            EarlyDecision::None | EarlyDecision::Accepted => return Ok(()),
            EarlyDecision::Lowered => {
                return Err(TransportError::new(
                    TransportErrorCode::PROTOCOL_VIOLATION,
                    "the server took early data and lowered its limits",
                ));
            }
            EarlyDecision::Refused => {}
        }
        let Some(peer) = self.handshake.peer() else {
            return Ok(());
        };
        let limits = handshake::peer_limits(peer);
        if peer.max_datagram_frame_size == 0 {
            self.datagrams.drop_unsent();
        }
        self.take_back_early_data(now);
        self.paths.path_mut().feedback_mut().remember(None);
        // [9001 4.6.2 start-over]
        self.streams.start_over(limits);
        Ok(())
    }

    /// Client: after a Retry, early data goes to the server once more; it has not seen any (RFC
    /// 9000 §17.2.5.3).
    pub(super) fn resend_early_data(&mut self, now: Instant) {
        if self.spaces.keys().has_early() {
            self.take_back_early_data(now);
        }
    }

    /// Nothing acknowledges what was sent of the Data space so far: its frames are due again.
    fn take_back_early_data(&mut self, now: Instant) {
        let Self {
            spaces,
            streams,
            control,
            paths,
            ..
        } = self;
        spaces
            .recovery_mut()
            .drain(now, SpaceId::Data, |number, packet| {
                if packet.probe == Probe::Question {
                    paths.path_mut().on_question_lost(now, number);
                }
                streams.on_lost(&packet.frames.streams);
                for frame in packet.frames.control() {
                    control.on_lost(*frame);
                }
            });
    }

    /// Client: a probe timeout of the handshake. The probes also carry the early data that was lost
    /// (RFC 9002 §6.2.4).
    pub(super) fn repeat_early_data(&mut self) {
        if self.side.is_server() || !self.spaces.keys().has_early() {
            return;
        }
        let data = self.spaces.recovery().space(SpaceId::Data);
        let sent = data.sent().iter();
        let oldest = sent.filter(|(_, packet)| packet.ack_eliciting);
        for (_, packet) in oldest.take(PacketSpaces::PROBES) {
            self.streams.on_lost(&packet.frames.streams);
        }
    }

    /// Server: once the ClientHello is read, it is known whether early data is taken.
    pub(super) fn take_early_keys(&mut self) {
        if self.spaces.keys().has(SpaceId::Handshake)
            && let Some(keys) = self.handshake.take_early_keys()
        {
            self.spaces.keys_mut().set_early(keys);
        }
    }

    /// Server: the handshake is complete. The keys of early data go once what was under way has
    /// come (RFC 9001 §4.9.3).
    pub(super) fn end_early_data(&mut self, now: Instant) {
        // [9001 4.9.3 early-keys]
        let drop_at = now + self.pto().saturating_mul(3);
        self.spaces.keys_mut().end_early(drop_at);
    }
}
