//! Data ahead of the handshake's end. 0-RTT is the data that a client sends before the handshake is
//! complete, with keys and within limits of an earlier connection, and the server's decision on it
//! (RFC 9001 §4.6, RFC 9000 §7.4.1).
//!
//! ```text
//!   client: Offered ─ the server's parameters arrive ─┬─► Accepted
//!                                                     └─► Refused: all is sent again as 1-RTT
//!   server: (ClientHello read) ─┬─► Accepted: 0-RTT packets are decrypted and answered at once
//!                               └─► Refused or not offered: they are dropped and counted
//! ```
//!
//! 1-RTT packets that arrive too early are kept until they can be read (RFC 9001 §5.7). A port may
//! queue datagrams with shims separately from those of the handshake, so it is normal that the
//! first data arrives before its end.

use std::collections::VecDeque;

use pathmark_shim::frame::{self, declared_len};

use super::Handshake;
use crate::cid::LOCAL_ID_LEN;
use crate::connection::Received;
use crate::crypto::{DirectionalKeys, Side};
use crate::wire::frame::{Ack, types};
use crate::wire::packet::LONG_FORM;
use crate::wire::transport_parameters::PeerLimits;
use crate::wire::{PacketType, PartialDecode, TransportError, TransportParameters};

/// The fate of early data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyData {
    /// There's none. A client doesn't resume a session that allows it; at a server, it wasn't
    /// offered or was refused.
    #[default]
    None,
    /// Client: it is being sent, and the server's decision hasn't arrived.
    Offered,
    /// The server accepts it.
    Accepted,
    /// Client: the server doesn't accept it, so it is sent again like any other data.
    Refused,
}

/// 0-RTT on one connection.
#[derive(Debug, Default)]
pub(super) struct ZeroRtt {
    state: EarlyData,
    /// Client: the limits of early data, before the server's decision.
    remembered: Option<Box<PeerLimits>>,
    /// Client: packets below this number were early data that was refused.
    refused_below: Option<u64>,
    /// Server: whether the ClientHello, which decides on early data, hasn't been read yet.
    undecided: bool,
    /// Server: 0-RTT packets that arrived before the ClientHello.
    kept: Early,
}

impl ZeroRtt {
    /// Creates the state. `may_take` is true at a server that may accept early data.
    pub(super) fn new(may_take: bool) -> Self {
        Self {
            undecided: may_take,
            ..Self::default()
        }
    }

    /// Keeps a datagram that begins with a 0-RTT packet, with or without a shim, and can't be
    /// decrypted yet, as long as there's room. Returns false for any other.
    pub(super) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let at = declared_len(datagram).unwrap_or(0);
        self.undecided
            && matches!(
                PartialDecode::new(datagram.get(at..).unwrap_or(&[]), LOCAL_ID_LEN),
                Ok(PartialDecode::Protected(found)) if found.ty == PacketType::ZeroRtt
            )
            && self.kept.store(received, datagram)
    }

    /// Returns the oldest kept datagram, once early data was accepted or refused.
    pub(super) fn take_kept(&mut self) -> Option<(Received, Vec<u8>)> {
        if self.undecided {
            return None;
        }
        self.kept.take()
    }

    /// Checks an acknowledgement of the Data space.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if the peer acknowledges packets that it refused (RFC 9001
    /// §4.6.2).
    pub(super) fn check_ack(&self, ack: &Ack<'_>) -> Result<(), TransportError> {
        let held = |below| ack.ranges().any(|range| *range.start() < below);
        if self.refused_below.is_some_and(held) {
            return Err(TransportError::violation(
                "an acknowledgement of early data that was refused",
            )
            .in_frame(types::ACK));
        }
        Ok(())
    }
}

/// Client: everything needed to begin sending early data.
pub(in crate::connection) struct EarlyStart {
    pub(in crate::connection) keys: DirectionalKeys,
    /// The limits of early data.
    pub(in crate::connection) limits: PeerLimits,
    /// Kinds of signals that the server listed the last time.
    pub(in crate::connection) kinds: Option<Vec<u8>>,
}

/// Client: the server's decision on early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum EarlyDecision {
    /// None, because early data wasn't offered or the decision is known already.
    None,
    /// The server accepts it.
    Accepted,
    /// The server accepts it but has lowered its limits (RFC 9000 §7.4.1).
    Lowered,
    /// The server doesn't accept it.
    Refused,
}

impl Handshake {
    /// Returns true at a server that may accept early data and hasn't read yet whether there is
    /// any.
    pub const fn may_take_early_data(&self) -> bool {
        self.zero_rtt.undecided
    }

    /// Returns the fate of early data (0-RTT).
    pub const fn early_data(&self) -> EarlyData {
        self.zero_rtt.state
    }

    /// Client: returns the limits of early data, while they apply.
    pub(in crate::connection) fn remembered(&self) -> Option<&PeerLimits> {
        self.zero_rtt.remembered.as_deref()
    }

    /// Checks an acknowledgement of the Data space.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if it acknowledges early data that the peer refused (RFC 9001
    /// §4.6.2).
    pub(in crate::connection) fn check_ack(&self, ack: &Ack<'_>) -> Result<(), TransportError> {
        self.zero_rtt.check_ack(ack)
    }

    /// Client: permits early data if the resumed session does. This must be called at the start.
    pub(in crate::connection) fn begin_early_data(&mut self) -> Option<EarlyStart> {
        let keys = self.session.zero_rtt_keys()?;
        let remembered = self.session.remembered_parameters()?;
        let remembered = TransportParameters::decode(remembered, Side::Server).ok()?;
        let limits = PeerLimits::from(&remembered);
        self.zero_rtt.remembered = Some(Box::new(limits));
        self.zero_rtt.state = EarlyData::Offered;
        let kinds = remembered.explicit_feedback.as_ref();
        Some(EarlyStart {
            keys,
            limits,
            kinds: kinds.map(|kinds| kinds.as_slice().to_vec()),
        })
    }

    /// Client: determines the server's decision on early data, once its parameters are available.
    /// `next` is the number of the next packet.
    pub(in crate::connection) fn settle_early_data(&mut self, next: u64) -> EarlyDecision {
        let (Some(remembered), Some(peer)) =
            (self.zero_rtt.remembered.take(), &self.parameters.peer)
        else {
            return EarlyDecision::None;
        };
        if self.session.early_data_accepted() {
            self.zero_rtt.state = EarlyData::Accepted;
            return if PeerLimits::from(peer).include(&remembered) {
                EarlyDecision::Accepted
            } else {
                EarlyDecision::Lowered
            };
        }
        self.zero_rtt.state = EarlyData::Refused;
        self.zero_rtt.refused_below = Some(next);
        EarlyDecision::Refused
    }

    /// Server: returns the keys of early data, if it is accepted, after reading the ClientHello.
    /// This only returns them once.
    pub(in crate::connection) fn take_early_keys(&mut self) -> Option<DirectionalKeys> {
        if !core::mem::replace(&mut self.zero_rtt.undecided, false) {
            return None;
        }
        let keys = self.session.zero_rtt_keys()?;
        self.zero_rtt.state = EarlyData::Accepted;
        Some(keys)
    }

    #[cfg(test)]
    pub(in crate::connection) fn set_remembered(&mut self, limits: PeerLimits) {
        self.zero_rtt.remembered = Some(Box::new(limits));
    }
}

/// Maximum number of datagrams kept, and of their bytes: about an initial window.
const MOST: usize = 10;
const MOST_BYTES: usize = 15_000;

/// Datagrams that arrived too early. Most connections don't have any.
#[derive(Debug, Default)]
pub(super) struct Early(Option<Box<EarlyDatagrams>>);

#[derive(Debug, Default)]
struct EarlyDatagrams {
    datagrams: VecDeque<(Received, Vec<u8>)>,
    bytes: usize,
}

impl Early {
    /// Keeps a datagram that only contains a 1-RTT packet, as long as there's room. Returns false
    /// for any other.
    pub(super) fn keep(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let at = frame::declared_len(datagram).unwrap_or(0);
        if datagram.get(at).is_none_or(|first| first & LONG_FORM != 0) {
            return false;
        }
        self.store(received, datagram)
    }

    /// Keeps a datagram as long as there's room.
    pub(super) fn store(&mut self, received: &Received, datagram: &[u8]) -> bool {
        let kept = self.0.get_or_insert_default();
        if kept.datagrams.len() >= MOST || kept.bytes + datagram.len() > MOST_BYTES {
            return false;
        }
        kept.bytes += datagram.len();
        kept.datagrams.push_back((*received, datagram.to_vec()));
        true
    }

    /// Returns the first datagram. When none is left, the memory is freed.
    pub(super) fn take(&mut self) -> Option<(Received, Vec<u8>)> {
        let taken = self.0.as_mut()?.datagrams.pop_front();
        if taken.is_none() {
            self.0 = None;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::Ecn;

    #[test]
    fn keeps_an_initial_window_of_short_headers_in_order() {
        let received = Received {
            remote: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            local: None,
            ecn: Ecn::NotEct,
            ttl: None,
        };
        let mut early = Early::default();
        assert!(!early.keep(&received, &[0xc0; 1200]), "a long header");
        assert!(!early.keep(&received, &[]));
        assert!(early.take().is_none());
        for number in 0..20 {
            assert_eq!(early.keep(&received, &[0x40, number]), number < 10);
        }
        for number in 0..10 {
            assert_eq!(early.take().unwrap().1, [0x40, number]);
        }
        assert!(early.take().is_none() && early.0.is_none());
        for number in 0..20 {
            assert_eq!(early.keep(&received, &[0x40; 7500]), number < 2);
        }
    }
}
