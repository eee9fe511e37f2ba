//! 0-RTT: what a client sends before the handshake is complete, with keys and within limits of an
//! earlier connection, and what a server makes of it (RFC 9001 §4.6, RFC 9000 §7.4.1).
//!
//! ```text
//!   client: Offered ─ the server's parameters come ─┬─► Accepted
//!                                                   └─► Refused: all of it leaves again as 1-RTT
//!   server: (ClientHello read) ─┬─► Accepted: 0-RTT packets open, and answers leave at once
//!                               └─► Refused or not offered: they are dropped and counted
//! ```

use pathmark_shim::frame::declared_len;

use super::early::Early;
use super::spaces::PacketSpaces;
use super::{Connection, Received, parameters};
use crate::Instant;
use crate::cid::LOCAL_ID_LEN;
use crate::crypto::Side;
use crate::recovery::Probe;
use crate::wire::frame::{Ack, types};
use crate::wire::transport_parameters::EarlyLimits;
use crate::wire::{
    PacketType, PartialDecode, SpaceId, TransportError, TransportErrorCode, TransportParameters,
};

/// What became of early data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// There is none: the client resumes no session that allows it, or (at a server) it offered
    /// none, or it was refused.
    #[default]
    None,
    /// Client: it is sent; the server's decision has not arrived.
    Offered,
    /// The server takes it.
    Accepted,
    /// Client: the server does not take it; it is sent again as any other data.
    Refused,
}

/// 0-RTT on one connection.
#[derive(Debug, Default)]
pub(super) struct ZeroRtt {
    state: EarlyData,
    /// Client, before the server's decision: the limits that early data keeps to.
    pub(super) remembered: Option<Box<EarlyLimits>>,
    /// Client: packets below this number were early data that was refused.
    refused_below: u64,
    /// Server: the ClientHello that decides on early data is not read.
    undecided: bool,
    /// Server: 0-RTT packets that came before that.
    kept: Early,
}

impl ZeroRtt {
    /// `may_take`: at a server, that it may take early data.
    pub(super) fn new(may_take: bool) -> Self {
        Self {
            undecided: may_take,
            ..Self::default()
        }
    }

    /// Client: the limits of early data, while they rule.
    pub(super) fn remembered(&self) -> Option<&EarlyLimits> {
        self.remembered.as_deref()
    }

    /// Keeps a datagram that begins with a 0-RTT packet, or with the shim in front of one, which
    /// nothing opens yet, as long as there is room. False for any other.
    pub(super) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let at = declared_len(datagram).unwrap_or(0);
        self.undecided
            && matches!(
                PartialDecode::new(datagram.get(at..).unwrap_or(&[]), LOCAL_ID_LEN),
                Ok(PartialDecode::Protected(found)) if found.ty == PacketType::ZeroRtt
            )
            && self.kept.store(received, datagram)
    }

    /// The first of them, once it is known what to make of them.
    pub(super) fn take_kept(&mut self) -> Option<(Received, Vec<u8>)> {
        if self.undecided {
            return None;
        }
        self.kept.take()
    }

    /// Data packets were acknowledged.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if the peer refused them (RFC 9001 §4.6.2).
    pub(super) fn check_ack(&self, ack: &Ack<'_>) -> Result<(), TransportError> {
        let below = self.refused_below;
        if below > 0 && ack.ranges().any(|range| *range.start() < below) {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "an acknowledgement of early data that was refused",
            )
            .in_frame(types::ACK));
        }
        Ok(())
    }
}

impl Connection {
    /// True at a server that may take early data and has not read whether there is some.
    #[must_use]
    pub const fn may_take_early_data(&self) -> bool {
        self.zero_rtt.undecided
    }

    /// What became of early data (0-RTT).
    #[must_use]
    pub const fn early_data(&self) -> EarlyData {
        self.zero_rtt.state
    }

    /// Data may be sent: in 1-RTT packets, or at a client in 0-RTT ones. A server that takes early
    /// data answers it before the handshake is complete.
    #[inline]
    pub(super) fn may_send_data(&self) -> bool {
        self.is_complete()
            || self.spaces.keys().has_early()
                && (self.side.is_client() || self.spaces.keys().has(SpaceId::Data))
    }

    /// Client, at its start: if it resumes a session that allows early data, that may be sent from
    /// now on.
    pub(super) fn begin_early_data(&mut self) {
        let session = self.handshake.session();
        let Some(keys) = session.zero_rtt_keys() else {
            return;
        };
        let remembered = session.remembered_parameters();
        let remembered = remembered.and_then(|p| TransportParameters::decode(p, Side::Server).ok());
        let Some(remembered) = remembered else {
            return;
        };
        if let Some(kinds) = &remembered.explicit_feedback {
            let feedback = self.paths.path_mut().feedback_mut();
            feedback.remember(Some(kinds.as_slice()));
        }
        let limits = EarlyLimits::from(&remembered);
        self.streams
            .set_peer_limits(parameters::early_limits(&limits));
        self.spaces.keys_mut().set_early(keys);
        self.zero_rtt.remembered = Some(Box::new(limits));
        self.zero_rtt.state = EarlyData::Offered;
    }

    /// Client: the server's parameters are known, and what it makes of early data.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if it takes it and has lowered its limits (RFC 9000 §7.4.1).
    pub(super) fn settle_early_data(&mut self, now: Instant) -> Result<(), TransportError> {
        let (Some(remembered), Some(peer)) =
            (self.zero_rtt.remembered.take(), &self.parameters.peer)
        else {
            return Ok(());
        };
        self.spaces.keys_mut().discard_early();
        if self.handshake.session().early_data_accepted() {
            self.zero_rtt.state = EarlyData::Accepted;
            if EarlyLimits::from(peer).include(&remembered) {
                return Ok(());
            }
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "the server took early data and lowered its limits",
            ));
        }
        let limits = parameters::peer_limits(peer);
        if peer.max_datagram_frame_size == 0 {
            self.datagrams.drop_unsent();
        }
        self.zero_rtt.state = EarlyData::Refused;
        self.zero_rtt.refused_below = self.spaces.next_number();
        self.take_back_early_data(now);
        self.paths.path_mut().feedback_mut().remember(None);
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

    /// Client: a probe timeout of the handshake. What was lost with its packets is best sent again
    /// with the probes (RFC 9002 §6.2.4).
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
        if !self.zero_rtt.undecided || !self.spaces.keys().has(SpaceId::Handshake) {
            return;
        }
        self.zero_rtt.undecided = false;
        if let Some(keys) = self.handshake.session().zero_rtt_keys() {
            self.spaces.keys_mut().set_early(keys);
            self.zero_rtt.state = EarlyData::Accepted;
        }
    }

    /// Server: the handshake is complete. The keys of early data go once what was under way has
    /// come (RFC 9001 §4.9.3).
    pub(super) fn end_early_data(&mut self, now: Instant) {
        let drop_at = now + self.pto().saturating_mul(3);
        self.spaces.keys_mut().end_early(drop_at);
    }
}
