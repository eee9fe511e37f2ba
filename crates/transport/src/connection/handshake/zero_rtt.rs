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

use super::Handshake;
use super::early::Early;
use crate::cid::LOCAL_ID_LEN;
use crate::connection::Received;
use crate::crypto::{DirectionalKeys, Side};
use crate::wire::frame::{Ack, types};
use crate::wire::transport_parameters::EarlyLimits;
use crate::wire::{
    PacketType, PartialDecode, TransportError, TransportErrorCode, TransportParameters,
};

/// The fate of early data.
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
    remembered: Option<Box<EarlyLimits>>,
    /// Client: packets below this number were early data that was refused.
    refused_below: Option<u64>,
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
        let held = |below| ack.ranges().any(|range| *range.start() < below);
        if self.refused_below.is_some_and(held) {
            return Err(TransportError::new(
                TransportErrorCode::PROTOCOL_VIOLATION,
                "an acknowledgement of early data that was refused",
            )
            .in_frame(types::ACK));
        }
        Ok(())
    }
}

/// Client: what early data begins with.
pub(in crate::connection) struct EarlyStart {
    pub(in crate::connection) keys: DirectionalKeys,
    /// The limits that it keeps to.
    pub(in crate::connection) limits: EarlyLimits,
    /// Kinds of signals that the server named the last time.
    pub(in crate::connection) kinds: Option<Vec<u8>>,
}

/// Client: what the server made of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum EarlyDecision {
    /// None was offered, or this is known.
    None,
    /// It takes it.
    Accepted,
    /// It takes it and has lowered its limits (RFC 9000 §7.4.1).
    Lowered,
    /// It does not take it.
    Refused,
}

impl Handshake {
    /// True at a server that may take early data and has not read whether there is some.
    #[must_use]
    pub const fn may_take_early_data(&self) -> bool {
        self.zero_rtt.undecided
    }

    /// The fate of early data (0-RTT).
    #[must_use]
    pub const fn early_data(&self) -> EarlyData {
        self.zero_rtt.state
    }

    /// Client: the limits of early data, while they rule.
    pub(in crate::connection) fn remembered(&self) -> Option<&EarlyLimits> {
        self.zero_rtt.remembered.as_deref()
    }

    /// Data packets were acknowledged.
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION if they held early data that the peer refused (RFC 9001 §4.6.2).
    pub(in crate::connection) fn check_ack(&self, ack: &Ack<'_>) -> Result<(), TransportError> {
        self.zero_rtt.check_ack(ack)
    }

    /// Client, at its start: if it resumes a session that allows early data, that may be sent from
    /// now on.
    pub(in crate::connection) fn begin_early_data(&mut self) -> Option<EarlyStart> {
        let keys = self.session.zero_rtt_keys()?;
        let remembered = self.session.remembered_parameters()?;
        let remembered = TransportParameters::decode(remembered, Side::Server).ok()?;
        let limits = EarlyLimits::from(&remembered);
        self.zero_rtt.remembered = Some(Box::new(limits));
        self.zero_rtt.state = EarlyData::Offered;
        let kinds = remembered.explicit_feedback.as_ref();
        Some(EarlyStart {
            keys,
            limits,
            kinds: kinds.map(|kinds| kinds.as_slice().to_vec()),
        })
    }

    /// Client: the server's parameters are known, and what it makes of early data. `next`: number
    /// of the next packet.
    pub(in crate::connection) fn settle_early_data(&mut self, next: u64) -> EarlyDecision {
        let (Some(remembered), Some(peer)) =
            (self.zero_rtt.remembered.take(), &self.parameters.peer)
        else {
            return EarlyDecision::None;
        };
        if self.session.early_data_accepted() {
            self.zero_rtt.state = EarlyData::Accepted;
            return match EarlyLimits::from(peer).include(&remembered) {
                true => EarlyDecision::Accepted,
                false => EarlyDecision::Lowered,
            };
        }
        self.zero_rtt.state = EarlyData::Refused;
        self.zero_rtt.refused_below = Some(next);
        EarlyDecision::Refused
    }

    /// Server: the ClientHello is read. The keys of early data, if it is taken; once.
    pub(in crate::connection) fn take_early_keys(&mut self) -> Option<DirectionalKeys> {
        if !core::mem::replace(&mut self.zero_rtt.undecided, false) {
            return None;
        }
        let keys = self.session.zero_rtt_keys()?;
        self.zero_rtt.state = EarlyData::Accepted;
        Some(keys)
    }

    #[cfg(test)]
    pub(in crate::connection) fn set_remembered(&mut self, limits: EarlyLimits) {
        self.zero_rtt.remembered = Some(Box::new(limits));
    }
}
