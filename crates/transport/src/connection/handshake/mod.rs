//! The cryptographic handshake: it passes CRYPTO data of the three levels to and from the
//! [`Session`], distributes the session's keys, and tracks the progress (RFC 9001 §4).

mod levels;
mod peer;
mod zero_rtt;

#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use crate::crypto::{
    ExportError, HandshakeData, HandshakeError, InitialCrypto, KeyChange, Session, Side,
};
use crate::wire::{SpaceId, TransportError, TransportErrorCode};

use levels::CryptoLevels;
pub(in crate::connection) use peer::{
    ACK_DELAY_EXPONENT, MAX_ACK_DELAY, MIN_ACK_DELAY, Parameters, RetryAnswer, ServerIds,
    idle_timeout, local, longest_token,
};
pub use zero_rtt::EarlyData;
pub(in crate::connection) use zero_rtt::EarlyDecision;
use zero_rtt::{Early, ZeroRtt};

/// Limit on CRYPTO data that is buffered because earlier data is missing. RFC 9000 §7.5 requires
/// 4096 bytes; this is enough for client certificates and long chains.
const MAX_BUFFERED: u64 = 64 * 1024;

/// Progress of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Messages are missing.
    Running,
    /// Complete on this side (RFC 9001 §4.1.1).
    Complete,
    /// Known to be complete on the other side, too (RFC 9001 §4.1.2).
    Confirmed,
}

/// The state of the handshake and the parameters that it negotiates.
pub struct Handshake {
    session: Box<dyn Session>,
    pub(in crate::connection) crypto: CryptoLevels,
    /// Level of the messages that the session writes.
    write_level: SpaceId,
    /// Highest level of which anything was read.
    read_level: SpaceId,
    progress: Progress,
    /// Buffer between session and streams, which is empty between calls.
    scratch: Vec<u8>,
    side: Side,
    initial_crypto: Arc<dyn InitialCrypto>,
    parameters: Parameters,
    /// Packets that arrived before the end of the handshake.
    early: Early,
    zero_rtt: ZeroRtt,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("side", &self.side)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

fn crypto_error(error: &HandshakeError) -> TransportError {
    TransportError::new(TransportErrorCode(error.code()), error.to_string())
        .in_frame(crate::wire::frame::types::CRYPTO)
}

fn violation(reason: &'static str) -> TransportError {
    TransportError::violation(reason).in_frame(crate::wire::frame::types::CRYPTO)
}

impl Handshake {
    pub(in crate::connection) fn new(
        side: Side,
        session: Box<dyn Session>,
        initial_crypto: Arc<dyn InitialCrypto>,
        parameters: Parameters,
    ) -> Self {
        Self {
            zero_rtt: ZeroRtt::new(session.may_take_early_data()),
            side,
            initial_crypto,
            parameters,
            early: Early::default(),
            session,
            crypto: CryptoLevels::default(),
            write_level: SpaceId::Initial,
            read_level: SpaceId::Initial,
            progress: Progress::Running,
            scratch: Vec::new(),
        }
    }

    /// Returns which end of the connection this is.
    pub(in crate::connection) const fn side(&self) -> Side {
        self.side
    }

    /// Returns everything that the handshake has negotiated so far.
    pub fn data(&self) -> HandshakeData {
        self.session.handshake_data()
    }

    /// Fills `out` with keying material for `label` and `context` that only the two sides can
    /// derive (RFC 8446 §7.5, RFC 5705). It is identical at both ends if the arguments are.
    ///
    /// # Errors
    /// Returns [`ExportError`] before the handshake is complete, or if `out` is too long.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        self.session.export_keying_material(out, label, context)
    }

    /// Returns the peer's certificates in DER, with its own first.
    pub fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.session.peer_certificates()
    }

    /// Returns true once this side has completed the handshake (RFC 9001 §4.1.1). It stays true
    /// after the end of the connection.
    pub fn is_complete(&self) -> bool {
        self.progress >= Progress::Complete
    }

    /// Returns true once the peer is known to have completed the handshake, too (RFC 9001 §4.1.2).
    pub fn is_confirmed(&self) -> bool {
        self.progress == Progress::Confirmed
    }

    /// Checks whether the session is complete. Returns true only once.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if data of the Handshake level wasn't read.
    pub(in crate::connection) fn complete_now(&mut self) -> Result<bool, TransportError> {
        let now = self.progress == Progress::Running && !self.session.is_handshaking();
        if now {
            self.progress = Progress::Complete;
            self.begin_level(SpaceId::Data)?;
        }
        Ok(now)
    }

    /// Confirms the handshake. Returns true the first time.
    pub(in crate::connection) fn confirm(&mut self) -> bool {
        let now = self.progress == Progress::Complete;
        if now {
            self.progress = Progress::Confirmed;
        }
        now
    }

    /// Processes CRYPTO data.
    ///
    /// # Errors
    /// Returns CRYPTO_BUFFER_EXCEEDED, PROTOCOL_VIOLATION, or the session's error.
    pub(in crate::connection) fn on_crypto(
        &mut self,
        space: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let read_level = self.read_level;
        let level = self.crypto.level(space);
        if level.discarded {
            return Ok(());
        }
        let end = offset + data.len() as u64;
        // [9000 7.5 crypto-buffer] [9000 7.5 crypto-exceeded]
        if end.saturating_sub(level.receive.base()) > MAX_BUFFERED {
            return Err(TransportError::new(
                TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                "handshake data too far ahead",
            )
            .in_frame(crate::wire::frame::types::CRYPTO));
        }
        // [9001 4.1.3 old-level]
        if space < read_level && end > level.receive.highest() {
            return Err(violation("new handshake data at an old encryption level"));
        }
        if level.receive.pass(offset, data.len()) {
            return self.read(space, data);
        }
        level.receive.insert(offset, data);
        while let Some(chunk) = self.crypto.level(space).receive.read_chunk(usize::MAX) {
            self.read(space, &chunk)?;
        }
        Ok(())
    }

    fn read(&mut self, space: SpaceId, data: &[u8]) -> Result<(), TransportError> {
        self.begin_level(space)?;
        self.session
            // [9001 4.8 alerts-are-fatal]
            .read_handshake(data)
            .map_err(|error| crypto_error(&error))
    }

    /// Begins the level of `space`, so that no more messages are read at earlier levels.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if data of the previous level wasn't read.
    fn begin_level(&mut self, space: SpaceId) -> Result<(), TransportError> {
        if space > self.read_level {
            let below = self.read_level;
            let level = self.crypto.level(below);
            // [9001 4.1.3 unread-at-new-keys]
            if level.receive.highest() > level.receive.base() {
                return Err(violation(
                    "handshake data missing at an old encryption level",
                ));
            }
            self.read_level = space;
        }
        Ok(())
    }

    /// Lets the session write messages, passing new keys to `on_keys`.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if data of the level before the keys wasn't read.
    pub(in crate::connection) fn write(
        &mut self,
        mut on_keys: impl FnMut(KeyChange),
    ) -> Result<(), TransportError> {
        loop {
            let change = self.session.write_handshake(&mut self.scratch);
            if change.is_none() && self.scratch.is_empty() {
                return Ok(());
            }
            let bytes = core::mem::take(&mut self.scratch);
            let level = self.write_level;
            // [9001 4 retransmit-same-keys]
            self.crypto.level(level).send.write(&bytes);
            self.scratch = bytes;
            self.scratch.clear();
            if let Some(change) = change {
                self.write_level = match &change {
                    KeyChange::Handshake(_) => SpaceId::Handshake,
                    KeyChange::OneRtt(..) => SpaceId::Data,
                };
                if self.write_level == SpaceId::Handshake {
                    // A server gets 1-RTT keys before it has read all of the Handshake level.
                    self.begin_level(SpaceId::Handshake)?;
                }
                on_keys(change);
            }
        }
    }
}
